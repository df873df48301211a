import Basics
import Foundation
import HTTPTypes
import OfflineQueue
import Testing

@testable import EdgeGateway

/// The store's reports as programs and people get them.
@Suite struct QueueReportTests {
    private static let noon = Date(timeIntervalSince1970: 1_796_126_400)
    private static let long = String(repeating: "a very long name ", count: 10)

    private static let balance = BalanceReport(
        received: 10, stored: 9, undecodable: 1, refused: [:], delivered: 3, pending: 2,
        held: ["not-enrolled": 2], dead: 1, dropped: ["purged": 1], buffered: 0, balanced: true)
    private static let salvage = SalvagedStoreReport(
        at: noon, brokenFile: "queue.sqlite.broken-1", cause: "malformed", stored: 10,
        storedAt: noon, carried: 8, damaged: 1, orphaned: 0, unknown: 2, done: true,
        acknowledged: false)
    private static let queue = QueueReport(
        balance: balance, destinations: [], oldestUnsent: noon, usedBytes: 3 << 20,
        reclaimableBytes: 1 << 20, logBytes: 0, maxBytes: 2 << 30, fullPolicy: "refuse-new",
        full: false, clockUnknownBoots: 1, salvages: [salvage])

    private static func sample(_ name: String) -> SampleReport {
        SampleReport(
            id: 4711, time: noon, sensor: 1, address: "…00:01", name: name, enrollment: "e1",
            bpm: 72, state: "held", reason: "no-consent")
    }

    private static func letter(_ name: String) -> DeadLetterReport {
        DeadLetterReport(
            id: 4711, uuid: "00000000-0000-8000-8000-000000126700", time: noon, died: nil,
            sensor: 1, address: "…00:01", name: name, enrollment: "e1", bpm: 72, frame: "0048",
            reason: "422", diagnostics: "{'omh_data': [\"'value' is a required property\"]}")
    }

    private func json(_ report: some Encodable) throws -> String {
        String(decoding: try ReportCoding.encoder().encode(report), as: UTF8.self)
    }

    @Test func theStoreIsOneObject() throws {
        #expect(
            try json(Self.queue)
                == #"{"balance":{"balanced":true,"buffered":0,"dead":1,"delivered":3,"#
                + #""doubled":0,"dropped":{"purged":1},"held":{"not-enrolled":2},"pending":2,"received":10,"#
                + #""refused":{},"stored":9,"undecodable":1},"clock_unknown_boots":1,"#
                + #""destinations":[],"full":false,"#
                + #""full_policy":"refuse-new","log_bytes":0,"max_bytes":2147483648,"#
                + #""oldest_unsent":"2026-12-01T12:00:00Z","reclaimable_bytes":1048576,"#
                + #""salvages":[{"acknowledged":false,"at":"2026-12-01T12:00:00Z","#
                + #""broken_file":"queue.sqlite.broken-1","carried":8,"cause":"malformed","#
                + #""damaged":1,"done":true,"orphaned":0,"stored":10,"#
                + #""stored_at":"2026-12-01T12:00:00Z","unknown":2}],"used_bytes":3145728}"#)
    }

    @Test func samplesAndLettersAreLists() throws {
        #expect(
            try json(SamplesReport(samples: [Self.sample("Ada")], more: true))
                == #"{"more":true,"samples":[{"address":"…00:01","bpm":72,"enrollment":"e1","#
                + #""id":4711,"name":"Ada","reason":"no-consent","sensor":1,"state":"held","#
                + #""time":"2026-12-01T12:00:00Z"}]}"#)
        #expect(
            try json(DeadLettersReport(letters: [Self.letter("Ada")], more: false))
                == #"{"letters":[{"address":"…00:01","bpm":72,"diagnostics":"{'omh_data': "#
                + #"[\"'value' is a required property\"]}","enrollment":"e1","frame":"0048","#
                + #""id":4711,"name":"Ada","reason":"422","sensor":1,"#
                + #""time":"2026-12-01T12:00:00Z","uuid":"00000000-0000-8000-8000-000000126700"}],"#
                + #""more":false}"#)
    }

