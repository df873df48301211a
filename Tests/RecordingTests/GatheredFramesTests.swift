import Basics
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Synchronization
import Testing

/// Whether something has happened.
private final class Flag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}

@testable import BlueZ
@testable import Recording

/// Frames that have come and gather on the bus, while the recorder decides something that depends on them.
@Suite struct GatheredFramesTests {
    private static let address = "C0:00:00:00:00:01"

    /// A bus without bluetoothd that hands over, when it is asked for all that has come, what the test says.
    private final class Bus: BusConnection {
        private let inbox = AsyncStream<[DBusMessage]>.makeStream()
        private let handOver = Mutex<(@Sendable () async -> Void)?>(nil)
        private let isDeaf = Mutex(false)
        private let isHung = Mutex(false)
        let incomingLost: UInt64 = 0

        func whenAsked(_ body: @escaping @Sendable () async -> Void) {
            handOver.withLock { $0 = body }
        }

        /// Answers no question any more.
        func deafen() { isDeaf.withLock { $0 = true } }

        /// bluetoothd answers nothing any more.
        func hang() { isHung.withLock { $0 = true } }

        /// It answers again.
        func wake() { isHung.withLock { $0 = false } }

        func catchUp(number: UInt32) {
            guard !isDeaf.withLock({ $0 }) else { return }
            let handOver = handOver.withLock { body in
                defer { body = nil }
                return body
            }
            Task {
                await handOver?()
                inbox.continuation.yield([.caughtUp(number)])
            }
        }

        func request(
            _ message: DBusMessage, deadline: Duration
        ) async throws(DBusFault) -> DBusMessage {
            throw DBusFault(
                name: isHung.withLock(\.self)
                    ? DBusFault.noReply : "org.freedesktop.DBus.Error.NameHasNoOwner")
        }

        func send(_ message: DBusMessage) -> Bool { true }
        func addMatch(_ rule: String) async throws(DBusFault) {}
        func incoming() -> AsyncStream<[DBusMessage]> { inbox.stream }
        func gather(
            for pause: Duration, where isPatient: @escaping @Sendable (DBusMessage) -> Bool
        ) {}
        func listen(to value: DBusValue, as path: String) throws(DBusFault) -> UInt32 { 0 }
        func letGo(of number: UInt32) {}
        func close() { inbox.continuation.finish() }
    }

    /// A recorder of one strap, with its store and its radio.
    private struct Stage {
        let clock = HandClock()
        let bus = Bus()
        let directory: URL
        let queue: SampleQueue
        let recorder: Recorder
        let sensor: Sensor
        let first: Enrollment
        private let central: Central
        private let running: [Task<Void, Never>]

