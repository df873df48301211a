import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("Export here, import there")
struct ExportTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func export(
        _ store: TestStore, _ format: ExportFormat = .ndjson,
        _ selection: ExportSelection = .unsent, destination: String? = nil
    ) throws -> [String] {
        var bytes: [UInt8] = []
        try SampleQueue.export(
            path: store.path, format: format, selection: selection,
            filter: ExportFilter(destination: destination)
        ) {
            bytes += $0
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Writes lines to a file and gives its path.
    private func file(_ lines: [String], in store: TestStore) throws -> String {
        let path = store.directory.appendingPathComponent("samples.ndjson").path
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    private func facts(_ samples: [PendingSample]) -> [String] {
        samples.map { "\($0.uuid) \($0.timeMicroseconds) \($0.frame) \($0.flags)" }.sorted()
    }

    /// A site without a network: straps that record without an enrollment.
    private func recordWithoutNetwork(_ sensors: Int = 1) async throws {
        let queue = try await store.open(clock)
        for number in 1...sensors {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
            let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
            for bpm in UInt8(60)..<160 {
                try await queue.append(
                    Arrival(
                        assignmentID: assignment.id, at: clock.read(),
                        frame: [0x10, bpm, 0x00, 0x03], flags: UInt32(number)))
                clock.advance(seconds: 1)
            }
        }
        try await queue.close()
    }

    /// A connected gateway, elsewhere.
    private func gateway() async throws -> (TestStore, SampleQueue, Int64) {
        let there = try TestStore()
        let queue = try await there.open(clock, bootID: "elsewhere")
        let worn = try await Worn(queue, 7)
        for bpm in UInt8(0)..<50 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        try await queue.deliverAll(worn.enrollment.id)
        let delivery = try await queue.enroll(.example("imported", patient: "p-9")).id
        return (there, queue, delivery)
    }

    @Test func aLineSaysWhoWhenAndWhat() async throws {
        try await recordWithoutNetwork()
        let lines = try export(store)
        #expect(lines.count == 102)
        #expect(lines.first == #"{"format":"edge-gateway-samples","version":1}"#)
        #expect(lines.last == #"{"samples":100,"damaged":0}"#)
        let fields = try #require(
            try JSONSerialization.jsonObject(with: Data(lines[1].utf8)) as? [String: Any])
        #expect(fields["time"] as? String == "2026-12-01T00:00:00.000000Z")
        #expect(fields["bpm"] as? Int == 60 && fields["rr_1024"] as? [Int] == [768])
        #expect(fields["frame"] as? String == "103c0003" && fields["state"] as? String == "held")
        #expect(
            fields["sensor"] as? String == "A0:9E:1A:00:00:01"
                && fields["boot"] as? String == "boot-1")
        #expect(fields["patient"] == nil && fields["uptime_us"] as? Int == 100_000_000)

        let csv = try export(store, .csv)
        #expect(csv.count == 101 && csv[0].hasPrefix("uuid,time,boot,"))
        #expect(csv[1].split(separator: ",", omittingEmptySubsequences: false).count == 14)
        #expect(csv[1].contains(",60,768,1,103c0003,held"))
    }

    @Test func whatIsImportedIsDeliveredUnderItsIdentityOnce() async throws {
        try await recordWithoutNetwork()
        let lines = try export(store)
        let (there, queue, delivery) = try await gateway()
        let path = try file(lines, in: there)
        let target = ImportTarget(enrollmentID: delivery)
        #expect(try await queue.importSamples(from: path, into: target).added == 100)
        var again = try await queue.importSamples(from: path, into: target)
        #expect(again.added == 0 && again.known == 100)
        let sent = try await queue.deliverAll(delivery, limit: 30)
        #expect(sent.count == 100 && sent.allSatisfy { $0.flags == 1 })
        again = try await queue.importSamples(from: path, into: target)
        #expect(again.added == 0 && again.known == 100)
        clock.advance(seconds: 10 * 86_400)
        try await queue.prune()
        #expect(try await queue.importSamples(from: path, into: target).added == 0)
        #expect(try await queue.balance().isBalanced)
        #expect(try await queue.audit().isClean)

        // At home they are pending still, and would be delivered under the same identities.
        let home = try await store.open(clock)
        let enrollment = try await home.enroll(.example("later")).id
        try await home.bind(assignment: 1, enrollment: enrollment)
        #expect(facts(try await home.deliverAll(enrollment)) == facts(sent))
    }

    @Test func aSecondExportAddsOnlyWhatIsNew() async throws {
        try await recordWithoutNetwork()
        let (there, queue, delivery) = try await gateway()
        let target = ImportTarget(enrollmentID: delivery)
        // A part of the file first, as if it had been exported earlier.
        let lines = try export(store)
        let part = Array(lines[0...40]) + [#"{"samples":40,"damaged":0}"#]
        #expect(
            try await queue.importSamples(from: file(part, in: there), into: target).added == 40)
        var summary = try await queue.importSamples(from: file(lines, in: there), into: target)
        #expect(summary.added == 60 && summary.known == 40)

        // The next day it goes on, in a new run.
        let home = try await store.open(clock)
        let assignment = try #require(try await home.openAssignments().first)
        for bpm in UInt8(1)..<20 { try await home.beat(assignment, bpm: bpm, clock) }
        try await home.close()
        summary = try await queue.importSamples(from: file(export(store), in: there), into: target)
        #expect(summary.added == 19 && summary.known == 100)
        let sent = try await queue.deliverAll(delivery)
        #expect(Set(sent.map(\.uuid)).count == 119)
        #expect(try there.number("SELECT count(*) FROM imported") == 2, "ranges, not samples")
        #expect(try await queue.audit().isClean)
    }

    @Test func importedSamplesKeepTheirIdentitiesThroughASecondExport() async throws {
        try await recordWithoutNetwork()
        let (there, queue, delivery) = try await gateway()
        let path = try file(export(store), in: there)
        try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 1)
        try await queue.settle(
            enrollment: delivery,
            batch.map { SettledSample($0, .dead(reason: "r", diagnostics: "d")) })
        #expect(try await queue.deadLetters().map(\.uuid) == batch.map(\.uuid))
        #expect(
            try uuids(export(there))
                == uuids(export(store)).subtracting(batch.map(\.uuid)))
    }

    /// Ten samples of one strap with two further destinations: the own one has the first six, `home` the first
    /// three and refused the fourth, `lab` none.
    private func recordForThree() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        var elsewhere: [Int64] = []
        for name in ["home", "lab"] {
            elsewhere.append(try await queue.enroll(.elsewhere(name)).id)
            try await queue.add(
                destination: elsewhere.last ?? 0, to: worn.assignment.id, from: .now)
        }
        for bpm in UInt8(60)..<70 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        for (destination, count) in [(worn.enrollment.id, 6), (elsewhere[0], 3)] {
            let batch = try await queue.nextBatch(enrollment: destination, limit: count)
            try await queue.settle(
                enrollment: destination, batch.map { SettledSample($0, .delivered) })
        }
        let batch = try await queue.nextBatch(enrollment: elsewhere[0], limit: 1)
        try await queue.settle(
            enrollment: elsewhere[0],
            batch.map { SettledSample($0, .dead(reason: "invalid", diagnostics: "")) })
        try await queue.close()
    }

    @Test func anExportTellsForWhichDestinationsASampleWaits() async throws {
        try await recordForThree()
        let lines = try export(store)
        #expect(lines.count == 12)
        #expect(
            lines[1].hasSuffix(#""state":"settled","further":{"home":"settled","lab":"pending"}}"#))
        #expect(
            lines[4].hasSuffix(#""state":"settled","further":{"home":"dead","lab":"pending"}}"#))
        #expect(
            lines[10].hasSuffix(#""state":"pending","further":{"home":"pending","lab":"pending"}}"#)
        )
        #expect(try export(store, destination: "home").count == 2 + 6)
        #expect(try export(store, destination: "ward-1").count == 2 + 4)
        #expect(try export(store, .ndjson, .everything, destination: "home").count == 2 + 10)
        #expect(try export(store, destination: "nobody").last == #"{"samples":0,"damaged":0}"#)
        #expect(try export(store, .csv)[1].hasSuffix(",settled,home=settled lab=pending"))
    }

    @Test func anImportDeliversToEachDestinationWhatWaitsForIt() async throws {
        try await recordForThree()
        let (there, queue, _) = try await gateway()
        let own = try await queue.enroll(.example("ward-1", patient: "p-1")).id
        let home = try await queue.enroll(.elsewhere("home")).id
        let lab = try await queue.enroll(.elsewhere("lab")).id
        let path = try file(export(store), in: there)
        let target = ImportTarget(enrollmentID: own, further: ["home": home, "lab": lab])
        #expect(try await queue.importSamples(from: path, into: target).added == 10)
        #expect(try await queue.importSamples(from: path, into: target).known == 10)
        func bpm(_ samples: [PendingSample]) -> [UInt8] { samples.map { $0.frame[1] }.sorted() }
        let atHome = try await queue.nextBatch(enrollment: home, limit: 100)
        #expect(bpm(atHome) == Array(64...69) && atHome.allSatisfy { $0.patient == "p-1" })
        #expect(bpm(try await queue.deliverAll(own)) == Array(66...69))
        #expect(bpm(try await queue.deliverAll(lab)) == Array(60...69))
        #expect(bpm(try await queue.deliverAll(home)) == Array(64...69))
        for destination in [own, home, lab] {
            #expect(try await queue.balance(of: .enrollment(destination)).isBalanced)
        }
        #expect(try await queue.balance().unsent == 0)
        #expect(try await queue.audit().isClean)
    }

    @Test func aDestinationThatIsNotHereEndsAnImportBeforeItBegins() async throws {
        try await recordForThree()
        let (there, queue, _) = try await gateway()
        let own = try await queue.enroll(.example("ward-1", patient: "p-1")).id
        let home = try await queue.enroll(.elsewhere("home")).id
        let path = try file(export(store), in: there)
        let before = try await queue.balance()
        await #expect {
            try await queue.importSamples(
                from: path, into: ImportTarget(enrollmentID: own, further: ["home": home]))
        } throws: {
            ($0 as? QueueError)?.code == .invalidArgument && "\($0)".contains("lab")
        }
        #expect(try await queue.balance() == before)
        let summary = try await queue.importSamples(
            from: path,
            into: ImportTarget(enrollmentID: own, further: ["home": home], without: ["lab"]))
        #expect(summary.added == 6 && summary.settled == 4)
    }

    @Test(arguments: [
        #""further":{"":"pending"}"#, #""further":{"x":"lost"}"#, #""further":["x"]"#,
    ])
    func aWrongListOfDestinationsIsRefused(further: String) async throws {
        try await recordForThree()
        var lines = try export(store)
        let range = try #require(
            lines[3].range(of: #""further":{"home":"settled","lab":"pending"}"#))
        lines[3].replaceSubrange(range, with: further)
        let (there, queue, delivery) = try await gateway()
        let path = try file(lines, in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line 4:")
        }
    }

    private func uuids(_ lines: [String]) -> Set<String> {
        Set(
            lines.filter { $0.hasPrefix("{\"uuid\":\"") }.map { String($0.dropFirst(9).prefix(36)) }
        )
    }

    @Test func samplesOfSeveralPeopleMustBeChosen() async throws {
        try await recordWithoutNetwork(2)
        let (there, queue, delivery) = try await gateway()
        let path = try file(export(store), in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidArgument && "\($0)".contains("1, 2")
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
            ($0 as? QueueError)?.code == .invalidArgument && "\($0)".contains("line 2")
        }
    }

    @Test func ownSamplesComeBackAsKnown() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<10 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let path = try file(export(store), in: store)
        try await queue.deliverAll(worn.enrollment.id)
        let summary = try await queue.importSamples(
            from: path, into: ImportTarget(enrollmentID: worn.enrollment.id))
        #expect(summary.added == 0 && summary.known == 10)
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
            try await queue.deliverAll(delivery).first?.timeMicroseconds == 1_796_000_100_000_000)
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

    @Test func anExportLeavesDamagedRowsOutAndSaysSo() async throws {
        try await recordWithoutNetwork()
        try store.execute("UPDATE sample SET flags = 99 WHERE id = 5")
        #expect(try export(store).last == #"{"samples":99,"damaged":1}"#)
    }

    @Test func timesAreReadBackAsWritten() {
        for time: Int64 in [
            0, 1, 951_782_399_999_999, 951_782_400_000_000, 1_709_164_800_000_000,
            4_107_542_399_000_001, UTCText.microsecondsMax,
        ] {
            #expect(UTCText.text(time).flatMap(UTCText.microseconds) == time)
        }
        #expect(UTCText.text(951_782_400_000_000) == "2000-02-29T00:00:00.000000Z")
        #expect(UTCText.text(-1) == nil && UTCText.text(.max) == nil)
        #expect(UTCText.microseconds("2026-13-01T00:00:00.000000Z") == nil)
    }
}
