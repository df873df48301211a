import Foundation
import Testbed
import Testing

/// Delivery into a file, through the real binary.
@Suite(.serialized) struct FileTests {
    @Test func aFileGetsEverySampleOnceWithIntervalsAcrossAKill() async throws {
        try await TestWorld.run { bench in
            let path = bench.gateway.directory.appending(path: "state/heart.ndjson").path
            let output = try await bench.command("enroll", "--to-file", path)
            #expect(output.contains("into file://\(path)"))
            try await bench.command("pair", TestWorld.addresses[0], "--patient", "ward-7.a")
            let before = try await bench.eventually("delivered") { $0.balance.delivered >= 5 }
            await bench.gateway.kill()
            try await bench.gateway.start()
            try await bench.eventually("more") {
                $0.balance.stored >= before.balance.stored + 4
            }
            let status = try await bench.settle(withinSeconds: 90)
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
            #expect(await bench.exchange.requests.isEmpty)
        }
    }

    @Test func aPlaceThatIsNoneIsRefused() async throws {
        try await TestWorld.run { bench in
            let state = bench.gateway.directory.appending(path: "state").path
            for (path, advice) in [
                ("heart.ndjson", "whole path"), ("/nonexistent/heart.ndjson", "cannot be opened"),
                (state + "/queue.sqlite", ".ndjson"), (state + "/tokens-1.json", ".ndjson"),
            ] {
                let outcome = try await bench.gateway.command(["enroll", "--to-file", path])
                #expect([1, 2].contains(outcome.status))
                #expect(outcome.complaint.contains(advice), "\(path): \(outcome.complaint)")
            }
            #expect(try await bench.command("enrollments", "--json") == "[\n\n]\n")
        }
    }
}
