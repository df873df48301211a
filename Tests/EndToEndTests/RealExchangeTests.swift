import Basics
import Foundation
import GATTHeartRate
import Testbed
import Testing

/// The real program with simulated straps against a real exchange, which Tests/RealExchange/run starts: each sample
/// is there once, with the right patient, rate and time, by the exchange's own database.
@Suite(
    .serialized,
    .enabled(if: RealExchange.isThere, "make test-all RINGS=real-exchange EXCHANGE=FOLDER"))
struct RealExchangeTests {
    /// What is delivered before the straps stop, at least.
    private static let samplesMin = 40
    /// From a strap's frame to when the gateway has it, on a busy machine. Frames are a second apart; which of them
    /// a sample is shows its rate as well.
    private static let delayMax = Duration.seconds(5)

    @Test(.timeLimit(.minutes(10)))
    func whoIsInvitedDeliversEachSampleOnce() async throws {
        let exchange = try RealExchange()
        try await Self.deliver(through: exchange, ["e0", "e1"], TestWorld.Setup()) { world in
            try await Self.enroll(exchange, world)
        }
    }

    /// The exchange keeps them beside its own observations, where it can; an older one is not told of them.
    @Test(.timeLimit(.minutes(10)))
    func theGapsAreThereOnceWhereTheExchangeTakesThem() async throws {
        let exchange = try RealExchange()
        try await Self.deliver(through: exchange, ["e0", "e1"], TestWorld.Setup()) { world in
            try await Self.enroll(exchange, world)
        } then: { world, _ in
            // The silence is over, and the ledger is looked at after a start.
            _ = await world.gateway.stop()
            try await world.gateway.start()
            await world.bluez.setSendsFrames(true)
            try await world.eventually("more samples") {
                $0.balance.delivered >= Self.samplesMin + 20
            }
            let takesLedger = try await exchange.takesLedger()
            for _ in 0..<2 {
                _ = try await world.settle()
                _ = await world.gateway.stop()
                try await world.gateway.start()
                guard takesLedger else { continue }
                try await world.eventually("gaps at the exchange") { _ in
                    let told = try await exchange.gaps()
                    return exchange.facts.patients.allSatisfy { patient in
                        told.contains { $0.patient == patient.id }
                    }
                }
            }
            guard takesLedger else { return }
            let gaps = try await exchange.gaps()
            #expect(Set(gaps.map(\.identifier)).count == gaps.count, "a gap is there twice")
            let ledger = try await world.command("gaps", "--last", "1d", "--json")
            for gap in gaps { #expect(ledger.contains("\"\(gap.cause)\"")) }
            print("\(gaps.count) gaps are at the real exchange")
        }
    }

    /// Books that said "delivered" of what was gone there.
    @Test(.timeLimit(.minutes(10)))
    func whatABackupLacksIsThereOnceAfterOneCommand() async throws {
        let exchange = try RealExchange()
        try await Self.deliver(through: exchange, ["e0", "e1"], TestWorld.Setup()) { world in
            try await Self.enroll(exchange, world)
        } then: { world, before in
            try await exchange.loseHalf(after: before)
            for name in ["e0", "e1"] {
                try await world.command(
                    "queue", "redeliver", "--since", "2020-01-01", "--enrollment", name, "--yes")
            }
        }
    }

    /// What waited for one person went to the next who was given the number.
    @Test(.timeLimit(.minutes(10)))
    func whileANumberMeansAnotherPersonNothingIsSentUntilSomebodyConfirmsIt() async throws {
        let exchange = try RealExchange()
        try await Self.deliver(through: exchange, ["e0", "e1"], TestWorld.Setup()) { world in
            try await Self.enroll(exchange, world)
        } then: { world, _ in
            try await Self.giveNumberToAnother(exchange, world, born: "1901-02-03", ["e0"])
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func whileANumberOfAPractitionersPatientMeansAnotherPersonNothingIsSentForIt() async throws {
        let exchange = try RealExchange()
        try await Self.deliver(through: exchange, ["ward", "ward"], TestWorld.Setup()) { world in
            let file = world.gateway.directory.appending(path: "key.json").path
            try #"{"key":"\#(exchange.facts.practitionerKey)"}"#.write(
                toFile: file, atomically: true, encoding: .utf8)
            chmod(file, 0o600)
            try await world.command(
                "enroll", "--practitioner-key-file", file, "--name", "ward", "--exchange",
                exchange.facts.url)
        } then: { world, _ in
            let patient = exchange.facts.patients[0].id
            try await Self.giveNumberToAnother(
                exchange, world, born: "1902-03-04", ["ward", "--patient", patient])
        }
    }

    /// The first patient's number comes to mean another person, until somebody says it is the same one.
    private static func giveNumberToAnother(
        _ exchange: RealExchange, _ world: TestWorld, born: String, _ confirmed: [String]
    ) async throws {
        let patient = exchange.facts.patients[0].id
        try await exchange.setBirthDate(of: patient, born)
        _ = await world.gateway.stop()
        let last = try await exchange.lastRow()
        try await world.gateway.start()
        await world.bluez.setSendsFrames(true)
        try await world.eventually("held") {
            $0.balance.held["patient-changed", default: 0] > 3
        }
        let sent = try await exchange.rows(after: last)
        #expect(!sent.contains { $0.patient == patient })
        try await world.gateway.succeed(["confirm", "patient", "--yes"] + confirmed)
    }

    @Test(.timeLimit(.minutes(10)))
    func aRelayWithAPractitionersKeyDeliversEachSampleOnce() async throws {
        let exchange = try RealExchange()
        try await RelayStage.run { stage in
            var setup = TestWorld.Setup()
            setup.settings = stage.settings
            let relay = try await stage.start(
                exchange: exchange.facts.url, practitionerKey: exchange.facts.practitionerKey,
                device: nil)
            for patient in exchange.facts.patients { try await stage.allow(patient.id) }
            try await Self.deliver(through: exchange, ["nats", "nats"], setup) { world in
                _ = try await stage.addWhenItListens(to: world.gateway)
            }
            await relay.stop()
        }
    }

    private static func enroll(_ exchange: RealExchange, _ world: TestWorld) async throws {
        for (index, patient) in exchange.facts.patients.enumerated() {
            try await world.command(
                "enroll", "-", "--name", "e\(index)", input: patient.link)
        }
    }

    /// - Parameters:
    ///   - enrollments: of the straps, in the order of the exchange's patients.
    ///   - enroll: makes them.
    ///   - event: happens when everything is delivered, with the number of the last observation before it; then
    ///     everything is delivered anew.
    private static func deliver(
        through exchange: RealExchange, _ enrollments: [String], _ setup: TestWorld.Setup,
        _ enroll: (TestWorld) async throws -> Void,
        then event: (TestWorld, Int) async throws -> Void = { _, _ in }
    ) async throws {
        let before = try await exchange.lastRow()
        var setup = setup
        setup.straps = enrollments.count
        try await TestWorld.run(setup) { world in
            try await enroll(world)
            let patients = exchange.facts.patients
            for (index, enrollment) in enrollments.enumerated() {
                let words =
                    ["pair", TestWorld.addresses[index], "--enrollment", enrollment]
                    + (["nats", "ward"].contains(enrollment)
                        ? ["--patient", patients[index].id] : [])
                try await world.gateway.succeed(words)
            }
            try await world.eventually("delivered") { $0.balance.delivered >= samplesMin }
            _ = try await world.settle()
            try await event(world, before)
            let status = try await world.settle()
            #expect(status.balance.addsUp && status.balance.balanced)
            let rows = try await exchange.rows(after: before)
            #expect(rows.count == status.balance.delivered)
            #expect(rows.allSatisfy { $0.identifier != nil }, "a row has no identifier")
            #expect(Set(rows.map(\.identifier)).count == rows.count, "a sample is there twice")
            for (index, patient) in patients.enumerated() {
                let sent = await world.bluez.framesSent(TestWorld.addresses[index])
                expect(rows.filter { $0.patient == patient.id }, are: sent)
            }
            #expect(await world.exchange.storedCount() == 0)
            print("\(rows.count) samples of \(patients.count) patients are at the real exchange")
        }
    }

    /// Compares a patient's rows with the frames of the strap.
    private static func expect(_ rows: [RealExchange.Row], are sent: [SentFrame]) {
        let (now, uptime) = (UTC.now(), Uptime.now())
        let worn = sent.compactMap { frame -> (bpm: Double, at: UTC)? in
            guard let measurement = try? HeartRateMeasurement(frame: frame.bytes),
                Plausibility.judge(measurement).isEmpty
            else { return nil }
            return (Double(measurement.bpm), now - (uptime - frame.uptime))
        }
        #expect(rows.count == worn.count)
        #expect(rows.map(\.bpm) == worn.map(\.bpm))
        for (row, frame) in zip(rows, worn) {
            let delay = UTC(microseconds: row.microseconds) - frame.at
            #expect(
                (Duration.milliseconds(-100)...delayMax).contains(delay),
                "\(delay) from the strap to the gateway")
        }
    }
}

/// An exchange that Tests/RealExchange/run has started, and its database.
struct RealExchange {
    /// What it writes down.
    struct Facts: Decodable {
        struct Patient: Decodable {
            var id, link: String
        }

