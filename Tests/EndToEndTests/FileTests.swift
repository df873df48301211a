import Foundation
import Testbed
import Testing

/// Delivery into a file, through the real binary.
@Suite(.serialized) struct FileTests {
    @Test func aFileGetsEverySampleOnceWithIntervalsAcrossAKill() async throws {
        try await TestWorld.run { fixture in
            let path = fixture.gateway.directory.appending(path: "state/heart.ndjson").path
            let output = try await fixture.command("destination", "add", "file", "path=\(path)")
            #expect(output.contains("file delivers to file://\(path)"), "\(output)")
            try await fixture.command("pair", TestWorld.addresses[0], "--patient", "ward-7.a")
            let before = try await fixture.eventually("delivered") { $0.balance.delivered >= 5 }
            await fixture.gateway.kill()
            try await fixture.gateway.start()
            try await fixture.eventually("more") {
                $0.balance.stored >= before.balance.stored + 4
            }
            let status = try await fixture.settle()
            #expect(status.balance.addsUp)
            var rates = 0
            var intervals = 0
            var uuids: Set<String> = []
            let text = try String(contentsOfFile: path, encoding: .utf8)
            #expect(text.hasSuffix("\n"))
            for line in text.split(separator: "\n") {
                let point = try #require(
                    try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
                #expect(point["patient"] as? String == "ward-7.a")
                let content = try #require(point["data_point"] as? [String: [String: Any]])
                let uuid = try #require(content["header"]?["uuid"] as? String)
                #expect(uuids.insert(uuid).inserted, "twice in the file")
                if content["body"]?["heart_rate"] != nil { rates += 1 }
                if content["body"]?["rr_interval"] != nil { intervals += 1 }
            }
            #expect(rates == status.balance.delivered)
            #expect(intervals > rates / 2)
            #expect(await fixture.exchange.requests.isEmpty)
        }
    }

    /// Two deliveries into one file: the second could not lock it, and was held for ever.
    @Test func aFileIsTakenOnceUnderWhateverName() async throws {
        try await TestWorld.run { fixture in
            let directory = fixture.gateway.directory.path
            try FileManager.default.createSymbolicLink(
                atPath: directory + "/link", withDestinationPath: directory)
            let path = directory + "/points.ndjson"
            try await fixture.command(
                "destination", "add", "file", "--name", "one", "path=\(path)")
            for other in [
                path, "\(directory)/state/../points.ndjson", "\(directory)/link/points.ndjson",
            ] {
                let outcome = try await fixture.gateway.command(
                    ["destination", "add", "file", "--name", "two", "path=\(other)"])
                #expect(outcome.complaint.contains("one writes this file already"), "\(other)")
            }
        }
    }

    @Test func aPlaceThatIsNoneIsRefused() async throws {
        try await TestWorld.run { fixture in
            let state = fixture.gateway.directory.appending(path: "state").path
            for (path, advice) in [
                ("heart.ndjson", "absolute path"),
                ("/nonexistent/heart.ndjson", "create its directory"),
                (state + "/queue.sqlite", ".ndjson"), (state + "/tokens-1.json", ".ndjson"),
            ] {
                let outcome = try await fixture.gateway.command(
                    ["destination", "add", "file", "path=\(path)"])
                #expect([1, 2].contains(outcome.status))
                #expect(outcome.complaint.contains(advice), "\(path): \(outcome.complaint)")
            }
            #expect(try await fixture.command("destination", "list", "--json") == "[\n\n]\n")
        }
    }
}
