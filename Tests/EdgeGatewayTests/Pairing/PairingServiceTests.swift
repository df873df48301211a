import Foundation
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Recording
import Testbed
import Testing

@testable import BlueZ
@testable import EdgeGateway

/// Pairing and forgetting with the daemon's own parts, against the simulated org.bluez.
@Suite(.timeLimit(.minutes(5))) struct PairingServiceTests {
    private static let strap = "C0:00:00:00:00:01"
    private static let passkey: UInt32 = 4711

    /// A watch got the advice for a strap.
    @Test func aWatchThatAdvertisesHeartRateAndSendsNoneIsToBroadcastIt() {
        let watch = InspectionFault.noHeartRate(isAdvertised: true).problem(passkeyGiven: false)
        #expect(watch.message.contains("0x180D") && watch.message.contains("0x2A37"))
        #expect(watch.advice.contains("switch its heart-rate broadcast on"))
        let other = InspectionFault.noHeartRate(isAdvertised: false).problem(passkeyGiven: false)
        #expect(other.advice.contains("no heart-rate strap"))
        #expect(watch.code == other.code)
    }

    /// The advice was that the strap may be paired elsewhere.
    @Test func whoeverSaysNoOrNothingIsToldThatAndNotThatTheStrapIsPairedElsewhere() {
        let refusal = InspectionFault.bondRefused(
            DBusFault(name: "org.bluez.Error.AuthenticationFailed"))
        func message(_ omission: PairingSession.Omission?) -> String {
            let problem = refusal.problem(passkeyGiven: false, omission)
            return problem.message + "; " + problem.advice
        }
        #expect(message(.unanswered).contains("not answered in time"))
        #expect(message(.declined).contains("answered with no"))
        #expect(message(.notTyped).contains("not typed into the strap"))
        #expect(message(.nobodyThere).contains("--passkey"))
        for omission in [PairingSession.Omission.unanswered, .declined, .notTyped, .nobodyThere] {
            #expect(!message(omission).contains("paired elsewhere"))
            let other = InspectionFault.noRadio.problem(passkeyGiven: false, omission)
            #expect(
                other.code == ProblemCode.radioLost.rawValue, "the radio went, whatever was asked")
        }
        #expect(message(nil).contains("paired elsewhere"))
    }

    /// It counted as no, with status 200.
    @Test func anAnswerThatAnswersNothingIsRefusedAndSaysWhatToSend() async throws {
        let place = try await Place()
        let questions = PairingQuestions(
            central: place.gateway.pairing.central, sessions: place.gateway.pairing.sessions)
        func refusal(_ passkey: Int?, _ agreed: Bool?) async -> ProblemReport? {
            let answer = PairingAnswerRequest(
                address: Self.strap, passkey: passkey, agreed: agreed)
            do {
                _ = try await questions.answer(answer, of: Self.strap)
                return nil
            } catch {
                return error as? ProblemReport
            }
        }
        #expect(await refusal(nil, nil)?.code == ProblemCode.badRequest.rawValue)
        #expect(await refusal(nil, true)?.code == ProblemCode.nothingAsked.rawValue)
        let report = try await place.pair {
            for agreed in [nil, true] {
                let refusal = await refusal(nil, agreed)
                #expect(refusal?.code == ProblemCode.badRequest.rawValue)
                #expect(refusal?.advice.contains("passkey") == true)
            }
        }
        #expect(report.firstBpm == 60, "the question stayed open")
        try await place.end()
    }

    private struct Place {
        let directory: URL
        let bus: PrivateBus
        let bluez: SimulatedBlueZ
        let gateway: Gateway
        private let running: [Task<Void, Never>]

        init(
            _ security: SimulatedStrap.Security = .passkeyShown(PairingServiceTests.passkey),
            changing: String? = nil
        ) async throws {
            directory = FileManager.default.temporaryDirectory.appending(
                path: "pairing-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            let bus = try await PrivateBus.start()
            self.bus = bus
            var strap = SimulatedStrap(
                address: changing ?? PairingServiceTests.strap, name: "HR",
                heart: try RecordedHeart.steady(milliseconds: 1000))
            strap.identity = PairingServiceTests.strap
            strap.security = security
            bluez = try await SimulatedBlueZ.start(
                on: bus, adapters: [SimulatedAdapter()], straps: [strap])
            let settings = try SettingsLoader(environment: [
                "EDGE_GATEWAY_STATE": directory.path
            ]).load()
            let clock = SystemClock(trust: .always)
            let central = Central(settings: CentralSettings(service: HeartRateService.service)) {
                () async throws(DBusFault) in try await DBusConnection.open(address: bus.address)
            }
            let gateway = Gateway(
                settings: settings,
                queue: try SampleQueue(
                    path: directory.path + "/queue.sqlite", clock: clock, bootID: "boot"),
                central: central, clock: clock,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            self.gateway = gateway
            let events = central.events()
            running = [
                Task { await central.run() },
                Task { for await batch in events { await gateway.recorder.take(batch) } },
            ]
        }

        /// Pairs the strap, and changes its assignment as another technician does while it asks for its code.
        func pair(while change: () async throws -> Void) async throws -> PairReport {
            let gateway = gateway
            let strap = PairingServiceTests.strap
            let pairing = Task {
                try await gateway.pairing.pair(
                    PairRequest(address: strap, patient: "1", attended: true))
            }
            #expect(await bluez.wait { $0.isPairing(strap) })
            while await gateway.pairing.sessions.session(of: strap)?.question == nil {
                await Task.yield()
            }
            try await change()
            let session = await gateway.pairing.sessions.session(of: strap)
            #expect(await session?.answer(.passkey(PairingServiceTests.passkey)) == true)
            return try await pairing.value
        }

        /// Who wears what.
        func patients() async throws -> [String?] {
            try await gateway.queue.openAssignments().map(\.patient)
        }

        func end() async throws {
            await gateway.recorder.stop()
            await gateway.pairing.central.stop(disconnecting: false)
            for task in running { await task.value }
            try await gateway.queue.close()
            await bluez.stop()
            await bus.stop()
            try FileManager.default.removeItem(at: directory)
        }
    }

    /// It was said that the strap does not advertise, or that bluetoothd is not running.
    @Test func aBluetoothdThatHangsIsNamedToWhoeverPairsOrScans() async throws {
        let place = try await Place()
        let recorder = place.gateway.recorder
        try await place.gateway.pairing.radio.wait()
        await recorder.take([.daemonHung(since: .zero)])
        let problem = await #expect(throws: ProblemReport.self) {
            try await place.gateway.pairing.radio.wait()
        }
        #expect(problem?.code == ProblemCode.bluetoothdHung.rawValue)
        #expect(problem?.advice == "systemctl restart bluetooth")
        await recorder.take([.daemonHung(since: nil)])
        try await place.gateway.pairing.radio.wait()
        try await place.end()
    }

    @Test func aStrapThatNobodyTouchesMeanwhileIsPaired() async throws {
        let place = try await Place()
        let report = try await place.pair {}
        #expect(report.firstBpm == 60)
        #expect(try await place.patients() == ["1"])
        #expect(await place.bluez.callCount("RemoveDevice") == 0)
        try await place.end()
    }

    @Test func aStrapThatAnotherPersonPairsMeanwhileStaysTheirs() async throws {
        let place = try await Place()
        let queue = place.gateway.queue
        let refusal = await #expect(throws: QueueError.self) {
            try await place.pair {
                _ = try await queue.pair(
                    address: Self.strap, details: SensorDetails(name: "bed 2"), enrollment: nil,
                    patient: "2")
            }
        }
        #expect(refusal?.code == .strapChanged)
        #expect(try await place.patients() == ["2"])
        #expect(try await queue.sensors().map(\.details.name) == ["bed 2"])
        #expect(await place.gateway.recorder.recorded.isEmpty, "nothing goes to the wrong patient")
        #expect(await place.bluez.callCount("RemoveDevice") == 1, "the attempt leaves no bond")
        try await place.end()
    }

    /// The bond was removed with which the strap is recorded for the other person's patient.
    @Test func ofTwoWhoPairAStrapAtOnceOneIsRefusedAndTheOthersBondStays() async throws {
        let place = try await Place(.encrypted)
        let gateway = place.gateway
        await place.bluez.setOnAir(Self.strap, false)
        let pairings = ["1", "2"].map { patient in
            Task {
                try await gateway.pairing.pair(
                    PairRequest(address: Self.strap, patient: patient))
            }
        }
        while await gateway.pairing.central.inspections < 2 { await Task.yield() }
        await place.bluez.setOnAir(Self.strap, true)
        let refusals = await [pairings[0].result, pairings[1].result].compactMap { result in
            if case .failure(let error) = result { error as? QueueError } else { nil }
        }
        #expect(refusals.map(\.code) == [.strapChanged])
        #expect(try await place.patients().count == 1)
        #expect(await gateway.recorder.recorded.count == 1)
        #expect(await place.bluez.callCount("RemoveDevice") == 0)
        try await place.end()
    }

    @Test func aStrapThatAnotherPersonForgetsMeanwhileStaysForgotten() async throws {
        let place = try await Place()
        let queue = place.gateway.queue
        let (sensor, _) = try await queue.pair(
            address: Self.strap, details: SensorDetails(), enrollment: nil, patient: "1")
        let refusal = await #expect(throws: QueueError.self) {
            try await place.pair { try await queue.forgetSensor(sensor.id) }
        }
        #expect(refusal?.code == .strapChanged)
        #expect(try await queue.sensors().isEmpty)
        #expect(try await place.patients().isEmpty)
        #expect(await place.gateway.recorder.recorded.isEmpty)
        try await place.end()
    }

    /// Its recording went on, to the patient who had worn it.
    @Test func aStrapWhoseNewAddressTheStoreDidNotTakeIsForgotten() async throws {
        let place = try await Place()
        let (queue, recorder) = (place.gateway.queue, place.gateway.recorder)
        let (changing, identity) = ("60:00:00:00:00:01", "C0:00:00:00:00:02")
        let (sensor, _) = try await queue.pair(
            address: changing, details: SensorDetails(), enrollment: nil, patient: "1")
        _ = try await queue.addSensor(address: identity)
        await recorder.record(address: changing, sensorID: sensor.id)
        await recorder.take([.renamed(from: changing, to: identity)])
        #expect(await recorder.address(of: sensor.id) == identity)
        _ = try await place.gateway.pairing.forget(address: changing)
        #expect(await recorder.address(of: sensor.id) == nil)
        try await place.end()
    }

    /// The refusal was that it does not advertise, and its bond was made.
    @Test func aRecordedStrapIsPairedAgainByItsChangingAddress() async throws {
        let changing = "4A:11:22:33:44:55"
        let place = try await Place(.encrypted, changing: changing)
        let gateway = place.gateway
        let (sensor, _) = try await gateway.queue.pair(
            address: Self.strap, details: SensorDetails(), enrollment: nil, patient: "1")
        await gateway.pairing.recording.follow(sensor, isWorn: true)
        let report = try await gateway.pairing.pair(PairRequest(address: changing))
        #expect(report.sensor.address == Self.strap)
        #expect(report.firstBpm == 60)
        #expect(try await place.patients() == ["1"])
        #expect(await gateway.recorder.recorded.count == 1)
        try await place.end()
        #expect(await gateway.recorder.session(of: Self.strap)?.latest?.bpm == 60)
    }

    @Test func aStrapThatIsRecordedUnderItsIdentityAddressAlreadyGoesOnSo() async throws {
        let place = try await Place()
        let (queue, recorder) = (place.gateway.queue, place.gateway.recorder)
        let (changing, identity) = ("60:00:00:00:00:01", "C0:00:00:00:00:02")
        var sensors: [Int64] = []
        for (address, patient) in [(changing, "1"), (identity, "2")] {
            let (sensor, _) = try await queue.pair(
                address: address, details: SensorDetails(), enrollment: nil, patient: patient)
            await recorder.record(address: address, sensorID: sensor.id)
            sensors.append(sensor.id)
        }
        await recorder.take([.renamed(from: changing, to: identity)])
        #expect(await recorder.address(of: sensors[1]) == identity)
        #expect(await recorder.address(of: sensors[0]) == changing)
        try await place.end()
    }
}