        init() async throws {
            directory = FileManager.default.temporaryDirectory.appending(
                path: "recorder-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            let queue = try SampleQueue(
                path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
            let central = Central(
                settings: CentralSettings(service: HeartRateService.service),
                clock: clock.forCentral,
                connect: { [bus] () async throws(DBusFault) in bus })
            let recorder = Recorder(
                queue: queue, central: central, clock: clock, policy: .clinical,
                needsContact: true, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            running = [
                Task { await central.run() },
                Task { for await batch in central.events() { await recorder.take(batch) } },
            ]
            // The bus is there.
            while await recorder.radio == .unknown { await Task.yield() }
            (self.queue, self.central, self.recorder) = (queue, central, recorder)
            sensor = try await queue.addSensor(address: address, details: SensorDetails())
            first = try await queue.enroll(Self.terms(patient: "1"))
            try await queue.assign(sensor: sensor.id, enrollment: first.id)
            await recorder.record(address: address, sensorID: sensor.id)
            await connect(at: 100)
        }

        /// The strap's link is made.
        func connect(at second: Double) async {
            await recorder.take([
                .link(
                    LinkChange(
                        address: address, state: .streaming(lastFrameAt: .zero), reason: .progress,
                        uptime: .zero + .seconds(second)))
            ])
        }

        /// The second patient wears the strap from now on.
        func wearBySecond() async throws -> Enrollment {
            let second = try await queue.enroll(Self.terms(patient: "2"))
            try await queue.assign(sensor: sensor.id, enrollment: second.id)
            return second
        }

        /// Nobody wears the strap any more, and it is not recorded.
        func takeOff() async throws {
            try await queue.forgetSensor(sensor.id)
            try await queue.addSensor(address: address)
            await recorder.forget(address)
        }

        static func terms(patient: String) -> EnrollmentTerms {
            EnrollmentTerms(
                name: patient, origin: "http://127.0.0.1:9",
                fhirBase: "http://127.0.0.1:9/FHIR/R5", clientID: "gw", patient: patient,
                device: nil, codeSystem: "https://w3id.org/openmhealth",
                code: "omh:heart-rate:2.0", identifierSystem: "urn:x")
        }

        func frame(_ seconds: Double) -> CentralEvent {
            frame(seconds, bpm: 60 + UInt8(Int(seconds) % 60))
        }

        func frame(_ seconds: Double, bpm: UInt8) -> CentralEvent {
            .frame(
                SensorFrame(
                    address: address, bytes: [0, bpm],
                    uptime: .zero + .seconds(seconds)))
        }

        /// Frames at these seconds, which come when the clock shows the last.
        func send(_ seconds: [Double]) async {
            clock.set(seconds.max() ?? 0)
            await recorder.take(seconds.map(frame))
        }

        /// The seconds at which the samples that go through an enrollment are dated.
        func seconds(of enrollment: Enrollment) async throws -> [Double] {
            try await queue.flush()
            return try await queue.samples(limit: 1_000).filter { $0.enrollmentID == enrollment.id }
                .map {
                    let time = try #require($0.time)
                    return (time - UTC(microseconds: 1_800_000_000_000_000)) / .seconds(1)
                }.sorted()
        }

        func end() async throws {
            await central.stop(disconnecting: false)
            bus.close()
            for task in running { await task.value }
            try await queue.close()
            try FileManager.default.removeItem(at: directory)
        }
    }

    /// A flood was taken for over 0.55 s after its last frame that had been handed over.
    @Test(arguments: [false, true])
    func theRestOfAFloodThatGathersStillIsWaitedFor(areEqual: Bool) async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        // bluetoothd hangs for forty seconds; half of what it kept is handed over.
        let flood = (1...40).map {
            stage.frame(150 + Double($0) / 1_000, bpm: 60 + UInt8(areEqual ? 0 : $0))
        }
        stage.bus.whenAsked { await stage.recorder.take(flood.suffix(20)) }
        stage.clock.set(150.02)
        await stage.recorder.take(Array(flood.prefix(20)))
        await stage.clock.hasSleeper()
        stage.clock.set(150.9)
        var times: [Double] = []
        while times.count < 30 { times = try await stage.seconds(of: stage.first) }
        #expect(times.count == 50)
        let ofFlood = times.filter { $0 > 110 }
        #expect(ofFlood.count == 40 && ofFlood.allSatisfy { $0 < 150.1 }, "\(ofFlood)")
        // Where all are the same, another program may have come meanwhile: then half of them are copies, and as many were
        // lost. Nothing tells, so that they are all kept and marked, and the times are as uncertain as that is.
        if !areEqual {
            #expect(zip(ofFlood, 111...).allSatisfy { abs($0 - Double($1)) < 2 }, "\(ofFlood)")
        }
        try await stage.end()
    }

    @Test func whatAStrapHasSentBeforeItChangesHandsIsTheFirstPatients() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        stage.clock.set(106)
        let second = try await stage.wearBySecond()
        // They have come, and are taken after the change.
        await stage.recorder.take([104, 105, 106.5].map(stage.frame))
        await stage.send([107])
        await stage.recorder.finish()
        #expect(try await stage.seconds(of: stage.first) == [101, 102, 103, 104, 105])
        #expect(try await stage.seconds(of: second) == [106.5, 107])
        #expect(try await stage.queue.unboundSamples().isEmpty)
        #expect(try await stage.queue.audit().isClean)
        #expect(try await stage.queue.gaps().isEmpty)
        try await stage.end()
    }

