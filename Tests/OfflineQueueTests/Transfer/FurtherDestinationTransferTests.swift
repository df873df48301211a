import Foundation
import Testing

@testable import OfflineQueue

@Suite("Samples of several destinations, from one gateway to another")
struct FurtherDestinationTransferTests: TransferSuite {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

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
            lines[1].hasSuffix(
                #""state":"delivered","further":{"home":"delivered","lab":"pending"}}"#))
        #expect(
            lines[4].hasSuffix(#""state":"delivered","further":{"home":"dead","lab":"pending"}}"#))
        #expect(
            lines[10].hasSuffix(#""state":"pending","further":{"home":"pending","lab":"pending"}}"#)
        )
        #expect(try export(store, destination: "home").count == 2 + 6)
        #expect(try export(store, destination: "ward-1").count == 2 + 4)
        #expect(try export(store, .ndjson, .everything, destination: "home").count == 2 + 10)
        let refused = #expect(throws: QueueError.self) {
            try export(store, destination: "nobody")
        }
        #expect(refused?.code == .unknownReference)
        #expect(try export(store, .csv)[1].hasSuffix(",delivered,home=delivered lab=pending"))
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

    /// Samples went to a destination that was to be left out, because its name was mistyped.
    @Test func aNameThatNothingHasCannotBeLeftOut() async throws {
        try await recordForThree()
        let (there, queue, _) = try await gateway()
        let own = try await queue.enroll(.example("ward-1", patient: "p-1")).id
        let further = [
            "home": try await queue.enroll(.elsewhere("home")).id,
            "lab": try await queue.enroll(.elsewhere("lab")).id,
            "ward": try await queue.enroll(.elsewhere("ward")).id,
        ]
        let path = try file(export(store), in: there)
        let before = try await queue.balance()
        await #expect {
            try await queue.importSamples(
                from: path,
                into: ImportTarget(enrollmentID: own, further: further, without: ["lap"]))
        } throws: {
            ($0 as? QueueError)?.code == .invalidArgument && "\($0)".contains("lap")
        }
        #expect(try await queue.balance() == before)
        // The same command for each of several files: in this one nothing waits for the ward.
        let summary = try await queue.importSamples(
            from: path,
            into: ImportTarget(enrollmentID: own, further: further, without: ["lab", "ward"]))
        #expect(summary.added == 6)
    }

    @Test(arguments: [
        #""further":{"":"pending"}"#, #""further":{"x":"lost"}"#, #""further":["x"]"#,
    ])
    func aWrongListOfDestinationsIsRefused(further: String) async throws {
        try await recordForThree()
        var lines = try export(store)
        let range = try #require(
            lines[3].range(of: #""further":{"home":"delivered","lab":"pending"}"#))
        lines[3].replaceSubrange(range, with: further)
        let (there, queue, delivery) = try await gateway()
        let path = try file(lines, in: there)
        await #expect {
            try await queue.importSamples(from: path, into: ImportTarget(enrollmentID: delivery))
        } throws: {
            ($0 as? QueueError)?.code == .invalidFile && "\($0)".contains("line 4:")
        }
    }
}
