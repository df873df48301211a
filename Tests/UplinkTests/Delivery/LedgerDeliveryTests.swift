import Basics
import Foundation
import Testbed
import Testing

@testable import OfflineQueue
@testable import Uplink

/// Takes samples and the ledger as a script says.
private actor LedgerDestination: Destination {
    nonisolated let takesLedger: Bool
    nonisolated let mayRace = false
    var samplesAnswer: DeliveryAnswer?
    var ledgerFault: String?
    /// The assignment of which it takes nothing.
    private var unknown: Int64?
    /// The assignment of which it refuses everything for good.
    private var refused: Int64?
    private var entriesMax = Int.max
    private var passes: @Sendable () -> Void = {}
    private var isOff = false
    private(set) var sizes: [Int] = []
    private(set) var points = 0
    private(set) var entries: [LedgerEntry] = []
    private(set) var attempts = 0

    init(takesLedger: Bool) { self.takesLedger = takesLedger }

    func set(samples: DeliveryAnswer?, ledger: String?) {
        samplesAnswer = samples
        ledgerFault = ledger
    }

    func know(allBut assignment: Int64?) { unknown = assignment }
    func refuse(_ assignment: Int64) { refused = assignment }
    func take(atMost entries: Int) { entriesMax = entries }
    func take(while passing: @escaping @Sendable () -> Void) { passes = passing }
    func put(off: Bool) { isOff = off }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        if let samplesAnswer { return samplesAnswer }
        self.points += points.count
        return .entries(points.map { _ in EntryAnswer(.stored) })
    }

    func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        attempts += 1
        passes()
        if isOff { return .later }
        if let ledgerFault { return .failed(ledgerFault) }
        sizes.append(entries.count)
        guard entries.count <= entriesMax else { return .tooMany("too large") }
        let verdicts = entries.map { entry -> LedgerVerdict in
            if entry.assignmentID == refused { return .refused }
            return entry.assignmentID == unknown ? .waits : .stored
        }
        self.entries += zip(entries, verdicts).filter { $1 == .stored }.map(\.0)
        return verdicts.allSatisfy { $0 == .stored }
            ? .stored : .partly(verdicts, "the patient is unknown")
    }

    func isHealthy() async -> Bool { true }
    func isMended(_ reason: HoldReason) async -> Bool { false }
}

@Suite struct LedgerDeliveryTests {
    private struct Scene {
        let scratch: Scratch
        let clock = StillClock(wall: UTC(microseconds: 1_795_334_400_000_000))
        let queue: SampleQueue
        let destination: LedgerDestination
        let runner: DeliveryRunner
        private(set) var assignments: [Assignment] = []

        /// Straps of which there is data, a silence of a minute, and data.
        init(
            takesLedger: Bool = true, straps: Int = 1, pauses: [Int] = [1, 1, 60, 1, 1],
            settings: DeliverySettings = DeliverySettings()
        ) async throws {
            scratch = try Scratch()
            queue = try SampleQueue(
                path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
            let enrollment = try await queue.enroll(
                EnrollmentTerms(
                    name: "e", kind: .destination, origin: "file:///e", fhirBase: "", patient: "1",
                    identifierSystem: "i"))
            for strap in 1...straps {
                let sensor = try await queue.addSensor(
                    address: "A0:9E:1A:00:00:0\(strap)", details: SensorDetails())
                assignments.append(
                    try await queue.assign(sensor: sensor.id, enrollment: enrollment.id))
            }
            for pause in pauses {
                clock.advance(by: .seconds(pause))
                let now = clock.read()
                try await queue.append(
                    contentsOf: assignments.map {
                        Arrival(sensorID: $0.sensorID, at: now, frame: [0, 60])
                    })
            }
            try await queue.flush()
            destination = LedgerDestination(takesLedger: takesLedger)
            runner = DeliveryRunner(
                enrollment: enrollment, queue: queue, destination: destination, clock: clock,
                logger: .quiet, settings: settings)
        }

        func pass(_ seconds: Int) async {
            clock.advance(by: .seconds(seconds))
            _ = await runner.advance()
        }
    }