    @Test func requestsAreReadInSnakeCase() throws {
        let purge = try ReportCoding.decoder().decode(
            PurgeRequest.self, from: Data(#"{"older_than_hours": 3, "dead": true}"#.utf8))
        #expect(purge.olderThanHours == 3 && purge.dead == true)
        #expect(
            try json(
                DrainReport(
                    delivered: 5, dead: 1, dropped: 2, left: 0, held: ["not-enrolled": 2],
                    destinations: [
                        .init(name: "e1", delivered: 5, dead: 1, dropped: 2, left: 0, held: [:])
                    ]))
                == #"{"dead":1,"delivered":5,"destinations":[{"dead":1,"delivered":5,"dropped":2,"#
                + #""held":{},"left":0,"name":"e1"}],"dropped":2,"held":{"not-enrolled":2},"left":0}"#
        )
        #expect(
            try json(
                ImportReport(
                    added: 1, known: 2, unsure: 5, unsureSamples: [], settled: 3, notSelected: 4))
                == #"{"added":1,"known":2,"not_selected":4,"settled":3,"unsure":5,"#
                + #""unsure_samples":[]}"#)
        #expect(
            try json(
                HourReport(
                    sensor: 1, address: "…00:01", name: "", hour: Self.noon, samples: 60,
                    meanBpm: 71.5, lowestBpm: 60, highestBpm: 90))
                == #"{"address":"…00:01","highest_bpm":90,"hour":"2026-12-01T12:00:00Z","#
                + #""lowest_bpm":60,"mean_bpm":71.5,"name":"","samples":60,"sensor":1}"#)
    }

    /// The store while destinations wait; a sample of the only strap goes to each of them.
    private static func draining(
        _ destinations: [(name: String, delivered: Int, pending: Int)],
        held: [String: Int] = [:], buffered: Int = 0
    ) -> QueueReport {
        var report = queue
        report.balance.held = [:]
        report.destinations = destinations.map { name, delivered, pending in
            var books = balance
            (books.delivered, books.pending) = (delivered, pending)
            books.held = name == "study" ? held : [:]
            return DestinationBooksReport(name: name, balance: books)
        }
        (report.balance.delivered, report.balance.pending) =
            (destinations[0].delivered, destinations[0].pending)
        report.balance.buffered = buffered
        return report
    }

    /// It ended with 0 while samples waited for a further destination.
    @Test func drainWaitsForEachDestinationByItself() {
        let goal = DrainGoal(Self.draining([("e1", 10, 2), ("study", 0, 12)]))
        #expect(goal.report(on: goal.begun).left == 14)
        // The one goes on delivering what is recorded meanwhile; the other stands still.
        let later = goal.report(on: Self.draining([("e1", 40, 1), ("study", 3, 40)]))
        #expect(later.left == 9 && later.delivered == 33)
        #expect(later.destinations.map(\.left) == [0, 9])
        #expect(
            later.text == """
                33 samples went out; waiting: 9, held: 0
                  9 waiting for study
                """)
        let held = goal.report(
            on: Self.draining([("e1", 40, 1), ("study", 3, 0)], held: ["paused": 37]))
        #expect(held.left == 0 && held.held == ["paused": 37])
        #expect(held.text.hasSuffix("  37 held for study: paused (edge-gateway status)"))
        let done = goal.report(on: Self.draining([("e1", 40, 1), ("study", 12, 28)]))
        #expect(done.left == 0 && done.held.isEmpty)
    }

    /// It said "10 samples went out".
    @Test func drainDoesNotSayThatWithheldSamplesWentOut() {
        let goal = DrainGoal(Self.draining([("e1", 0, 10)]))
        var later = Self.draining([("e1", 0, 0)])
        later.destinations[0].balance.dropped = ["purged": 1, "zeroRate": 10]
        let report = goal.report(on: later)
        #expect(report.delivered == 0 && report.dropped == 10 && report.left == 0)
        #expect(report.text == "0 samples went out, 10 dropped; waiting: 0, held: 0")
    }

    @Test func drainWaitsForFramesInMemoryThatHaveNoDestination() {
        var begun = Self.draining([("e1", 5, 0)], buffered: 4)
        begun.destinations = []
        let goal = DrainGoal(begun)
        #expect(goal.report(on: begun).left == 4)
        var later = begun
        later.balance.buffered = 0
        later.balance.held = ["not-enrolled": 4]
        let report = goal.report(on: later)
        #expect(report.left == 0 && report.held == ["not-enrolled": 4])
        #expect(report.text.hasSuffix("  4 held: not-enrolled (edge-gateway status)"))
    }

