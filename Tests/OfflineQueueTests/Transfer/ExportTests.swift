import Basics
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
        #expect(csv.count == 101 && csv[0].hasPrefix("uuid,time,time_uncertainty_ms,boot,"))
        #expect(csv[1].split(separator: ",", omittingEmptySubsequences: false).count == 15)
        #expect(csv[1].contains(",60,768,contactLost,103c0003,held"))
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

    /// Of the part of a minute that a file had, the other gateway made another average under the same identity.
    @Test func whatIsToBeImportedHasWholeMinutesOfAverages() async throws {
        let queue = try await store.open(clock)
        var terms = EnrollmentTerms.example("e")
        terms.resolution = "60s"
        let enrollment = try await queue.enroll(terms).id
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment)
        for _ in 0..<300 {
            try await queue.beat(assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let begin = ManualClock.midnight
        func export(
            _ since: Int64, _ until: Int64, as format: ExportFormat = .ndjson, now: UTC?
        ) throws -> ExportSummary {
            try SampleQueue.export(
                path: store.path, format: format,
                filter: ExportFilter(
                    since: begin + .seconds(since), until: begin + .seconds(until)),
                now: now
            ) { _ in }
        }
        #expect(try export(70, 130, now: nil).samples == 120)
        #expect(try export(60, 120, now: nil).samples == 60)
        #expect(try export(70, 130, as: .csv, now: nil).samples == 60)

        // The strap goes on recording: for two minutes more may come.
        let now = clock.read().wall
        var summary = try export(0, 600, now: now)
        #expect(summary.samples == 180 && summary.underWay == 120)
        summary = try export(0, 600, now: now + .seconds(180))
        #expect(summary.samples == 300 && summary.underWay == 0)
        #expect(try export(0, 600, as: .csv, now: now).samples == 300)
        try await queue.close()
        summary = try export(0, 600, now: now)
        #expect(summary.samples == 300 && summary.underWay == 0)
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

    /// All of a run of the store's own counted as known, also what it had recorded after the copy was made.
    @Test func aStoreThatWentBackInTimeTakesWhatItsOwnRunRecordedSince() async throws {
        let queue = try await store.open(clock)
        let (worn, other) = (try await Worn(queue), try await Worn(queue, 2))
        func record(_ count: Int) async throws {
            for bpm in UInt8(0)..<UInt8(count) {
                for one in [worn, other] { try await queue.beat(one.assignment, bpm: bpm, clock) }
                clock.advance(seconds: 1)
            }
            try await queue.flush()
        }
        try await record(20)
        // Of the first strap ten are done with when the copy is made, five more after that.
        func deliver(_ count: Int) async throws -> [PendingSample] {
            let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: count)
            try await queue.settle(
                enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) })
            return batch
        }
        var sent = try await deliver(10)
        let copy = try TestStore()
        try await queue.emptyLog()
        try FileManager.default.copyItem(atPath: store.path, toPath: copy.path)
        sent += try await deliver(5)
        try await record(30)
        let lines = try export(store)
        let whole = (try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100))
            .map(\.uuid)
        try await queue.close()

        let restored = try await copy.open(clock, bootID: "boot-2")
        try await restored.beat(other.assignment, clock)
        try await restored.flush()
        let before = try await restored.balance().stored
        var target = ImportTarget(enrollmentID: worn.enrollment.id, assignments: [1])
        let path = try file(lines, in: copy)
        var summary = try await restored.importSamples(from: path, into: target)
        #expect(summary.added == 30 && summary.known == 5 && summary.unsure == 0, "\(summary)")
        target = ImportTarget(enrollmentID: other.enrollment.id, assignments: [2])
        summary = try await restored.importSamples(from: path, into: target)
        #expect(summary.added == 30 && summary.known == 20 && summary.unsure == 0, "\(summary)")
        #expect(try await restored.balance().stored == before + 60)
        summary = try await restored.importSamples(from: path, into: target)
        #expect(summary.added == 0 && summary.known == 50, "\(summary)")

        let delivered = try await restored.deliverAll(worn.enrollment.id).map(\.uuid)
        #expect(Set(delivered).count == delivered.count)
        // The five that went out after the copy was made are sent again, as after any loss of the books.
        #expect(
            Set(delivered) == Set(whole).union(sent.suffix(5).map(\.uuid)), "\(delivered.count)")
        #expect(try await restored.deliverAll(other.enrollment.id).count == 51)
        clock.advance(seconds: 10 * 86_400)
        try await restored.prune()
        summary = try await restored.importSamples(from: path, into: target)
        #expect(summary.added == 0 && summary.known == 50, "\(summary)")
        #expect(try await restored.balance().isBalanced)
        #expect(try await restored.audit().isClean)
        try await restored.close()
    }

    /// The numbers that a run had given went with the patient, and an older file brought the samples back.
    @Test func whatWasErasedIsNotBroughtBackByAnOlderFile() async throws {
        var queue = try await store.open(clock)
        let (worn, other) = (try await Worn(queue), try await Worn(queue, 2))
        for bpm in UInt8(0)..<20 {
            for one in [worn, other] { try await queue.beat(one.assignment, bpm: bpm, clock) }
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let path = try file(export(store), in: store)
        try await queue.deliverAll(worn.enrollment.id)
        try await queue.forgetSensor(worn.sensor.id)
        try await queue.close()
        queue = try await store.open(clock, bootID: "boot-2")
        while try await !queue.erase(Erasure(enrollment: worn.enrollment.id)) {}
        let again = try await queue.enroll(.example("again", patient: "p-1"))
        var target = ImportTarget(enrollmentID: again.id, assignments: [worn.assignment.id])
        var summary = try await queue.importSamples(from: path, into: target)
        #expect(summary.added == 0 && summary.known == 20, "\(summary)")
        target = ImportTarget(
            enrollmentID: other.enrollment.id, assignments: [other.assignment.id])
        summary = try await queue.importSamples(from: path, into: target)
        #expect(summary.added == 0 && summary.known == 20, "\(summary)")
        #expect(try await queue.deliverAll(other.enrollment.id).count == 20)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    @Test func whatWasLostHereAndMayHaveBeenDeliveredIsNotTakenButCounted() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<30 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let path = try file(export(store), in: store)
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 10)
        try await queue.settle(
            enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) })
        try await queue.close()
        // Two that are done with, three that wait.
        try store.execute("DELETE FROM sample WHERE id IN (3, 4, 15, 16, 30)")
        let again = try await store.open(clock)
        let summary = try await again.importSamples(
            from: path, into: ImportTarget(enrollmentID: worn.enrollment.id))
        #expect(summary.added == 0 && summary.known == 27 && summary.unsure == 3, "\(summary)")
        // Two that followed one another, and one.
        #expect(summary.unsureSamples.map(\.samples) == [2, 1])
        #expect(summary.unsureSamples.map(\.reason) == [.lost, .lost])
        let begin = ManualClock.midnight
        #expect(summary.unsureSamples.first?.times == begin + .seconds(14)...begin + .seconds(15))
        #expect(summary.unsureSamples.last?.sensor == worn.sensor.address)
    }

    /// The run would give these numbers to samples of its own.
    @Test func aRunThatGoesOnTakesNothingUnderItsOwnNumbers() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<9 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        var lines = try export(store)
        let nonce = await queue.run.nonce
        for index in lines.indices.dropFirst().dropLast() {
            let here = SampleIdentity(runNonce: nonce, sample: Int64(index)).description
            let later = SampleIdentity(runNonce: nonce, sample: Int64(index + 5)).description
            #expect(lines[index].contains(here))
            lines[index] = lines[index].replacingOccurrences(of: here, with: later)
        }
        let summary = try await queue.importSamples(
            from: file(lines, in: store), into: ImportTarget(enrollmentID: worn.enrollment.id))
        #expect(summary.added == 0 && summary.known == 0 && summary.unsure == 9, "\(summary)")
        #expect(summary.unsureSamples.map(\.reason) == [.numberTaken, .runGoesOn])
        #expect(summary.unsureSamples.map(\.samples) == [4, 5])
    }

    /// The store went back to an older copy, and recorded on.
    @Test func whatHasTheNumberOfAnotherSampleIsListedAsThat() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<9 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        var lines = try export(store)
        for index in [3, 4, 6] {
            lines[index].replace(/"uptime_us":[0-9]+/, with: #""uptime_us":7000000"#)
        }
        let summary = try await queue.importSamples(
            from: file(lines, in: store), into: ImportTarget(enrollmentID: worn.enrollment.id))
        #expect(summary.added == 0 && summary.known == 6 && summary.unsure == 3, "\(summary)")
        #expect(summary.unsureSamples.map(\.reason) == [.numberTaken, .numberTaken])
        #expect(summary.unsureSamples.map(\.samples) == [2, 1])
    }

    @Test func anExportLeavesDamagedRowsOutAndSaysSo() async throws {
        try await recordWithoutNetwork()
        try store.execute("UPDATE sample SET flags = 99 WHERE id = 5")
        #expect(try export(store).last == #"{"samples":99,"damaged":1}"#)
    }
}