    @Test func theLedgerFollowsTheSamples() async throws {
        let scene = try await Scene()
        _ = await scene.runner.advance()
        #expect(await scene.destination.points == 5)
        #expect(await scene.destination.entries.count == 1)
        for _ in 0..<20 { await scene.pass(60) }
        #expect(await scene.destination.attempts == 1, "nothing new, no request")
        try await scene.queue.close()
    }

    @Test func aDestinationThatTakesNoneIsNotAsked() async throws {
        let scene = try await Scene(takesLedger: false)
        _ = await scene.runner.advance()
        #expect(await scene.destination.points == 5)
        #expect(await scene.destination.attempts == 0)
        try await scene.queue.close()
    }

    @Test func aLedgerThatIsNotTakenWaitsAndSamplesGoOn() async throws {
        let scene = try await Scene()
        await scene.destination.set(samples: nil, ledger: "the table is missing")
        _ = await scene.runner.advance()
        #expect(await scene.destination.points == 5)
        #expect(await scene.runner.facts.partialFault == "gaps are not taken: the table is missing")
        for _ in 0..<10 { await scene.pass(60) }
        #expect(await scene.destination.attempts == 3, "every five minutes")
        await scene.destination.set(samples: nil, ledger: nil)
        for _ in 0..<6 { await scene.pass(60) }
        #expect(await scene.destination.entries.count == 1)
        #expect(await scene.runner.facts.partialFault == nil)
        try await scene.queue.close()
    }

    @Test(arguments: [
        DeliveryAnswer.held(.forbidden, retryAt: nil), .unclear("500"), .notSent(retryAt: nil),
    ])
    func whileSamplesAreNotTakenTheLedgerWaits(answer: DeliveryAnswer) async throws {
        let scene = try await Scene()
        await scene.destination.set(samples: answer, ledger: nil)
        for _ in 0..<20 { await scene.pass(60) }
        #expect(await scene.destination.attempts == 0)
        try await scene.queue.close()
    }

    /// The ledger of all patients stopped for good when the server did not know one of them.
    @Test func aPatientWhomTheServerDoesNotKnowHoldsUpTheOwnLedgerAlone() async throws {
        let scene = try await Scene(straps: 3)
        let unknown = scene.assignments[1].id
        await scene.destination.know(allBut: unknown)
        _ = await scene.runner.advance()
        let fault = "gaps are not taken: the patient is unknown"
        #expect(await scene.destination.entries.map(\.assignmentID) == [1, 3])
        #expect(await scene.runner.facts.partialFault == fault)
        // Nothing of the others' comes twice, and their days go out.
        for _ in 0..<3 { await scene.pass(86_400) }
        let told = await scene.destination.entries.dropFirst(2)
        #expect(Set(told.map(\.assignmentID)) == [1, 3])
        let days = told.filter { if case .coverage = $0.content { true } else { false } }
        #expect(days.count == told.count && days.count >= 4)
        #expect(await scene.runner.facts.partialFault == fault)
        await scene.destination.know(allBut: nil)
        await scene.pass(300)
        let late = await scene.destination.entries.filter { $0.assignmentID == unknown }
        #expect(late.count == 1 + days.count / 2)
        #expect(await scene.runner.facts.partialFault == nil)
        try await scene.queue.close()
    }

    /// Why a gap was given up was forgotten in the same round, and nothing told that it is missing there.
    @Test func howManyGapsWereRefusedIsSaidForAsLongAsTheDeliveryRuns() async throws {
        let scene = try await Scene(straps: 3)
        await scene.destination.refuse(scene.assignments[1].id)
        _ = await scene.runner.advance()
        #expect(await scene.destination.entries.map(\.assignmentID) == [1, 3])
        for _ in 0..<10 {
            let told = await scene.runner.facts.partialFault
            #expect(told == "1 gap was refused: the patient is unknown")
            await scene.pass(60)
        }
        #expect(await scene.destination.attempts == 1, "it is over")
        try await scene.queue.close()
    }

    /// A destination of 100 samples a request got 500 entries.
    @Test func aRequestHasNoMoreEntriesThanItMayHaveSamples() async throws {
        var settings = DeliverySettings()
        settings.batchSamplesMax = 2
        let scene = try await Scene(pauses: [1, 60, 60, 60, 60, 60], settings: settings)
        for _ in 0..<5 { await scene.pass(60) }
        #expect(await scene.destination.sizes == [2, 2, 1])
        try await scene.queue.close()
    }