    @Test func theStoreReadsLikeThis() {
        #expect(
            QueueText.status(Self.queue, .utc) == """
                store: 3.0 MiB of 2048.0 MiB, 1.0 MiB of it delivered; log 0.0 MiB
                when it is full: new samples are refused
                received 10 = stored 9 + undecodable 1
                stored 9 = delivered 3 + waiting 2 + held 2 (not-enrolled 2) + dead 1 \
                + dropped 1 (purged 1)
                oldest unsent sample: 2026-12-01 12:00:00 UTC
                boots with an unknown clock: 1 (edge-gateway queue release)
                ! the store broke on 2026-12-01 12:00:00 UTC
                    had 10 at 2026-12-01 12:00:00 UTC, saved 8, damaged 1, orphaned 0, unknown 2
                    queue.sqlite.broken-1
                    edge-gateway queue acknowledge
                """)
    }

    @Test func aComparisonReadsLikeThis() {
        func counts(_ delivered: Int, waiting: Int = 0, before: Int = 0)
            -> DestinationComparisonReport.Counts
        {
            .init(delivered: delivered, waiting: waiting, refused: 0, dropped: 0, before: before)
        }
        var report = DestinationComparisonReport(
            names: ["firebase", "lab"],
            days: [
                .init(
                    day: Self.noon, samples: 12, counts: [counts(12), counts(9, waiting: 3)]),
                .init(
                    day: Self.noon - 2 * 86_400, until: Self.noon - 86_400, samples: 24,
                    counts: [counts(24), counts(20, before: 4)]),
            ], alone: [0, 5], same: false)
        #expect(
            DestinationText.comparison(report) == """
                DAY (UTC)                 SAMPLES  IN firebase  IN lab
                2026-12-01                12       12           9
                2026-11-29 to 2026-11-30  24       24           20
                not in lab, 2026-12-01: 3 wait
                not in lab, 2026-11-29 to 2026-11-30: 4 from before it was added
                the numbers differ
                not compared: 5 samples of straps that deliver only to lab
                """)
        report.days = []
        report.alone = [0, 0]
        report.same = true
        #expect(
            DestinationText.comparison(report)
                == "no samples of these days go to both firebase and lab")
    }

    @Test func aListingReadsLikeThis() {
        #expect(
            QueueText.samples(SamplesReport(samples: [Self.sample("Ada")], more: true), .utc) == """
                ID    TIME (UTC)           BPM  STATE  STRAP  REASON
                4711  2026-12-01 12:00:00  72   held   Ada    no-consent
                … there are more: use --limit
                """)
        #expect(
            QueueText.samples(SamplesReport(samples: [], more: false), .utc).contains(
                "no samples match"))
    }

    @Test(arguments: ["", "Ada", long]) func tablesFitEightyColumns(name: String) {
        let boot = BootReport(
            boot: UUID().uuidString, running: true, held: 123_456, firstUptime: 1,
            lastUptime: 1e6, earliestOffset: 1.7e9, latestOffset: nil)
        let upload = UploadReport(
            at: nil, enrollment: name, samples: 1_000, first: Self.noon, last: Self.noon,
            outcome: "delivered")
        let hour = HourReport(
            sensor: 1, address: "…00:01", name: name, hour: Self.noon, samples: 3_600,
            meanBpm: 71.5, lowestBpm: 60, highestBpm: 190)
        let texts = [
            QueueText.samples(
                SamplesReport(samples: [Self.sample(name)], more: true), .utc, columns: 80),
            QueueText.letters(
                DeadLettersReport(letters: [Self.letter(name)], more: true), .utc, columns: 80),
            QueueText.unbound([Self.unbound(name)], .utc, columns: 80),
            QueueText.boots([boot], .utc), QueueText.hours([hour], .utc, columns: 80),
            QueueText.uploads(HistoryReport(uploads: [upload], more: true), .utc, columns: 80),
        ]
        for text in texts {
            for line in text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        }
    }

    @Test func aReleaseSaysWhatWillBeSentAndWhetherItFits() {
        let boot = BootReport(
            boot: "b", running: false, held: 5, firstUptime: 100, lastUptime: 160,
            earliestOffset: 1_796_126_000, latestOffset: 1_796_127_000)
        let text = QueueReleaseCommand.question(boot, 1_796_126_300, .utc)
        #expect(text.contains("5 samples"))
        #expect(text.contains("2026-12-01 12:00:00 UTC to 2026-12-01 12:01:00 UTC"))
        #expect(!text.contains("!"))
        #expect(
            QueueReleaseCommand.question(boot, 1_796_000_000, .utc).contains("came before them!"))
        #expect(
            QueueReleaseCommand.question(boot, 1_797_000_000, .utc).contains("came after them!"))
    }

    private static func unbound(_ name: String = "Ada") -> UnboundReport {
        UnboundReport(
            assignment: 3, sensor: 1, address: "…00:01", name: name, first: noon,
            last: noon + 3_600, samples: 120, recording: false, unsure: false)
    }

    @Test func samplesWithoutAnEnrollmentReadLikeThis() {
        var other = Self.unbound("")
        (other.assignment, other.samples, other.recording) = (12, 5, true)
        (other.first, other.last) = (nil, nil)
        var unsure = Self.unbound()
        (unsure.assignment, unsure.samples, unsure.unsure) = (13, 2, true)
        #expect(
            QueueText.unbound([Self.unbound(), other, unsure], .utc) == """
                NUMBER  SAMPLES  FROM (UTC)        TO                PATIENT  STRAP
                3       120      2026-12-01 12:00  2026-12-01 13:00  -        Ada …00:01
                12 *    5        unknown           unknown           -        …00:01
                13 ?    2        2026-12-01 12:00  2026-12-01 13:00  -        Ada …00:01
                * records: edge-gateway pair STRAP gives them to an enrollment, too
                ? nobody knows for certain who wore the strap then
                """)
    }

    @Test func whoAssignsSamplesIsToldWhatGoesToWhom() {
        #expect(
            QueueAssignCommand.question(Self.unbound(), "e1", patient: "40001", .utc) == """
                120 samples of Ada (…00:01),
                from 2026-12-01 12:00:00 UTC to 2026-12-01 13:00:00 UTC,
                will be sent through e1, as those of the patient 40001.
                This cannot be undone. Continue?
                """)
        var unsure = Self.unbound()
        unsure.unsure = true
        #expect(
            QueueAssignCommand.question(unsure, "e1", patient: "40001", .utc).contains(
                "Nobody knows for certain who wore the strap then."))
        var worn = Self.unbound("Ada\n120 samples of nobody")
        worn.recording = true
        worn.first = nil
        let text = QueueAssignCommand.question(worn, "lab", patient: nil, .utc)
        #expect(text.contains("whose times are not known yet"))
        #expect(text.contains("through lab, without a patient."))
        #expect(text.contains("from now on"))
        #expect(text.split(separator: "\n").count == 5, "a name adds no line: \(text)")
    }

    /// It was only said how many there were.
    @Test func anImportSaysWhichSamplesItDidNotTakeAndWhy() {
        let lost = UnsureSamplesReport(
            address: "…00:01", assignment: 3, first: Self.noon, last: Self.noon + 60, samples: 3,
            line: 7, reason: "lost")
        var running = lost
        (running.first, running.last, running.reason) = (nil, nil, "run-goes-on")
        var report = ImportReport(
            added: 0, known: 0, unsure: 6, unsureSamples: [lost, running], settled: 0,
            notSelected: 0)
        #expect(
            QueueImportCommand.text(report, .utc) == """
                added 0 samples, which wait for delivery
                6 were not taken, since they might be delivered twice, or another in their place \
                (docs/operate/operations.md):
                  line 7: 3 of …00:01, 2026-12-01 12:00:00 UTC to 2026-12-01 12:01:00 UTC: lost here, perhaps \
                after their delivery
                  line 7: 3 of …00:01, times unknown: their run is not over: restart the gateway, then \
                import again
                """)
        report.unsure = 300
        report.unsureSamples = Array(repeating: lost, count: 50)
        let text = QueueImportCommand.text(report, .utc)
        #expect(text.hasSuffix("  and 240 more, the first of them in --json"), "\(text)")
        #expect(text.split(separator: "\n").count == 23)
    }

    @Test func whoDiscardsSamplesIsToldWhatIsLost() {
        #expect(
            QueueDiscardCommand.question(Self.unbound(), .utc) == """
                120 samples of Ada (…00:01),
                from 2026-12-01 12:00:00 UTC to 2026-12-01 13:00:00 UTC,
                will be delivered to no enrollment.
                This cannot be undone. Continue?
                """)
        var worn = Self.unbound()
        worn.recording = true
        #expect(QueueDiscardCommand.question(worn, .utc).contains("is held again"))
    }

    /// A listing as long as may be asked for used to say that there were no more.
    @Test func whetherThereIsMoreIsToldOfTheLongestListingToo() {
        #expect(SampleQueue.listedMax > Listing.entriesMax)
    }

    @Test func wrongReferencesAndArgumentsAreTheAskersFault() {
        for (code, status) in [(ProblemCode.unknownReference, 404), (.invalidArgument, 400)] {
            let problem = ProblemReport(code: code, message: "", advice: "")
            #expect(problem.httpStatus.code == status)
        }
    }
}

