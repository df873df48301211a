import Basics
import Foundation
import Testbed
import Testing

/// The page of the real binary in real Chromium, which looks while a daemon comes and goes.
@Suite(.serialized) struct LivePageInChromiumTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let python = root.appending(path: ".build-page/bin/python").path
    /// From a notification to a screen.
    private static let delayMax = 500.0

    private struct Looked: Decodable {
        struct Rate: Decodable {
            var text: String
            var at: Double
        }
        var painted: Double
        var shown: [Rate]
        var stale: String
        var again: [Rate]
        var card: String
        var complaints: [String]
    }

    @Test(
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: python),
            "Tests/LivePage/setup makes what it needs"))
    func aRateIsOnTheScreenHalfASecondAfterItsNotificationAndAgainAfterARestart() async throws {
        let port = Int.random(in: 20_000..<32_000)
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]
        try await TestWorld.run(settings: settings) { fixture in
            try await fixture.put(on: 0)
            let folder = fixture.gateway.directory
            let looking = Task {
                try await Command.run(
                    Self.python,
                    [
                        Self.root.appending(path: "Tests/LivePage/real_page.py").path,
                        "http://127.0.0.1:\(port)/", folder.path,
                    ])
            }
            let ended = Ended()
            Task {
                _ = await looking.result
                await ended.set()
            }
            func told(_ name: String) async throws {
                let file = folder.appending(path: name).path
                while await !ended.isSet, !FileManager.default.fileExists(atPath: file) {
                    try await Task.sleep(for: .milliseconds(100))
                }
            }
            try await told("seen")
            #expect(await fixture.gateway.stop().status == 0)
            try await told("lost")
            try await fixture.gateway.start()
            let outcome = try await looking.value
            try #require(outcome.status == 0, "\(outcome.complaint)")
            let looked = try JSONDecoder().decode(Looked.self, from: Data(outcome.output.utf8))
            #expect(looked.complaints.isEmpty)
            #expect(looked.stale == "–")
            #expect(looked.card.contains("Strap 1") && looked.card.contains("%"))

            let sent = await fixture.bluez.framesSent(TestWorld.addresses[0])
            let delays =
                (Self.delays(of: looked.shown, after: sent)
                + Self.delays(of: looked.again, after: sent)).sorted()
            print("notification to screen, ms:", delays.map { Int($0) }, "paint:", looked.painted)
            try #require(delays.count >= 8)
            // The machine may hold some up.
            #expect(delays[delays.count * 3 / 4] <= Self.delayMax)
        }
    }

    private actor Ended {
        private(set) var isSet = false
        func set() { isSet = true }
    }

    /// How long after its notification each rate was shown that was another than the one before, ms.
    private static func delays(of shown: [Looked.Rate], after sent: [SentFrame]) -> [Double] {
        var uptime = timespec()
        clock_gettime(CLOCK_BOOTTIME, &uptime)
        let uptimeNow = Double(uptime.tv_sec) * 1000 + Double(uptime.tv_nsec) / 1e6
        let offset = Date().timeIntervalSince1970 * 1000 - uptimeNow
        // The second byte is the rate, of straps that send eight bits.
        let changes = zip(sent, sent.dropFirst()).filter { $0.bytes[1] != $1.bytes[1] }.map {
            (text: String($1.bytes[1]), at: ($1.uptime - .zero).inSeconds * 1000 + offset)
        }
        return shown.compactMap { rate in
            changes.last { $0.text == rate.text && $0.at <= rate.at }.map { rate.at - $0.at }
        }
    }
}