    @Test func samplesThatBecomeDueGoBeforeTheRestOfTheLedger() async throws {
        var settings = DeliverySettings()
        settings.batchSamplesMax = 1
        let scene = try await Scene(pauses: [1, 60, 60, 60, 60, 60], settings: settings)
        let (clock, pause) = (scene.clock, settings.interval)
        // Each request of the ledger takes longer than the samples may wait.
        await scene.destination.take { clock.advance(by: pause) }
        _ = await scene.runner.advance()
        #expect(await scene.destination.entries.count == 1)
        // The rest does not wait for its next round.
        for _ in 0..<4 { _ = await scene.runner.advance() }
        #expect(await scene.destination.entries.count == 5)
        try await scene.queue.close()
    }

    @Test func aLedgerThatIsNotTakenYetIsNoFault() async throws {
        let scene = try await Scene()
        await scene.destination.put(off: true)
        for _ in 0..<10 { await scene.pass(60) }
        #expect(await scene.runner.facts.partialFault == nil)
        #expect(await scene.destination.attempts == 2, "every five minutes")
        await scene.destination.put(off: false)
        for _ in 0..<6 { await scene.pass(60) }
        #expect(await scene.destination.entries.count == 1)
        try await scene.queue.close()
    }

    /// The same 500 entries went again and again to a proxy that takes less.
    @Test func entriesThatAreTooManyGoInSmallerRequests() async throws {
        let scene = try await Scene(pauses: [1, 60, 60, 60, 60, 60])
        await scene.destination.take(atMost: 1)
        for _ in 0..<20 { await scene.pass(60) }
        #expect(await scene.destination.sizes == [5, 2, 1, 1, 1, 1, 1])
        #expect(await scene.destination.entries.count == 5)
        #expect(await scene.runner.facts.partialFault == nil)
        try await scene.queue.close()
    }

    /// One entry that a server refuses stopped the whole ledger there for good.
    @Test(arguments: [
        ("postgrest", 400, #"{"code":"22P02","message":"invalid input syntax"}"#, true),
        ("webhook", 400, "{}", false), ("webhook", 422, "{}", false),
    ])
    func anEntryThatIsRefusedIsFoundByItself(
        kind: String, status: Int, body: String, isByItsOwnWord: Bool
    ) async throws {
        let transport = ScriptedTransport { request in
            String(decoding: request.body, as: UTF8.self).contains("boot-82-1")
                ? .json(status, body)
                : .success(
                    HTTPAnswer(
                        status: 201,
                        fields: ["preference-applied": "resolution=ignore-duplicates"]))
        }
        let settings =
            kind == "webhook"
            ? Self.webhook : ["url": "https://host.example", "token": "t"]
        let destination = try Self.kind(kind, settings).make(
            DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
        guard case .tooMany = await destination.deliver(ledger: [Self.gap, Self.unplaced]) else {
            Issue.record("they do not go by themselves")
            return
        }
        // A server that takes none may yet take this one; of one that takes others, nothing more is to be expected.
        for isOver in [isByItsOwnWord, true] {
            let answer = await destination.deliver(ledger: [Self.unplaced])
            let wanted: [LedgerVerdict] = [isOver ? .refused : .waits]
            guard case .partly(wanted, let words) = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(!words.isEmpty)
            #expect(await destination.deliver(ledger: [Self.gap]) == .stored)
        }
    }

    // MARK: - What leaves the machine

    private static let gap = LedgerEntry(
        id: "boot-81-1", sensorID: 3, patient: "40001",
        .gap(
            .outOfRange, from: UTC(microseconds: 1_763_798_400_000_000),
            until: UTC(microseconds: 1_763_798_472_500_000), length: .microseconds(72_500_000)))
    private static let unplaced = LedgerEntry(
        id: "boot-82-1", sensorID: 3, patient: nil,
        .gap(.clockUnknown, from: nil, until: nil, length: nil))

    private static func kind(
        _ name: String, _ settings: [String: String]
    ) throws -> any HTTPKind {
        try #require(try DestinationRegistry.destination(name, settings) as? any HTTPKind)
    }

    private static func body(_ request: HTTPRequest?) throws -> String {
        String(decoding: try #require(request).body, as: UTF8.self)
    }

    private static let webhook = [
        "url": "https://host.example/in", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ]
    private static let context = RequestContext(patient: nil, seconds: 1_795_334_401)

    @Test func aGapIsALineOfItsOwnAndNamesThePatientOnlyWhenAsked() throws {
        let kind = try Self.kind("webhook", Self.webhook)
        let request = kind.request(ledger: [Self.gap, Self.unplaced], Self.context)
        #expect(
            try Self.body(request) == """
                {"patient":null,"sensor":{"id":3},"gap":{"id":"boot-81-1","cause":"out-of-range",\
                "from":"2025-11-22T08:00:00.000000Z","until":"2025-11-22T08:01:12.500000Z",\
                "seconds":72.5}}
                {"patient":null,"sensor":{"id":3},"gap":{"id":"boot-82-1","cause":"clock-unknown"}}

                """)
        let named = try Self.kind("webhook", Self.webhook.merging(["patient": "id"]) { $1 })
        let line = try Self.body(named.request(ledger: [Self.gap], Self.context))
        #expect(line.hasPrefix(#"{"patient":"40001","#))
        #expect(
            try Self.body(kind.request(ledger: [], Self.context)).isEmpty)
        let off = try Self.kind("webhook", Self.webhook.merging(["gaps": "no"]) { $1 })
        #expect(off.request(ledger: [Self.gap], Self.context) == nil)
    }

    @Test func aGapIsAPointOfInfluxAndOneWithoutATimeIsLeftOut() throws {
        let kind = try Self.kind("influx", ["url": "http://127.0.0.1:8086", "database": "ward"])
        let request = kind.request(ledger: [Self.gap, Self.unplaced], Self.context)
        #expect(
            try Self.body(request)
                == "heart_rate_gap,sensor=3,cause=out-of-range seconds=72.5 1763798400000000000\n")
    }