        var url, database, practitionerKey: String
        var patients: [Patient]
    }

    /// An observation, oldest first.
    struct Row: Decodable {
        var patient: String
        var bpm: Double
        var microseconds: Int64
        var identifier: String?
    }

    private static let variable = "REAL_EXCHANGE"
    static let isThere = ProcessInfo.processInfo.environment[variable] != nil

    let facts: Facts

    init() throws {
        let path = try #require(ProcessInfo.processInfo.environment[Self.variable])
        facts = try JSONDecoder().decode(Facts.self, from: Data(contentsOf: URL(filePath: path)))
    }

    /// The number of the last observation.
    func lastRow() async throws -> Int {
        let text = try await ask("select coalesce(max(id), 0) from core_observation")
        return try #require(Int(text.trimmingCharacters(in: .whitespacesAndNewlines)))
    }

    /// The observations that came after one.
    func rows(after last: Int) async throws -> [Row] {
        let text = try await ask(
            """
            select coalesce(json_agg(r order by r.microseconds, r.id), '[]') from (
                select o.id, o.subject_patient_id::text as patient,
                    (o.omh_data->'body'->'heart_rate'->>'value')::float as bpm,
                    (extract(epoch from (o.omh_data->'body'->'effective_time_frame'->>'date_time')::timestamptz)
                        * 1000000)::bigint as microseconds,
                    i.value as identifier
                from core_observation o left join core_observationidentifier i on i.observation_id = o.id
                where o.id > \(last)) r
            """)
        return try JSONDecoder().decode([Row].self, from: Data(text.utf8))
    }

