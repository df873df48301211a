import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("What an import takes, and what it refuses")
struct ImportTests: TransferSuite {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test func samplesOfSeveralPeopleMustBeChosen() async throws {
        try await recordWithoutNetwork(2)
        let (there, queue, delivery) = try await gateway()
        let path = try file(export(store), in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            // The numbers alone did not say whose they are.
            ($0 as? QueueError)?.code == .invalidArgument
                && "\($0)".contains("; 2 (strap …") && "\($0)".contains(" UTC, 100 samples")
        }
        let summary = try await queue.importSamples(
            from: path, into: ImportTarget(enrollmentID: delivery, assignments: [2]))
        #expect(summary.added == 100 && summary.notSelected == 100)
        let other = try await queue.enroll(.example("other", patient: "p-10")).id
        let rest = try await queue.importSamples(
            from: path, into: ImportTarget(enrollmentID: other, assignments: [1]))
        #expect(rest.added == 100)
        #expect(try await queue.deliverAll(other).allSatisfy { $0.patient == nil && $0.flags == 1 })
        #expect(try await queue.deliverAll(delivery).allSatisfy { $0.flags == 2 })
        #expect(try await queue.sensors().count == 1, "foreign sensors are not for this radio")
        #expect(try await queue.audit().isClean)
    }

    /// The time between imported samples was told as time with data, to people and to destinations.
    @Test func anImportSaysNothingOfTheTimeBetweenItsSamples() async throws {
        try await recordWithoutNetwork()
        let (there, queue, delivery) = try await gateway()
        let own = try await queue.coverages(dayStartingAt: Coverage.dayStart(of: clock.read().wall))
        let path = try file(export(store), in: there)
        let summary = try await queue.importSamples(
            from: path, into: ImportTarget(enrollmentID: delivery))
        #expect(summary.added == 100)
        let coverages = try await queue.coverages(
            dayStartingAt: Coverage.dayStart(of: clock.read().wall))
        #expect(Set(coverages.keys) == Set(own.keys))
        clock.advance(seconds: 3 * 86_400)
        #expect(try await queue.nextLedgerEntries(enrollment: delivery, limit: 10).isEmpty)
        try await queue.close()
        var table: [UInt8] = []
        #expect(try SampleQueue.exportCoverage(path: there.path) { table += $0 } > 0)
        #expect(!String(decoding: table, as: UTF8.self).contains("A0:9E:1A:00:00:01"))
    }

