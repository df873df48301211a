import Foundation
import Testbed
import Testing

/// What a technician does with the store, through the real binary.
@Suite(.serialized) struct QueueCommandTests {
    private struct Listed: Decodable {
        struct Sample: Decodable {
            var id: Int64
            var address: String
            var state: String
            var reason: String?
        }
        var samples: [Sample]
    }
    private struct Letters: Decodable {
        struct Letter: Decodable {
            var id: Int64
            var uuid: String
            var diagnostics: String
        }
        var letters: [Letter]
    }
    private struct Imported: Decodable {
        var added: Int
        var known: Int
    }
    private struct Verified: Decodable {
        var clean: Bool
        var damaged: [Int64]
    }
    private struct History: Decodable {
        struct Upload: Decodable {
            var outcome: String
            var samples: Int
        }
        var uploads: [Upload]
    }
    private struct Hour: Decodable { var samples: Int }
    private struct Boot: Decodable {
        var boot: String
        var held: Int
    }
    private struct Store: Decodable {
        struct Salvage: Decodable {
            var acknowledged: Bool
            var brokenFile: String
        }
        var salvages: [Salvage]
    }
    /// A line of an export; the first and last have no uuid.
    private struct Line: Decodable {
        var uuid: String?
        var frame: String?
    }

    private func decode<Report: Decodable>(_ text: String) throws -> Report {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Report.self, from: Data(text.utf8))
    }

    /// Records some samples without an enrollment, and no more.
    private func recordUnenrolled(_ fixture: TestWorld, atLeast count: Int = 5) async throws {
        try await fixture.command("pair", TestWorld.addresses[0])
        try await fixture.eventually("samples") { $0.balance.stored >= count }
        try await fixture.hush()
        try await fixture.eventually("on disk") { $0.balance.buffered == 0 }
    }

    private func export(_ fixture: TestWorld, to name: String) async throws -> [Line] {
        try await fixture.command("queue", "export", name)
        let file = fixture.gateway.directory.appending(path: name)
        let mode =
            try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }.filter { $0.uuid != nil }
    }

    @Test func whatIsHeldIsListedWithTheReason() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            let output = try await fixture.command("queue", "list", "--state", "held", "--json")
            let listed: Listed = try decode(output)
            #expect(listed.samples.count >= 5)
            #expect(listed.samples.map(\.id) == listed.samples.map(\.id).sorted(by: >))
            for sample in listed.samples {
                #expect(sample.state == "held" && sample.reason == "not-enrolled")
                #expect(sample.address == "…00:01")
            }
            let table = try await fixture.command(
                "queue", "list", "--strap", TestWorld.addresses[0])
            #expect(table.contains("not-enrolled") && !table.contains(TestWorld.addresses[0]))
            #expect(table.split(separator: "\n").allSatisfy { $0.count <= 80 })
            let none = try await fixture.command("queue", "list", "--state", "delivered")
            #expect(none.contains("no samples match"))
            let wrong = try await fixture.gateway.command(["queue", "list", "--state", "lost"])
            #expect(wrong.status == 2)
        }
    }

    @Test func aDeadLetterIsShownRequeuedAndPurged() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            let uuids = try await export(fixture, to: "held.ndjson").compactMap(\.uuid)
            for uuid in uuids.prefix(2) { await fixture.exchange.refuse(uuid) }
            try await fixture.put(on: 0)
            try await fixture.eventually("two dead letters") { $0.balance.dead == 2 }
            let letters: Letters = try decode(
                try await fixture.command("queue", "dead", "list", "--json"))
            #expect(Set(letters.letters.map(\.uuid)) == Set(uuids.prefix(2)))
            let first = try #require(letters.letters.first { $0.uuid == uuids[0] })
            let second = try #require(letters.letters.first { $0.uuid == uuids[1] })
            let shown = try await fixture.command("queue", "dead", "show", "\(first.id)")
            #expect(shown.contains("omh_data") && shown.contains(first.uuid))
            try await fixture.command("queue", "dead", "export", "dead.ndjson")

            await fixture.exchange.clearFaults()
            try await fixture.command("queue", "dead", "requeue", "\(first.id)")
            try await fixture.eventually("it is delivered") { status in
                let stored = await fixture.exchange.stored
                return status.balance.dead == 1
                    && stored.contains { $0.identifiers.contains { $0.value == first.uuid } }
            }
            let unasked = try await fixture.gateway.command(
                ["queue", "dead", "purge", "\(second.id)"])
            #expect(unasked.status == 2 && unasked.complaint.contains("--yes"))
            try await fixture.command("queue", "dead", "purge", "\(second.id)", "--yes")
            let status = try await fixture.gateway.status()
            #expect(status.balance.dead == 0 && status.balance.dropped["purged"] == 1)
            #expect(status.balance.balanced && status.balance.addsUp)
            let gone = try await fixture.gateway.command(["queue", "dead", "show", "\(second.id)"])
            #expect(gone.status == 2)
        }
    }

    @Test func beatsAreExportedAsCSVAndContradictionsAreRefused() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            try await fixture.command(
                "queue", "export", "beats.csv", "--beats", "--strap", TestWorld.addresses[0])
            let file = fixture.gateway.directory.appending(path: "beats.csv")
            let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            #expect(lines.first == "time,rr_ms,uncertainty_ms,strap,segment,lost_beats,flags")
            #expect(lines.count > 3)
            for line in lines.dropFirst() {
                let columns = line.split(separator: ",", omittingEmptySubsequences: false)
                #expect(columns.count == 7 && columns[3] == TestWorld.addresses[0])
                #expect(Double(columns[1]).map { (300...2_000).contains($0) } == true)
            }
            for (words, advice) in [
                (["--format", "ndjson"], "leave --format out"),
                (["--all"], "leave --all and --destination out"),
                (["--since", "2026-12-02", "--until", "2026-12-01"], "must be before --until"),
            ] {
                let outcome = try await fixture.gateway.command(
                    ["queue", "export", "none.csv", "--beats"] + words)
                #expect(outcome.status == 2 && outcome.complaint.contains(advice))
            }
        }
    }

    @Test func gapsAndCoverageAreExportedAndWhatIsLeftOutIsSaid() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a sample is delivered") { $0.balance.delivered > 0 }
            try await fixture.hush()
            try await fixture.eventually("all are delivered") {
                $0.balance.buffered == 0 && $0.balance.pending == 0
            }
            func lines(_ name: String) throws -> [String] {
                try String(
                    contentsOf: fixture.gateway.directory.appending(path: name), encoding: .utf8
                ).split(separator: "\n").map(String.init)
            }
            let outcome = try await fixture.gateway.command(["queue", "export", "none.ndjson"])
            #expect(outcome.status == 0 && outcome.complaint.contains("--all adds"))
            let json = try await fixture.gateway.command(["queue", "export", "n.ndjson", "--json"])
            #expect(json.output.contains(#""left_out" : true"#))
            let stored = try await fixture.gateway.status().balance.stored
            try await fixture.command(
                "queue", "export", "day.csv", "--format", "csv", "--all", "--day", "today")
            #expect(try lines("day.csv").count == stored + 1)
            try await fixture.command("queue", "export", "gaps.csv", "--gaps", "--last", "1d")
            #expect(
                try lines("gaps.csv")[0]
                    == "sensor,assignment,patient,cause,from,until,seconds,open")
            try await fixture.command(
                "queue", "export", "days.csv", "--coverage", "--strap", TestWorld.addresses[0])
            let days = try lines("days.csv")
            #expect((2...3).contains(days.count))
            #expect(days[1].hasPrefix("\(TestWorld.addresses[0]),40001,"), "\(days)")
            for (words, advice) in [
                (["--gaps", "--coverage"], "choose one of"), (["--gaps", "--all"], "leave --all"),
                (["--coverage", "--format", "ndjson"], "leave --format out"),
                (["--day", "today", "--last", "2d"], "--last, or --day"),
            ] {
                let wrong = try await fixture.gateway.command(
                    ["queue", "export", "wrong.csv"] + words)
                #expect(wrong.status == 2 && wrong.complaint.contains(advice), "\(wrong.complaint)")
            }
            let share = try await fixture.gateway.command(["gaps", "--coverage", "--target", "100"])
            #expect(share.output.contains("DATA") && share.output.contains("below 100 %"))
            #expect(share.status == (share.output.contains("! 20") ? 1 : 0))
        }
    }

    @Test func anExportImportedElsewhereIsDeliveredUnderItsIdentitiesOnce() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            let uuids = try await export(fixture, to: "site.ndjson").compactMap(\.uuid)
            let again = try await fixture.gateway.command(["queue", "export", "site.ndjson"])
            #expect(again.status == 2 && again.complaint.contains("exists already"))
            let other = try GatewayProcess(
                busAddress: fixture.bus.address,
                settings: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1"])
            do {
                try await other.start()
                let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
                let enrolled = try await other.command(["enroll", "-"], input: link)
                #expect(enrolled.status == 0, "\(enrolled.complaint)")
                let file = fixture.gateway.directory.appending(path: "site.ndjson").path
                for turn in 0...1 {
                    let outcome = try await other.command(["queue", "import", file, "--json"])
                    #expect(outcome.status == 0, "\(outcome.complaint)")
                    let imported: Imported = try decode(outcome.output)
                    #expect(imported.added == (turn == 0 ? uuids.count : 0))
                    #expect(imported.known == (turn == 0 ? 0 : uuids.count))
                }
                let deadline = ContinuousClock.now + .seconds(120)
                while await fixture.exchange.storedCount() < uuids.count,
                    ContinuousClock.now < deadline
                {
                    try await Task.sleep(for: .milliseconds(100))
                }
                let stored = await fixture.exchange.stored.flatMap(\.identifiers).map(\.value)
                #expect(Set(stored) == Set(uuids))
                let spool = other.directory.appending(path: "state/import.ndjson").path
                #expect(!FileManager.default.fileExists(atPath: spool))
            } catch {
                Issue.record("\(error)")
            }
            await other.remove()
        }
    }

    /// A slip in a name left an empty file, and exit code 0.
    @Test func anExportOfAnUnknownSensorOrDestinationIsRefused() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            for words in [
                ["--strap", "C0:00:00:00:00:77"], ["--destination", "nobody"],
                ["--beats", "--strap", "C0:00:00:00:00:77"],
            ] {
                let outcome = try await fixture.gateway.command(
                    ["queue", "export", "none.out"] + words)
                #expect(outcome.status == 2, "\(words): \(outcome)")
                #expect(
                    outcome.complaint.contains("edge-gateway straps")
                        || outcome.complaint.contains("there is no destination yet"), "\(outcome)")
                #expect(!outcome.complaint.contains(":77"), "no address in an error")
            }
            let file = fixture.gateway.directory.appending(path: "none.out").path
            #expect(!FileManager.default.fileExists(atPath: file))
        }
    }

    @Test func verifyFindsAFlippedBitWithAndWithoutTheDaemon() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            let sound: Verified = try decode(
                try await fixture.command("queue", "verify", "--json"))
            #expect(sound.clean)
            let lines = try await export(fixture, to: "frames.ndjson")
            await fixture.gateway.stop()
            let file = fixture.gateway.directory.appending(path: "state/queue.sqlite")
            var bytes = try Data(contentsOf: file)
            let hex = try #require(lines.compactMap(\.frame).max { $0.count < $1.count })
            let frame = Data(
                stride(from: 0, to: hex.count, by: 2).compactMap { at in
                    UInt8(hex.dropFirst(at).prefix(2), radix: 16)
                })
            var at = bytes.startIndex
            while let found = bytes.range(of: frame, in: at..<bytes.endIndex) {
                bytes[found.upperBound - 1] ^= 1
                at = found.upperBound
            }
            try bytes.write(to: file)
            for isOnline in [false, true] {
                if isOnline { try await fixture.gateway.start() }
                let outcome = try await fixture.gateway.command(["queue", "verify", "--json"])
                #expect(outcome.status == 1)
                let broken: Verified = try decode(outcome.output)
                #expect(!broken.clean && !broken.damaged.isEmpty, "\(outcome.output)")
                // The others are written; that some are missing must not look like success.
                for words in [["--all"], ["--beats"]] {
                    let name = "left-\(isOnline)\(words[0]).out"
                    let outcome = try await fixture.gateway.command(
                        ["queue", "export", name] + words)
                    #expect(outcome.status == 1, "\(outcome)")
                    #expect(outcome.complaint.contains("left out"), "\(outcome)")
                    let file = fixture.gateway.directory.appending(path: name)
                    #expect(try !Data(contentsOf: file).isEmpty)
                }
            }
        }
    }

    @Test func releasedSamplesAreDeliveredWithTheTimesThatAPersonSet() async throws {
        try await TestWorld.run(settings: ["EDGE_GATEWAY_CLOCK_TRUST": "kernel"]) { fixture in
            try await fixture.put(on: 0)
            let status = try await fixture.eventually("samples") { $0.balance.stored >= 3 }
            guard status.health.contains(where: { $0.name == "clock-untrusted" }) else {
                return print("skipped: the clock of this machine is synchronised")
            }
            let boots: [Boot] = try decode(
                try await fixture.command("queue", "release", "--json"))
            let boot = try #require(boots.first)
            #expect(boots.count == 1 && boot.held >= 3)
            let day = Date().addingTimeInterval(-86_400).ISO8601Format()
            let unasked = try await fixture.gateway.command(
                ["queue", "release", "--boot", boot.boot, "--at", day])
            #expect(unasked.status == 2)
            try await fixture.command("queue", "release", "--boot", boot.boot, "--at", day, "--yes")
            try await fixture.eventually("delivered") { $0.balance.delivered >= 3 }
            let first = await fixture.exchange.stored.compactMap(\.effectiveTime).min() ?? ""
            #expect(first.prefix(19) == day.prefix(19))
        }
    }

    @Test func historyShowsUploadsAndHours() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered >= 3 }
            let history: History = try decode(try await fixture.command("history", "--json"))
            #expect(history.uploads.contains { $0.outcome == "delivered" && $0.samples > 0 })
            let table = try await fixture.command("history")
            #expect(table.contains("delivered"))
            let hours: [Hour] = try decode(
                try await fixture.command(
                    "history", "--hours", "--last", "2h", "--strap", TestWorld.addresses[0],
                    "--json"))
            #expect(hours.reduce(0) { $0 + $1.samples } >= 3)
            let purged = try await fixture.command("queue", "purge", "--yes")
            #expect(purged.contains("deleted"))
            #expect(try await fixture.gateway.status().balance.balanced)
        }
    }

    @Test func aSalvageIsShownUntilItIsAcknowledged() async throws {
        try await TestWorld.run { fixture in
            try await recordUnenrolled(fixture)
            await fixture.gateway.stop()
            let file = fixture.gateway.directory.appending(path: "state/queue.sqlite")
            var bytes = try Data(contentsOf: file)
            bytes.replaceSubrange(0..<16, with: Data("no database here".utf8))
            try bytes.write(to: file)
            try await fixture.gateway.start()
            try await fixture.eventually("the salvage is told") {
                $0.health.contains { $0.name == "store-salvaged" }
            }
            let store: Store = try decode(try await fixture.command("queue", "status", "--json"))
            #expect(store.salvages.map(\.acknowledged) == [false])
            let text = try await fixture.command("queue", "status")
            #expect(text.contains("edge-gateway queue acknowledge"))
            try await fixture.command("queue", "acknowledge")
            let after = try await fixture.gateway.status()
            #expect(!after.health.contains { $0.name == "store-salvaged" })
            let kept: Store = try decode(try await fixture.command("queue", "status", "--json"))
            #expect(kept.salvages.map(\.acknowledged) == [true])
            await fixture.bluez.setSendsFrames(true)
            try await fixture.eventually("samples again") {
                $0.balance.stored > after.balance.stored
            }
        }
    }
}