    /// Loses every other observation after one, as a backup that is older does.
    func loseHalf(after last: Int) async throws {
        let lost = "select id from core_observation where id > \(last) and id % 2 = 0"
        _ = try await ask(
            """
            delete from core_observationidentifier where observation_id in (\(lost));
            delete from core_observation where id in (\(lost))
            """)
    }

    /// A gap beside the observations.
    struct Gap: Decodable {
        var patient: String
        var cause: String
        var identifier: String
    }

    /// Whether it says that it keeps what the ledger has.
    func takesLedger() async throws -> Bool {
        let outcome = try await Command.run(
            "/usr/bin/curl", ["-s", "\(facts.url)/FHIR/R5/metadata"])
        return outcome.output.contains("X-JHE-FHIR-Source-ID")
    }

    func gaps() async throws -> [Gap] {
        let text = try await ask(
            """
            select coalesce(json_agg(r), '[]') from (
                select s.patient_id::text as patient, a.fhir_resource_id as identifier,
                    a.fhir_data->'dataAbsentReason'->'coding'->1->>'code' as cause
                from core_fhirauxresource a join core_fhirsource s on s.id = a.fhir_source_id
                where s.fhir_base_url = 'urn:x-edge-gateway:ledger' and a.fhir_data ? 'dataAbsentReason') r
            """)
        return try JSONDecoder().decode([Gap].self, from: Data(text.utf8))
    }

    /// Gives a patient's number to another person, as a database that is made anew does.
    func setBirthDate(of patient: String, _ date: String) async throws {
        _ = try await ask("update core_patient set birth_date = '\(date)' where id = \(patient)")
    }

    private func ask(_ query: String) async throws -> String {
        let outcome = try await Command.run(
            "/usr/bin/psql",
            [
                "-h", facts.database, "-U", "postgres", "-d", "exchange", "-v", "ON_ERROR_STOP=1",
                "-qAtX", "-c", query,
            ])
        guard outcome.status == 0 else { throw SystemFault("psql: \(outcome.complaint)") }
        return outcome.output
    }
}