    @Test func aSampleOfAnotherPatientIsRefused() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue, 3)
        try await queue.beat(worn.assignment, clock)
        try await queue.close()
        let (there, gateway, delivery) = try await gateway()
        let path = try file(export(store), in: there)
        await #expect {
            try await gateway.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            // The advice was to choose assignments or destinations, which did not help.
            ($0 as? QueueError)?.code == .patientRefused && "\($0)".contains("line 2")
                && "\($0)".contains("--enrollment")
        }
    }

    /// They were given the offset of the samples before the jump, and delivered.
    @Test func samplesThatAJumpHasHeldStayHeldWhereTheyAreImported() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue, 3)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 1)
        let years = Duration.seconds(2 * 365 * 86_400)
        clock.set { $0.wall += years }
        for _ in 0..<3 { try await queue.beat(worn.assignment, clock) }
        try await queue.close()
        let lines = try export(store)
        #expect(lines.count { $0.contains("\"time\"") } == 1)
        clock.set { $0.wall = $0.wall - years }
        let (there, gateway, _) = try await gateway()
        let delivery = try await gateway.enroll(.example("other", patient: "p-3")).id
        try await gateway.importSamples(
            from: file(lines, in: there), into: ImportTarget(enrollmentID: delivery))
        #expect(try await gateway.balance(of: .enrollment(delivery)).held == ["clock-unknown": 3])
        #expect(try await gateway.deliverAll(delivery).count == 1)
    }

    @Test func samplesWithoutATimeAreHeldUntilAPersonSetsIt() async throws {
        clock.set { $0.isTrusted = false }
        try await recordWithoutNetwork()
        let lines = try export(store)
        #expect(!lines[1].contains("\"time\""))
        clock.set { $0.isTrusted = true }
        let (there, queue, delivery) = try await gateway()
        try await queue.importSamples(
            from: file(lines, in: there), into: ImportTarget(enrollmentID: delivery))
        #expect(try await queue.balance().held == ["clock-unknown": 100])
        try await queue.release(bootID: "boot-1", wallOffset: .microseconds(1_796_000_000_000_000))
        #expect(
            try await queue.deliverAll(delivery).first?.time == .epoch + .seconds(1_796_000_100))
    }

    /// A file of one waiting sample measured at `time`.
    private func file(ofSampleAt time: String) throws -> String {
        let uuid = SampleIdentity(runNonce: 7 << 32, sample: 1, kind: .heartRate).description
        let lines = [
            #"{"format":"edge-gateway-samples","version":1}"#,
            #"{"uuid":"\#(uuid)","time":"\#(time)","boot":"b","uptime_us":5,"sensor":"A0","#
                + #""assignment":1,"flags":0,"frame":"0048","state":"pending"}"#,
            #"{"samples":1,"damaged":0}"#,
        ]
        return try file(lines, in: store)
    }

    @Test func theOldestSampleMayBeAnImportedOne() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        try await queue.importSamples(
            from: file(ofSampleAt: "2026-11-01T08:00:00.000000Z"),
            into: ImportTarget(enrollmentID: worn.enrollment.id))
        let oldest = UTCText.time("2026-11-01T08:00:00.000000Z")
        #expect(try await queue.balance().oldestUnsent == oldest)
        #expect(
            try await queue.balance(of: .enrollment(worn.enrollment.id)).oldestUnsent
                == oldest)
    }

    @Test(arguments: [
        ("1970-01-01T00:00:00.000000Z", false), ("2001-09-09T01:46:40.000000Z", false),
        ("2009-12-31T23:59:59.999999Z", false), ("2010-01-01T00:00:00.000000Z", true),
        ("2026-12-01T00:00:00.000000Z", true), ("2026-12-01T23:00:00.000000Z", true),
        ("2026-12-02T01:00:00.000000Z", false), ("2096-01-01T00:00:00.000000Z", false),
    ])
    func samplesThatCannotHaveBeenMeasuredThenAreRefusedByTheirLine(
        time: String, isTaken: Bool
    ) async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let path = try file(ofSampleAt: time)
        let target = ImportTarget(enrollmentID: worn.enrollment.id)
        if isTaken {
            #expect(try await queue.importSamples(from: path, into: target).added == 1)
            return
        }
        await #expect {
            try await queue.importSamples(from: path, into: target)
        } throws: {
            let text = "\($0)"
            return ($0 as? QueueError)?.code == .invalidFile && text.contains("line 2:")
                && text.contains(time.prefix(10)) && text.contains("before 2010-01-01")
        }
        #expect(try await queue.balance().stored == 0)
    }

    @Test(arguments: [
        ("", 1), ("{\"format\":\"something\",\"version\":1}", 1),
        ("{\"format\":\"edge-gateway-samples\",\"version\":2}", 1),
    ])
    func aForeignFileIsRefused(head: String, line: Int) async throws {
        let (there, queue, delivery) = try await gateway()
        let path = try file([head], in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line \(line):")
        }
    }

    @Test(arguments: [
        ("frame\":\"", "frame\":\"0x"), ("\"uptime_us\":1", "\"uptime_us\":-1"),
        ("\"uuid\":\"", "\"uuid\":\"0"), ("00Z", "00z"), ("T00:", "T27:"),
        ("2026-12-01", "2026-02-31"), ("\"held\"", "\"lost\""), ("\"boot-1\"", "\"\""),
        ("\"boot-1\"", "\"boot-2\""), ("\"flags\":1", "\"flags\":-1"), ("{", "["),
        ("sensor", "sens"),
        ("\"held\"", "\"held\",\"x\":\"" + String(repeating: "y", count: 20_000) + "\""),
    ])
    func aWrongLineIsNamedAndNothingIsImported(old: String, new: String) async throws {
        try await recordWithoutNetwork()
        var lines = try export(store)
        let range = try #require(lines[50].range(of: old))
        lines[50].replaceSubrange(range, with: new)
        let (there, queue, delivery) = try await gateway()
        let before = try await queue.balance()
        let path = try file(lines, in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line 51:")
        }
        #expect(try await queue.balance() == before)
    }

    /// Each was answered with `known: 1`.
    @Test(arguments: [
        (#""frame":"10[0-9a-f]{2}"#, #""frame":"10c8"#),
        (#""sensor":"[0-9A-F:]{17}""#, #""sensor":"C0:FF:EE:00:00:01""#),
        (#""uptime_us":[0-9]+"#, #""uptime_us":7000000"#),
        (#"T00:00:0"#, #"T01:00:0"#),
    ])
    func anotherSampleOfTheSameIdentityIsNotTakenForAKnownOne(
        pattern: String, other: String
    ) async throws {
        try await recordWithoutNetwork()
        let lines = try export(store)
        let (there, queue, delivery) = try await gateway()
        let target = ImportTarget(enrollmentID: delivery)
        _ = try await queue.importSamples(from: file(lines, in: there), into: target)
        var changed = lines
        changed[3] = lines[3].replacing(try Regex(pattern), with: other)
        #expect(changed[3] != lines[3])
        let summary = try await queue.importSamples(from: file(changed, in: there), into: target)
        #expect(summary.added == 0 && summary.known == lines.count - 3 && summary.unsure == 1)
        #expect(summary.unsureSamples.map(\.reason) == [.numberTaken])
        #expect(summary.unsureSamples.map(\.line) == [4])
        // The same within one file.
        let (elsewhere, fresh, deliveryThere) = try await self.gateway()
        var both = lines
        both.insert(changed[3], at: 4)
        both[both.count - 1] = both[both.count - 1].replacing(
            "\"samples\":\(lines.count - 2)", with: "\"samples\":\(lines.count - 1)")
        let once = try await fresh.importSamples(
            from: file(both, in: elsewhere), into: ImportTarget(enrollmentID: deliveryThere))
        #expect(once.added == lines.count - 2 && once.unsure == 1 && once.known == 0)
        #expect(once.unsureSamples.map(\.line) == [5])
    }

    /// A salvage took the row of such a run for another table's, and the samples were orphans.
    @Test func aRunThatASalvageWouldNotKnowIsRefused() async throws {
        let (there, queue, delivery) = try await gateway()
        try await recordWithoutNetwork()
        let nonce = SampleIdentity(runNonce: 77, sample: 5).description
        var lines = try export(store)
        lines[1].replace(/"uuid":"[^"]+"/, with: "\"uuid\":\"\(nonce)\"")
        let path = try file(lines, in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line 2:")
        }
    }

    @Test func anIdentityOfAnotherVersionIsRefused() async throws {
        try await recordWithoutNetwork()
        var lines = try export(store)
        // xxxxxxxx-xxxx-8xxx-…: the version is the fifteenth character.
        let uuid = try #require(lines[50].range(of: "\"uuid\":\""))
        let version = lines[50].index(uuid.upperBound, offsetBy: 14)
        #expect(lines[50][version] == "8")
        lines[50].replaceSubrange(version...version, with: "7")
        let (there, queue, delivery) = try await gateway()
        let path = try file(lines, in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line 51:")
        }
    }

    @Test func aFileThatIsCutOffAnywhereIsRefused() async throws {
        try await recordWithoutNetwork()
        let whole = (try export(store).joined(separator: "\n") + "\n").utf8
        let (there, queue, delivery) = try await gateway()
        let before = try await queue.balance()
        for length in stride(from: 0, to: whole.count - 2, by: 997) {
            let path = there.directory.appendingPathComponent("cut.ndjson").path
            try Data(whole.prefix(length)).write(to: URL(fileURLWithPath: path))
            await #expect {
                try await queue.importSamples(
                    from: path, into: ImportTarget(enrollmentID: delivery))
            } throws: {
                ($0 as? QueueError)?.code == .invalidFile
            }
        }
        #expect(try await queue.balance() == before)
    }
}