    @Test func whatAStrapHasSentBeforeItIsForgottenIsKept() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        stage.clock.set(106)
        try await stage.queue.forgetSensor(stage.sensor.id)
        stage.bus.whenAsked { await stage.recorder.take([104, 105, 106.2].map(stage.frame)) }
        await stage.recorder.forget(Self.address)
        await stage.send([108])
        #expect(try await stage.seconds(of: stage.first) == [101, 102, 103, 104, 105])
        let balance = try await stage.queue.balance()
        #expect(balance.received == 5 && balance.isBalanced)
        try await stage.end()
    }

    /// bluetoothd hung, and kept the frames of a strap that changed hands meanwhile: they were the second patient's. Those
    /// whose times tell go to the right one; those that may be of either wait for a person.
    @Test func noFrameOfAHangInWhichAStrapChangedHandsIsGuessed() async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        stage.clock.set(130.5)
        let second = try await stage.wearBySecond()
        stage.clock.set(150.04)
        await stage.recorder.take(
            (1...40).map { stage.frame(150 + Double($0) / 1_000, bpm: 60 + UInt8($0)) })
        await stage.recorder.finish()
        let (first, last) = try await (
            stage.seconds(of: stage.first), stage.seconds(of: second)
        )
        #expect(first.allSatisfy { $0 < 130.5 } && first.count > 25, "\(first)")
        #expect(last.allSatisfy { $0 > 130.5 } && last.count > 15, "\(last)")
        let unsure = try await stage.queue.unboundSamples()
        #expect((1...4).contains(unsure.first?.samples ?? 0), "\(unsure)")
        #expect(unsure.count == 1 && unsure.allSatisfy { !$0.isRecording && $0.isUnsure })
        #expect(first.count + last.count + (unsure.first?.samples ?? 0) == 50)
        #expect(try await stage.queue.audit().isClean)
        // A person gives them to the right patient.
        let number = try #require(unsure.first).assignment.id
        _ = try await stage.queue.bind(assignment: number, enrollment: second.id)
        #expect(try await stage.queue.unboundSamples().isEmpty)
        try await stage.end()
    }

    /// The patient was erased while bluetoothd hung, the strap went on with the next: the last frames were nobody's.
    @Test(arguments: [false, true])
    func aPatientWhoseLastFramesBluetoothdHoldsIsNotErased(isNoticed: Bool) async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        if isNoticed {
            await stage.recorder.take([.daemonHung(since: .zero + .seconds(110))])
        } else {
            stage.bus.hang()
        }
        stage.clock.set(130.5)
        _ = try await stage.wearBySecond()
        func erasure() async throws -> Erasure {
            let taken = try #require(await stage.recorder.takenUntil(of: [stage.sensor.id]))
            return Erasure(enrollment: stage.first.id, undelivered: .none(taken: taken))
        }
        await #expect { try await stage.queue.erase(try await erasure()) } throws: {
            ($0 as? QueueError)?.code == .samplesMayCome
        }
        // Somebody may give them up.
        try await stage.queue.check(Erasure(enrollment: stage.first.id))
        // It goes on, and hands over what it kept.
        await stage.recorder.take([.daemonHung(since: nil)])
        stage.bus.wake()
        stage.clock.set(150.04)
        await stage.recorder.take(
            (1...40).map { stage.frame(150 + Double($0) / 1_000, bpm: 60 + UInt8($0)) })
        await #expect { try await stage.queue.erase(try await erasure()) } throws: {
            ($0 as? QueueError)?.code == .samplesWait
        }
        let scope = BalanceScope.enrollment(stage.first.id)
        #expect(try await stage.queue.balance(of: scope).stored > 20)
        try await stage.end()
    }

    /// The store took its time, and it passed for certain that nothing came.
    /// The answer to a question for which 2 s are waited, first until that second: for bluetoothd and for the frames.
    private func answer<Answer: Sendable>(
        _ stage: Stage, from begin: Double, _ ask: @escaping @Sendable () async -> Answer
    ) async -> Answer {
        let isOver = Flag()
        let asked = Task {
            defer { isOver.set() }
            return await ask()
        }
        await stage.clock.hasSleeper(until: begin)
        var second = begin
        while !isOver.isSet {
            second += 1
            stage.clock.set(second)
            await Task.yield()
        }
        return await asked.value
    }

    @Test func aPatientWhoseFramesCannotBeTakenInTimeIsNotErased() async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        stage.bus.deafen()
        let taken = await answer(stage, from: 112) {
            await stage.recorder.takenUntil(of: [stage.sensor.id])
        }
        #expect(taken == nil)
        try await stage.end()
    }

    /// A frame may have been kept for 10 s by the strap, and be on its way for 0.25 s more.
    @Test func whatAStrapSendsIsTakenOnlyAsFarAsNothingOfItIsOnItsWay() async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        stage.clock.set(120)
        let taken = await stage.recorder.takenUntil(of: [stage.sensor.id])
        #expect(taken == .zero + .milliseconds(109_750))
        try await stage.end()
    }

    /// Each refused `erase` dated the frames of the strap's next wearer with less than was known a moment later.
    @Test func anErasureThatIsRefusedInAHangStoresNoFrameBeforeItsTime() async throws {
        let stage = try await Stage()
        for second in 101...110 { await stage.send([Double(second)]) }
        // They follow one another so closely that their times are not clear yet.
        stage.clock.set(150.02)
        await stage.recorder.take(
            (1...20).map { stage.frame(150 + Double($0) / 1_000, bpm: 60 + UInt8($0)) })
        let stored = try await stage.seconds(of: stage.first).count
        #expect(stored < 30)
        await stage.recorder.take([.daemonHung(since: .zero + .seconds(150))])
        let taken = await stage.recorder.takenUntil(of: [stage.sensor.id])
        #expect(taken == .zero + .milliseconds(129_500))
        #expect(try await stage.seconds(of: stage.first).count == stored)
        await stage.recorder.take([.daemonHung(since: nil)])
        _ = await stage.recorder.takenUntil(of: [stage.sensor.id])
        #expect(try await stage.seconds(of: stage.first).count == 30)
        try await stage.end()
    }

    @Test func aPatientWhoseStrapNobodyWearsIsErasedAlthoughBluetoothdHangs() async throws {
        let stage = try await Stage()
        try await stage.takeOff()
        stage.bus.hang()
        await stage.recorder.take([.daemonHung(since: .zero + .seconds(90))])
        let taken = try #require(await stage.recorder.takenUntil(of: [stage.sensor.id]))
        let erasure = Erasure(enrollment: stage.first.id, undelivered: .none(taken: taken))
        #expect(try await stage.queue.erase(erasure))
        #expect(try await stage.queue.audit().isClean)
        try await stage.end()
    }

    /// Frames that bluetoothd keeps go with the bond, and are lost.
    @Test(arguments: [false, true])
    func aStrapIsNotForgottenWhileBluetoothdHangs(isNoticed: Bool) async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        #expect(await stage.recorder.hasCome(from: Self.address))
        if isNoticed {
            await stage.recorder.take([.daemonHung(since: .zero + .seconds(103))])
        } else {
            stage.bus.hang()
        }
        #expect(await !stage.recorder.hasCome(from: Self.address))
        try await stage.end()
    }

    /// A disk held up the queue, the strap was forgotten meanwhile, and its last frames with it.
    @Test func aStrapIsNotForgottenBeforeItsFramesAreTaken() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        stage.bus.deafen()
        let hasCome = await answer(stage, from: 105) {
            await stage.recorder.hasCome(from: Self.address)
        }
        #expect(!hasCome)
        try await stage.end()
    }

    /// The link of a strap that was just paired was let go in a hang; the strap was forgotten, and its patient's last
    /// frames with it.
    @Test func aStrapIsNotForgottenWhileAHungBluetoothdIsToEndItsLink() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        stage.bus.hang()
        await stage.recorder.take([
            .link(
                LinkChange(
                    address: Self.address, state: .draining, reason: .released,
                    uptime: stage.clock.read().uptime))
        ])
        #expect(await !stage.recorder.hasCome(from: Self.address))
        try await stage.end()
    }

    @Test func aStrapThatIsAwayIsForgottenAlthoughBluetoothdHangs() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        await stage.recorder.take([
            .link(
                LinkChange(
                    address: Self.address, state: .absent, reason: .progress,
                    uptime: stage.clock.read().uptime)),
            .daemonHung(since: .zero + .seconds(103)),
        ])
        stage.bus.hang()
        #expect(await stage.recorder.hasCome(from: Self.address))
        try await stage.end()
    }

    /// A strap was paired, its link ended while bluetoothd hung, and frames of half a minute ago were dated now.
    @Test func framesOfALinkThatEndedInAHangAreNotDatedAtTheirArrival() async throws {
        let stage = try await Stage()
        await stage.recorder.forget(Self.address)
        await stage.recorder.take([
            .daemonHung(since: .zero + .seconds(103)),
            .link(
                LinkChange(
                    address: Self.address, state: .draining, reason: .released,
                    uptime: .zero + .seconds(110))),
        ])
        stage.clock.set(112)
        await stage.recorder.record(address: Self.address, sensorID: stage.sensor.id)
        stage.clock.set(140.01)
        await stage.recorder.take(
            (UInt8(0)..<3).map { stage.frame(140 + Double($0) / 1_000, bpm: 60 + $0) })
        await stage.recorder.finish()
        try await stage.queue.flush()
        let samples = try await stage.queue.nextPending(enrollment: stage.first.id, limit: 10)
            .samples
        let quarters = samples.map { $0.flags >> 24 }
        #expect(quarters.count == 3 && quarters.allSatisfy { $0 > 40 }, "\(quarters)")
        try await stage.end()
    }

    /// A connection that is lost leaves frames behind that the recorder has not taken yet.
    @Test func whatCameBeforeTheBusWasLostIsTakenFirst() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        stage.bus.deafen()
        let asked = Task { await stage.recorder.catchUp() }
        await stage.clock.hasSleeper()
        stage.bus.close()
        #expect(await asked.value)
        while await stage.recorder.radio != .noBus { await Task.yield() }
        #expect(await stage.recorder.catchUp(), "nothing is there, and nothing comes")
        try await stage.end()
    }

    /// A strap was forgotten, and paired with the next patient while the last frames before that gathered on the bus: they
    /// were the next patient's.
    @Test func aFrameFromBeforeThePairingIsNotTheNewPatients() async throws {
        let stage = try await Stage()
        try await stage.takeOff()
        stage.clock.set(103)
        #expect(await stage.recorder.beginPairing(Self.address))
        await stage.recorder.take([stage.frame(102.5), stage.frame(103.5)])
        let second = try await stage.queue.enroll(Stage.terms(patient: "2"))
        try await stage.queue.assign(
            sensor: stage.sensor.id, enrollment: second.id,
            since: stage.recorder.heardSince(of: Self.address, pairedSince: .zero))
        await stage.recorder.record(address: Self.address, sensorID: stage.sensor.id)
        await stage.recorder.finish()
        #expect(try await stage.seconds(of: second) == [103.5])
        try await stage.end()
    }

    /// Two people paired a strap at once, for two patients; the second one's patient got frames from before their command.
    @Test func aFrameHeardForAnotherPairingIsNotTheNewPatients() async throws {
        let stage = try await Stage()
        try await stage.takeOff()
        #expect(await stage.recorder.beginPairing(Self.address))
        await stage.send([101])
        stage.clock.set(102)
        let begun = stage.clock.read().uptime
        #expect(await !stage.recorder.beginPairing(Self.address))
        await stage.send([103])
        let since = await stage.recorder.heardSince(of: Self.address, pairedSince: begun)
        #expect(since == begun)
        let second = try await stage.queue.enroll(Stage.terms(patient: "2"))
        try await stage.queue.assign(
            sensor: stage.sensor.id, enrollment: second.id, since: since)
        await stage.recorder.record(address: Self.address, sensorID: stage.sensor.id)
        await stage.recorder.finish()
        #expect(try await stage.seconds(of: second) == [103])
        try await stage.end()
    }

    /// A strap's link was lost and made again while it was paired, and what it had sent before was dated at the second link.
    @Test func aFrameThatWaitedOverALossOfTheLinkKeepsItsTime() async throws {
        let stage = try await Stage()
        try await stage.takeOff()
        #expect(await stage.recorder.beginPairing(Self.address))
        await stage.send([101])
        for (state, second) in [(LinkState.seen, 102), (.streaming(lastFrameAt: .zero), 103)] {
            stage.clock.set(Double(second))
            await stage.recorder.take([
                .link(
                    LinkChange(
                        address: Self.address, state: state, reason: .linkLost,
                        uptime: .zero + .seconds(second)))
            ])
        }
        await stage.send([104])
        let second = try await stage.queue.enroll(Stage.terms(patient: "2"))
        try await stage.queue.assign(
            sensor: stage.sensor.id, enrollment: second.id, since: .zero + .seconds(101))
        await stage.recorder.record(address: Self.address, sensorID: stage.sensor.id)
        await stage.recorder.finish()
        #expect(try await stage.seconds(of: second) == [101, 104])
        try await stage.end()
    }

    /// `pair` said "first heartbeat: 255 bpm".
    @Test func aRateThatNoHeartHasIsNoProofOfLife() async throws {
        let stage = try await Stage()
        let band = "C0:00:00:00:00:07"
        #expect(await stage.recorder.beginPairing(band))
        func take(_ bpm: UInt8, at second: Double) async {
            await stage.recorder.take([
                .frame(
                    SensorFrame(
                        address: band, bytes: [0, bpm], uptime: .zero + .seconds(second)))
            ])
        }
        await take(255, at: 101)
        #expect(await stage.recorder.firstMeasurement(of: band, pairedSince: .zero) == nil)
        #expect(await stage.recorder.lastMeasurement(of: band, pairedSince: .zero)?.bpm == 255)
        await take(71, at: 102)
        await take(255, at: 103)
        #expect(await stage.recorder.firstMeasurement(of: band, pairedSince: .zero)?.bpm == 71)
        await stage.recorder.abandonPairing(band)
        try await stage.end()
    }

    /// `pair` told the rate of somebody who had worn the strap an hour before as its first heartbeat.
    @Test func aRateFromBeforeThePairingIsNoFirstHeartbeat() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        await stage.recorder.finish()
        func first(since second: Double) async -> UInt16? {
            await stage.recorder.firstMeasurement(
                of: Self.address, pairedSince: .zero + .seconds(second))?.bpm
        }
        #expect(await first(since: 101) != nil)
        #expect(await first(since: 3_600) == nil)
        let last = await stage.recorder.lastMeasurement(
            of: Self.address, pairedSince: .zero + .seconds(3_600))
        #expect(last == nil)
        try await stage.end()
    }

    /// What came before bonding told a strap's address waited for ever where it then was not paired.
    @Test func framesOfAStrapThatIsRenamedAndNotPairedWaitNoLonger() async throws {
        let stage = try await Stage()
        let first = "4F:00:00:00:00:02"
        let identity = "C0:00:00:00:00:02"
        #expect(await stage.recorder.beginPairing(first))
        await stage.recorder.take([
            .frame(
                SensorFrame(
                    address: first, bytes: [0, 60], uptime: .zero + .seconds(101))),
            .renamed(from: first, to: identity),
        ])
        #expect(await stage.recorder.firstMeasurement(of: identity, pairedSince: .zero)?.bpm == 60)
        await stage.recorder.abandonPairing(first)
        #expect(await stage.recorder.firstMeasurement(of: identity, pairedSince: .zero) == nil)
        #expect(await stage.recorder.beginPairing(identity))
        try await stage.end()
    }

    /// The gateway went on waiting for an answer that a closed connection does not give.
    @Test func aBusThatDoesNotAnswerKeepsNobodyWaiting() async throws {
        let stage = try await Stage()
        stage.bus.deafen()
        let asked = Task { await stage.recorder.catchUp() }
        await stage.clock.hasSleeper()
        stage.clock.set(160)
        #expect(await !asked.value)
        let again = Task { await stage.recorder.catchUp() }
        stage.bus.close()
        #expect(await again.value, "what had come was taken before its end")
        try await stage.end()
    }

    /// The first frame after a silence is kept back, for it may begin a flood: it was lost at a stop.
    @Test func aFrameThatCameWhileTheRadioStoppedIsStored() async throws {
        let stage = try await Stage()
        await stage.send([101, 102, 103])
        await stage.recorder.stop()
        await stage.send([107])
        await stage.recorder.finish()
        #expect(try await stage.seconds(of: stage.first) == [101, 102, 103, 107])
        try await stage.end()
    }

    /// Frames heard during a pairing waited for a further frame, which never came once the daemon was stopping.
    @Test func framesHeardDuringAPairingAreStoredThoughTheDaemonLeaves() async throws {
        let stage = try await Stage()
        try await stage.takeOff()
        #expect(await stage.recorder.beginPairing(Self.address))
        await stage.connect(at: 106)
        await stage.send([107])
        await stage.recorder.stop()
        await stage.recorder.finish()
        let second = try await stage.queue.enroll(Stage.terms(patient: "2"))
        try await stage.queue.assign(
            sensor: stage.sensor.id, enrollment: second.id, since: .zero + .seconds(107))
        await stage.recorder.record(address: Self.address, sensorID: stage.sensor.id)
        #expect(try await stage.seconds(of: second) == [107])
        try await stage.end()
    }

    /// A strap whose new address the store had not taken was cut off, and its bond removed, when the store was back.
    @Test func anAddressThatTheStoreDidNotTakeIsStoredLater() async throws {
        let stage = try await Stage()
        let identity = "C0:00:00:00:00:02"
        let other = try await stage.queue.addSensor(address: identity)
        await stage.recorder.take([.renamed(from: Self.address, to: identity)])
        #expect(await stage.recorder.address(of: stage.sensor.id) == identity)
        #expect(try await stage.queue.sensors().first?.address == Self.address)
        try await stage.queue.readdress(sensor: other.id, to: "C0:00:00:00:00:03")
        await stage.recorder.storeAddresses()
        #expect(try await stage.queue.sensors().first?.address == identity)
        try await stage.end()
    }
}