/// Where a file to import is put together.
@Suite struct ImportSessionTests {
    private static func directory() throws -> String {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "import-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        return directory
    }

    @Test func partsFollowOneAnotherIntoAFileThatNoOtherUserMayRead() async throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let session = ImportSession(directory: directory)
        let first = try await session.add([1, 2], at: 0, upload: nil)
        #expect(first.bytes == 2)
        await #expect(throws: ProblemReport.self) {
            try await session.add([9], at: 1, upload: first.upload)
        }
        await #expect(throws: ProblemReport.self) { try await session.add([9], at: 2, upload: "x") }
        #expect(try await session.add([3], at: 2, upload: first.upload).bytes == 3)
        let path = try await session.begin(first.upload)
        #expect(try Data(contentsOf: URL(filePath: path)) == Data([1, 2, 3]))
        let mode =
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(await session.progress.state == "checking")
        await #expect(throws: ProblemReport.self) {
            try await session.add([9], at: 0, upload: nil)
        }
        #expect(await session.end() == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(await session.progress.state == "idle")
    }

    /// A sender was interrupted: its file kept the disk full, and named patients, until the next start.
    @Test func anUploadThatNobodyGoesOnWithIsDeleted() async throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let session = ImportSession(directory: directory)
        let upload = try await session.add([1], at: 0, upload: nil).upload
        for _ in 0..<9 { await session.minutePassed() }
        _ = try await session.add([2], at: 1, upload: upload)
        for _ in 0..<9 { await session.minutePassed() }
        #expect(await session.progress.state == "receiving")
        await session.minutePassed()
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
        #expect(await session.progress.state == "idle")
    }

    @Test func whatASalvageLeftOutIsSaid() {
        var report = SalvageFileReport(
            file: "f", samples: 9, damaged: 0, orphaned: 0, ofAnotherStore: 0, missing: 0,
            readable: true)
        #expect(report.complaint == nil)
        report.missing = 3
        report.damaged = 1
        #expect(report.complaint == "samples left out: 1 damaged, 3 not found")
        report.readable = false
        #expect(
            report.complaint?.hasSuffix("the disk does not let all of the files be read") == true)
    }

    /// Deleting the store's log deletes samples: it is never among what is to be deleted.
    @Test func aLogThatIsNotEmptyAfterErasingHasAnotherRemedyThanDeletion() {
        let report = EraseReport(
            enrollment: "e1", enrollmentErased: true, samples: 10, undecodable: 1, unsent: 2,
            furtherUnsent: 3, logEmptied: false, left: ["/state/queue.sqlite.broken-1"])
        let text = EraseCommand.text(report)
        #expect(
            text.contains(
                "10 samples (2 not delivered, 3 not delivered to further destinations), "
                    + "1 undecodable frame"))
        #expect(text.contains("systemctl restart edge-gateway") && !text.contains("-wal"))
        #expect(text.contains("some of it: /state/queue.sqlite.broken-1"))
    }
}
