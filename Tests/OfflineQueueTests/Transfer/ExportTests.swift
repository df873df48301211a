import Foundation
import Testing

@testable import OfflineQueue

@Suite("Export here, import there")
struct ExportTests: TransferSuite {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

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

    private func uuids(_ lines: [String]) -> Set<String> {
        Set(
            lines.filter { $0.hasPrefix("{\"uuid\":\"") }.map { String($0.dropFirst(9).prefix(36)) }
        )
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

    @Test func anExportLeavesDamagedRowsOutAndSaysSo() async throws {
        try await recordWithoutNetwork()
        try store.execute("UPDATE sample SET flags = 99 WHERE id = 5")
        #expect(try export(store).last == #"{"samples":99,"damaged":1}"#)
    }
}
