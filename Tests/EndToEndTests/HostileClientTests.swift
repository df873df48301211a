import Basics
import BlueZ
import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// Those who may write the control socket, and mean no good or are broken: recording goes on, and others
/// are answered.
@Suite(.serialized) struct HostileClientTests {
    /// Records with a strap, lets `body` do its worst, and looks whether every frame is there.
    private func recording(
        settings: [String: String] = [:], _ body: (TestWorld) async throws -> Void
    ) async throws {
        try await TestWorld.run(settings: settings) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored >= 2 }
            let before = try await fixture.gateway.status().balance.received
            let sentBefore = await fixture.bluez.framesSentCount(TestWorld.addresses[0])
            try await body(fixture)
            let sends = await fixture.bluez.wait {
                $0.framesSentCount(TestWorld.addresses[0]) >= sentBefore + 2
            }
            #expect(sends, "the strap sends all the while")
            await fixture.bluez.setSendsFrames(false)
            let sent = await fixture.bluez.framesSentCount(TestWorld.addresses[0])
            let status = try await fixture.settle()
            #expect(status.balance.received == sent)
            #expect(status.balance.received > before)
            let gaps = try await fixture.command("gaps", "--json")
            let report = try ReportCoding.decoder().decode(GapsReport.self, from: Data(gaps.utf8))
            // The last one is that of the strap that was switched off. Before it none, unless this test
            // itself kept the strap from sending.
            let frames = await fixture.bluez.framesSent(TestWorld.addresses[0])
            for gap in report.gaps where !gap.open {
                let from = try #require(gap.from), until = try #require(gap.until)
                let sent = frames.map { Self.date($0.uptime) }
                // Beside the frames at its ends: its beginning is given in whole seconds, and the frame at its end
                // may have been sent long before it was read.
                let inside = sent.filter {
                    $0.timeIntervalSince(from) > 1.1 && until.timeIntervalSince($0) > Self.wayMax
                }
                #expect(inside.isEmpty, "\(gaps)")
            }
            await fixture.expectExactlyOnce(status.balance)
        }
    }

    private static func date(_ uptime: Uptime) -> Date {
        Date(timeIntervalSinceNow: (uptime - .now()).inSeconds)
    }

    /// What a frame takes from the strap to the gateway at most, on a machine that does much else; s.
    private static let wayMax = 5.0

    /// Another client is answered before those who hang are cut off, after 10 s or more.
    private func expectAnswered(_ fixture: TestWorld, _ comment: Comment) async throws {
        let clock = ContinuousClock()
        let began = clock.now
        let answer = try await ControlSocketTests.ask(fixture, "/v1/status")
        #expect(answer.status == 200, comment)
        #expect(clock.now - began < .seconds(9), comment)
    }

    private func socket(_ fixture: TestWorld) -> String {
        fixture.gateway.directory.appending(path: "control.sock").path
    }

    @Test func aByteASecondDisturbsNoOtherAndAHeadThatNeverEndsIsCutOff() async throws {
        try await recording { fixture in
            let heads = (0..<20).map { _ in SlowClient(socket(fixture)) }
            let bodies = (0..<20).map { _ in SlowClient(socket(fixture)) }
            let head = Array("GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-Long: ".utf8)
            for client in bodies {
                client.send(
                    "POST /v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n")
            }
            let began = ContinuousClock.now
            var wereCut = 0
            for second in 0..<60 where wereCut < heads.count {
                for client in heads { client.send([second < head.count ? head[second] : 0x61]) }
                for client in bodies { client.send([0x20]) }
                if second == 2 { try await expectAnswered(fixture, "while others dawdle") }
                try await Task.sleep(for: .seconds(1))
                wereCut = heads.count { $0.isCutOff() }
            }
            #expect(wereCut == heads.count, "\(wereCut) after \(ContinuousClock.now - began)")
            try await expectAnswered(fixture, "after it")
        }
    }

    @Test func whoNeverReadsTheStreamIsCutOffAndGivesItsPlaceBack() async throws {
        try await recording { fixture in
            let name = String(repeating: "💓", count: 64)
            try await fixture.command("pair", TestWorld.addresses[0], "--name", name)
            let clients = (0..<Viewers.countMax).map { _ in SlowClient(socket(fixture)) }
            for client in clients {
                client.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
            let clock = ContinuousClock()
            let deadline = clock.now + .seconds(20)
            var status = 200
            while status == 200, clock.now < deadline {
                let more = try await ControlSocketTests.ask(
                    fixture, "/v1/live", ["--max-time", "1"])
                status = more.status
                if status == 503 { #expect(more.problem?.code == "too-many-viewers") }
            }
            #expect(status == 503, "all places are taken")
            // A rate that changes at each look: the buffers fill soon.
            let hurrying = Task {
                var rate: UInt8 = 60
                while !Task.isCancelled {
                    rate = rate == 60 ? 61 : 60
                    await fixture.bluez.emit([0, rate], from: TestWorld.addresses[0])
                    try await Task.sleep(for: .milliseconds(150))
                }
            }
            defer { hurrying.cancel() }
            try await expectAnswered(fixture, "beside 32 who do not read")
            // Their buffers fill; then 10 s pass.
            let end = clock.now + .seconds(240)
            while status == 503, clock.now < end {
                try await Task.sleep(for: .seconds(1))
                status = try await ControlSocketTests.ask(fixture, "/v1/live", ["--max-time", "1"])
                    .status
            }
            #expect(status == 200, "no place was given back")
            withExtendedLifetime(clients) {}
        }
    }

    /// Who asks for the head of the stream, or hangs up at once, keeps no place.
    @Test func aViewerThatNeverBeganTakesNoPlace() async throws {
        try await TestWorld.run { fixture in
            for _ in 0..<2 * Viewers.countMax {
                let client = SlowClient(socket(fixture))
                client.send("HEAD /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
            for _ in 0..<2 * Viewers.countMax {
                let client = SlowClient(socket(fixture))
                client.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
            let clock = ContinuousClock()
            let deadline = clock.now + .seconds(120)
            var status = 0
            while status != 200, clock.now < deadline {
                status = try await ControlSocketTests.ask(fixture, "/v1/live", ["--max-time", "1"])
                    .status
            }
            #expect(status == 200)
        }
    }

    @Test func aHundredMegabytesAreRefusedInLittleMemory() async throws {
        try await recording { fixture in
            let file = fixture.gateway.directory.appending(path: "zeros").path
            try Data().write(to: URL(filePath: file))
            try #require(truncate(file, 100 << 20) == 0)
            let before = try await memory(fixture)
            for path in ["/v1/pair", "/v1/queue/dead/requeue", "/v1/queue/import/part"] {
                let type = path.hasSuffix("part") ? "octet-stream" : "json"
                let answer = try await ControlSocketTests.ask(
                    fixture, path,
                    ["-X", "POST", "-T", file, "-H", "Content-Type: application/\(type)"])
                #expect(answer.status == 413 && answer.problem?.code == "too-large", "\(path)")
            }
            let after = try await memory(fixture)
            #expect(after - before < 48 << 20, "from \(before) to \(after) bytes")
            try await expectAnswered(fixture, "after it")
        }
    }

    /// Half the time that a client has for its first request's head.
    private static let silenceMax = Duration.seconds(5)

    @Test func fiveHundredConnectionsAtOnceDisturbNoOther() async throws {
        try await recording { fixture in
            let clock = ContinuousClock()
            var answered = 0
            // On a machine that is busy they may be cut off for their silence before they could ask.
            for _ in 0..<10 where answered < 500 {
                let began = clock.now
                let clients = (0..<500).map { _ in SlowClient(socket(fixture)) }
                try await expectAnswered(fixture, "beside 500 who say nothing")
                for client in clients {
                    client.send("GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                }
                guard clock.now - began < Self.silenceMax else { continue }
                let deadline = clock.now + .seconds(180)
                repeat {
                    try await Task.sleep(for: .milliseconds(200))
                    answered = clients.count { $0.received().contains("HTTP/1.1 200") }
                } while answered < clients.count && clock.now < deadline
                break
            }
            #expect(answered == 500)
            try await expectAnswered(fixture, "after it")
        }
    }

    /// More connect than there are places: the others are closed after some time without a word.
    @Test func moreConnectionsThanThereArePlacesLeaveRoomForTheStoreAndTheBus() async throws {
        try await recording { fixture in
            let clients = (0..<800).map { _ in SlowClient(socket(fixture)) }
            let process = try #require(await fixture.gateway.processID)
            try await Task.sleep(for: .seconds(2))
            let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd")
            #expect(files.count < 750, "\(files.count) files are open")
            withExtendedLifetime(clients) {}
        }
    }

    /// Resident bytes of the daemon.
    private func memory(_ fixture: TestWorld) async throws -> Int {
        let process = try #require(await fixture.gateway.processID)
        let text = try String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8)
        let pages = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * Int(getpagesize())
    }
}