    /// A strap that was paired anew has two coverages of the day; the second replaced the first.
    @Test func theCoveragesOfTwoAssignmentsOnOneDayStayTwoInInflux() throws {
        let kind = try Self.kind("influx", ["url": "http://127.0.0.1:8086", "database": "ward"])
        let entries = [7, 8].map { assignment in
            LedgerEntry(
                id: "day-\(assignment)", assignmentID: assignment, sensorID: 3, patient: nil,
                content: .coverage(day: 20_414, Coverage(dayStart: UTC(day: 20_414))),
                cursor: LedgerCursor())
        }
        let body = try Self.body(kind.request(ledger: entries, Self.context))
        let lines = body.split(separator: "\n")
        #expect(
            lines.map { $0.split(separator: " ").last } == [
                "1763769600000000007", "1763769600000000008",
            ])
    }

    @Test func aGapIsARowOfATableOfItsOwn() throws {
        let kind = try Self.kind(
            "postgrest",
            ["url": "https://host.example", "token": "eyJ.eyJ.x", "patient": "id"])
        let request = try #require(
            kind.request(ledger: [Self.gap, Self.unplaced], Self.context))
        #expect(request.target.hasPrefix("/heart_rate_gap?on_conflict=owner,id&columns=id,"))
        #expect(
            try Self.body(request) == #"""
                [{"id":"boot-81-1","sensor":"3","patient":"40001","cause":"out-of-range",\#
                "began_at":"2025-11-22T08:00:00.000000Z","ended_at":"2025-11-22T08:01:12.500000Z",\#
                "seconds":72.5},{"id":"boot-82-1","sensor":"3","cause":"clock-unknown"}]
                """#)
    }

    @Test func aFilesLedgerStandsInAFileBesideAndHoldsEachEntryOnce() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        for _ in 0..<2 {
            let destination = FileDestination(path: path, patient: "7", takesLedger: true)
            #expect(await destination.deliver(ledger: [Self.gap]) == .stored)
            #expect(await destination.deliver(ledger: [Self.gap, Self.unplaced]) == .stored)
        }
        let text = try String(contentsOfFile: scratch.path + "/points.gaps.ndjson", encoding: .utf8)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.last?.hasPrefix(#"{"patient":"7","sensor":{"id":3},"gap":{"#) == true)
    }
}
