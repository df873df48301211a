import Basics
import Foundation
import GATTHeartRate
import Health
import Testing

@testable import EdgeGateway
@testable import OfflineQueue
@testable import Recording

@Suite struct PageTests {
    private let now = Date(timeIntervalSince1970: 1_796_083_200)
    private let second = WornStrap(sensor: 2, assignment: 7)
    private let third = WornStrap(sensor: 3, assignment: 8)

    private func shares() throws -> (Shares, String) {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "shares-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        return (Shares(stateDirectory: directory), directory)
    }

    @Test func eachPageIsOneDocumentOfItsParts() throws {
        let pages = [PageDocument.live, PageDocument.fleet].map {
            $0.replacing("{{NONCE}}", with: "once")
        }
        for page in pages {
            #expect(!page.contains("{{"))
            #expect(page.ranges(of: "<style nonce=\"once\">").count == 1)
            #expect(page.ranges(of: "<script nonce=\"once\">").count == 1)
        }
        let folder = repositoryRoot.appending(path: "Sources/EdgeGateway/Live/Page")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let parts = names.filter { !$0.hasSuffix(".html") }
        #expect(parts.count > 1)
        for name in parts {
            let part = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            #expect(part.hasSuffix("\n") && !part.contains("{{") && !part.contains("</"), "\(name)")
            let counts = pages.map { $0.ranges(of: part).count }
            #expect(counts.max() == 1, "\(name)")
        }
    }

    @Test(arguments: ["127.0.0.1:8470", "0.0.0.0:80", "[::1]:8470", "[::]:1", "192.168.0.9:65535"])
    func placesAreAddressesWithPorts(text: String) throws {
        _ = try PagePlace(text)
    }

    @Test(arguments: [
        "", "8470", "localhost:8470", "127.0.0.1", "127.0.0.1:0", "1.2.3.4:70000", ":1",
    ])
    func whatIsNoPlaceIsRefusedWithAnExample(text: String) {
        #expect {
            _ = try PagePlace(text)
        } throws: {
            ($0 as? SettingsFault)?.description.contains("127.0.0.1:8470") ?? false
        }
    }

    @Test func anotherSitesNameThatLeadsToLoopbackIsNotAnswered() throws {
        let place = try PagePlace("127.0.0.1:8470")
        // The third is that of a tunnel: it was answered 421.
        for name in ["127.0.0.1:8470", "localhost:8470", "127.0.0.1:9007", "localhost", "[::1]:1"] {
            #expect(place.accepts(authority: name))
        }
        for name in [
            nil, "evil.example", "evil.example:8470", "127.0.0.1:x", "127.0.0.1.evil:1", "[::1", "",
        ] {
            #expect(!place.accepts(authority: name))
        }
        #expect(try PagePlace("0.0.0.0:8470").accepts(authority: "ward.example"))
    }

    @Test func aShareEndsByItselfAndIsKeptOverARestart() async throws {
        let (shares, directory) = try shares()
        let share = try await shares.make(
            sensor: second, expires: now.addingTimeInterval(60), at: now)
        #expect(share.token.count == 43)
        let again = Shares(stateDirectory: directory)
        #expect(await again.scope(of: share.token, at: now) == .share(second))
        #expect(await again.scope(of: "", at: now) == nil)
        let mode = try FileManager.default.attributesOfItem(
            atPath: directory + "/shares.json")[.posixPermissions]
        #expect(mode as? Int == 0o600)
        #expect(try await again.stop(at: now) == 1)
        #expect(await again.scope(of: share.token, at: now) == nil)
        #expect(await Shares(stateDirectory: directory).scope(of: share.token, at: now) == nil)
    }

    /// Who had the link saw heart rates again, as after a restart without a battery clock.
    @Test(arguments: [true, false])
    func aShareThatHasEndedStaysEndedThoughTheClockGoesBackOverARestart(isWatched: Bool)
        async throws
    {
        let (shares, directory) = try shares()
        let share = try await shares.make(
            sensor: second, expires: now.addingTimeInterval(60), at: now)
        let other = try await shares.make(
            sensor: third, expires: now.addingTimeInterval(600), at: now)
        let end = now.addingTimeInterval(60)
        if isWatched {
            #expect(await shares.scope(of: share.token, at: end) == nil)
        } else {
            await shares.look(at: end, worn: nil)
        }
        #expect(await shares.scope(of: share.token, at: now) == nil)
        let again = Shares(stateDirectory: directory)
        #expect(await again.scope(of: share.token, at: now) == nil)
        #expect(await again.scope(of: other.token, at: now) == .share(third))
    }

    @Test func aShareWhoseEndCouldNotBeWrittenIsTriedAgain() async throws {
        let (shares, directory) = try shares()
        let share = try await shares.make(
            sensor: second, expires: now.addingTimeInterval(60), at: now)
        let path = directory + "/shares.json"
        try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
        // In the way of the file, for root as well.
        try FileManager.default.createDirectory(
            atPath: path + "/in-the-way", withIntermediateDirectories: true)
        #expect(await shares.scope(of: share.token, at: now.addingTimeInterval(60)) == nil)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: path + ".old", toPath: path)
        // The clock has gone back meanwhile.
        await shares.look(at: now, worn: nil)
        let again = Shares(stateDirectory: directory)
        #expect(await again.scope(of: share.token, at: now) == nil)
    }

    /// The family of one patient saw the heart rate of the next one.
    @Test func aShareEndsWhenSomebodyElseWearsItsStrap() async throws {
        let (shares, directory) = try shares()
        let expires = now.addingTimeInterval(60)
        var tokens: [String] = []
        for sensor in [second, third, nil] {
            tokens.append(try await shares.make(sensor: sensor, expires: expires, at: now).token)
        }
        let scopes = [ViewerScope.share(second), .share(third), .share(nil)]
        let next = WornStrap(sensor: second.sensor, assignment: 9)
        #expect(scopes.map { $0.covers(second) } == [true, false, true])
        #expect(scopes.map { $0.covers(next) } == [false, false, true])
        #expect(scopes.map { $0.covers(nil) } == [false, false, true])
        await shares.look(at: now, worn: nil)
        await shares.look(at: now, worn: [second, third])
        for (token, scope) in zip(tokens, scopes) {
            #expect(await shares.scope(of: token, at: now) == scope)
        }
        await shares.look(at: now, worn: [next, third])
        let again = Shares(stateDirectory: directory)
        for (token, scope) in zip(tokens, [nil, scopes[1], scopes[2]] as [ViewerScope?]) {
            #expect(await again.scope(of: token, at: now) == scope)
        }
    }

    /// The last rate of the one before was shown as the next one's.
    @Test func whoWearsAStrapNextHasNoRateBeforeTheirFirstFrame() {
        let sensor = Sensor(
            id: 2, address: "A0:9E:1A:00:00:02", details: SensorDetails(), isForgotten: false)
        var session = SensorSession(sensorID: 2)
        func take(_ bpm: UInt8, second: Int) {
            let uptime = Uptime.zero + .seconds(second)
            let reading = ClockReading(uptime: uptime, wall: .epoch, isTrusted: true)
            _ = session.take([0, bpm], uptime: uptime, now: reading, policy: .clinical)
            _ = session.release(now: reading, policy: .clinical)
        }
        func strap() -> LiveStrap {
            LiveStrap(
                sensor, 7, session, nil, at: .zero + .seconds(104), freshTime: .seconds(10))
        }
        take(60, second: 100)
        #expect(strap().bpm == 60)
        session.changeHands(at: .zero + .seconds(102))
        #expect(strap().bpm == nil && strap().secondsSinceFrame == nil)
        take(90, second: 103)
        #expect(strap().bpm == 90 && strap().secondsSinceFrame == 1)
    }

    @Test func aShareThatCannotBeKeptIsNotGiven() async throws {
        let (shares, directory) = try shares()
        let kept = try await shares.make(
            sensor: second, expires: now.addingTimeInterval(60), at: now)
        // In the way of the file, for root as well.
        let path = directory + "/shares.json"
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(
            atPath: path + "/in-the-way", withIntermediateDirectories: true)
        await #expect(throws: ProblemReport.self) {
            try await shares.make(sensor: third, expires: now.addingTimeInterval(60), at: now)
        }
        await #expect(throws: ProblemReport.self) { try await shares.stop(at: now) }
        #expect(await shares.scope(of: kept.token, at: now) == .share(second), "still in force")
        let files = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(files == ["shares.json"], "no secret is left beside it")
    }

    @Test func sharesAreBounded() async throws {
        let (shares, _) = try shares()
        for _ in 0..<Shares.countMax {
            _ = try await shares.make(sensor: nil, expires: now.addingTimeInterval(60), at: now)
        }
        await #expect(throws: ProblemReport.self) {
            try await shares.make(sensor: nil, expires: now.addingTimeInterval(60), at: now)
        }
        // Those that ended make room.
        let later = now.addingTimeInterval(61)
        _ = try await shares.make(sensor: nil, expires: later.addingTimeInterval(1), at: later)
    }

    @Test func aDamagedFileOfSharesAdmitsNoViewerAndIsReplaced() async throws {
        let (_, directory) = try shares()
        try "[{\"token\":".write(
            toFile: directory + "/shares.json", atomically: true, encoding: .utf8)
        let shares = Shares(stateDirectory: directory)
        #expect(await shares.scope(of: "", at: now) == nil)
        _ = try await shares.make(sensor: nil, expires: now.addingTimeInterval(60), at: now)
    }

    @Test func guessingIsSlowedDown() async throws {
        let access = PageAccess(
            isOpen: false, operatorToken: "0123456789abcdef0123456789abcdef",
            shares: try shares().0)
        for _ in 0..<PageAccess.wrongPerMinuteMax {
            #expect(await access.admit("guess", at: now) == .refused)
        }
        #expect(
            await access.admit("0123456789abcdef0123456789abcdef", at: now)
                == .tooMany(retryAfter: .seconds(60)))
        #expect(
            await access.admit(
                "0123456789abcdef0123456789abcdef", at: now.addingTimeInterval(60))
                == .admitted(.full))
        #expect(await access.scope(cookie: nil, at: now) == nil)
    }

    /// A share that had ended showed the whole page of this machine.
    @Test func aTokenThatHasEndedShowsNothingOnThisMachineEither() async throws {
        let access = PageAccess(isOpen: true, operatorToken: nil, shares: try shares().0)
        #expect(await access.scope(cookie: "ended", at: now) == nil)
        #expect(await access.scope(cookie: nil, at: now) == .full)
    }

    @Test func thePageOfAPhoneTakesOneLinkAndFewTries() throws {
        var page = OneTimeEnrollment()
        #expect(page.take("", link: "x", at: now) == nil)
        let code = page.begin(
            WebEnrollRequest(name: "ward", resolution: nil), expires: now.addingTimeInterval(600))
        #expect(page.report(at: now).state == "waiting")
        #expect(page.take("guess", link: "x", at: now) == nil)
        #expect(page.take(code, link: "x", at: now.addingTimeInterval(600)) == nil)
        for _ in 0..<OneTimeEnrollment.triesMax {
            #expect(page.take(code, link: "x", at: now)?.name == "ward")
            page.finish(code, .failure(.badRequest))
        }
        #expect(page.take(code, link: "x", at: now) == nil)
        #expect(page.report(at: now).state == "ended")
        #expect(page.report(at: now).problem == .badRequest)
        let second = page.begin(
            WebEnrollRequest(name: nil, resolution: nil), expires: now.addingTimeInterval(600))
        #expect(page.take(code, link: "x", at: now) == nil)
        #expect(page.take(second, link: "y", at: now)?.link == "y")
    }

    /// The result of an earlier page ended the new one, and two requests could use one page.
    @Test func thePageOfAPhoneHearsOnlyOfItsOwnLinkAndTakesNoSecondOneMeanwhile() throws {
        var page = OneTimeEnrollment()
        let ask = WebEnrollRequest(name: "ward", resolution: nil)
        let expires = now.addingTimeInterval(600)
        let first = page.begin(ask, expires: expires)
        #expect(page.take(first, link: "x", at: now) != nil)
        #expect(page.take(first, link: "y", at: now) == nil, "the first link is being used")
        #expect(page.report(at: expires).state == "waiting")
        let second = page.begin(ask, expires: expires)
        page.finish(first, .failure(.badRequest))
        #expect(page.report(at: now) == WebEnrollmentReport(state: "waiting"))
        #expect(page.take(second, link: "y", at: now) != nil)
        page.finish(second, nil)
        #expect(page.take(second, link: "z", at: now) != nil)
        page.finish(second, .failure(.badRequest))
        #expect(page.report(at: now).problem == .badRequest)
        #expect(page.take(second, link: "z", at: now) != nil)
    }

    @Test func bedsHaveTheirPlacesByNameUnlessAPersonGaveAnOrder() {
        struct Strap: Identifiable {
            var id: Int64
            var name: String
        }
        let straps = ["Bed 10", "Window", "Bed 2", "bed 3", "Bed 2"].enumerated()
            .map { Strap(id: Int64($0.offset + 1), name: $0.element) }
        func places(_ order: String, of straps: [Strap]) -> [Int64] {
            PlaceOrder(order.split(separator: ",").map(String.init)).sorted(straps, by: \.name).map(
                \.id)
        }
        #expect(places("", of: straps) == [3, 5, 4, 1, 2])
        #expect(places(" window,Bed 3, Bed 9,,window", of: straps) == [2, 4, 3, 5, 1])
        // Whatever order the store has.
        #expect(places("window", of: straps.reversed()) == [2, 3, 5, 4, 1])
    }

    @Test func watchDrawsEachFrameOnceAndFitsTheTerminal() throws {
        var view = WatchView()
        func report(_ bpm: Int?, age: Double) -> LiveReport {
            LiveReport(
                at: MillisecondTime(now), scope: "full",
                straps: [
                    LiveStrap(
                        sensor: 1, name: "A strap with a very long name\u{1B}[31m", bpm: bpm,
                        contact: false, rrMs: [800, 801, 802, 803], batteryPercent: 80,
                        secondsSinceFrame: age, link: "streaming", linkSeconds: 4000, rssi: -60)
                ])
        }
        for (bpm, age) in [(60, 0.1), (60, 0.6), (80, 0.1), (70, 0.2), (70, 0.1)] {
            view.take(report(bpm, age: age))
        }
        let lines = view.lines(report(70, age: 0.1))
        #expect(view.sparkline(of: 1) == "▁█▄")
        #expect(lines.allSatisfy { $0.count <= 80 && !$0.contains("\u{1B}") })
        #expect(lines[0].contains("70 bpm") && lines[0].contains("NO CONTACT"))
        let silent = view.lines(report(nil, age: 75))
        #expect(silent[0].contains("– bpm") && silent[0].contains("silent for 75 s"))
        for _ in 0..<100 { view.take(report(90, age: 0)); view.take(report(90, age: 1)) }
        #expect(view.sparkline(of: 1).count <= WatchView.ratesMax)
    }

    @Test func aQRCodeIsSquareAndHasItsQuietZone() throws {
        let lines = try #require(QRPicture.lines("http://192.168.0.2:8470/#" + Shares.token()))
        let width = try #require(lines.first?.count)
        #expect(lines.allSatisfy { $0.count == width })
        #expect(lines.count == (width + 1) / 2)
        #expect(lines[0].allSatisfy { $0 == "█" })
        #expect(QRPicture.lines(String(repeating: "x", count: 5000)) == nil)
    }

    @Test func namesThatTechniciansTypeDoNotBreakTheMetrics() {
        let text = Metrics.page(.sample).text
        #expect(text.contains(#"{enrollment="a\"b\\c\nd"}"#))
        #expect(
            text.contains(
                #"edge_gateway_info{label_floor="3",name="gw",site="Ward \"3\"",version="1.2.3"} 1"#
            ))
    }

    /// The series began with the first loss, which raised no alarm then.
    @Test func whatMayBeLostIsCountedFromZero() {
        var status = StatusReport.sample
        status.balance.refused = ["queue-full": 3]
        let text = Metrics.page(status).text
        #expect(text.contains(#"edge_gateway_frames_refused_total{reason="queue-full"} 3"#))
        #expect(text.contains(#"edge_gateway_frames_refused_total{reason="store-unwritable"} 0"#))
        for reason in LossReason.ofDrops.map(\.rawValue) {
            #expect(
                text.contains(#"edge_gateway_samples_dropped_total{reason="\#(reason)"} "#),
                "\(text)")
        }
    }
}

extension StatusReport {
    /// A state with something of everything.
    static let sample = StatusReport(
        gateway: GatewayIdentity(name: "gw", site: "Ward \"3\"", labels: ["floor": "3"]),
        version: "1.2.3", well: false,
        health: [
            HealthItem(
                name: "strap-silent", severity: "error", since: Date(), message: "m", advice: "a"),
            HealthItem(
                name: "strap-silent", severity: "error", since: Date(), message: "n", advice: "a"),
        ],
        uptimeSeconds: 12.5, clockTrusted: true,
        sensors: [
            SensorReport(
                id: 1, address: "A0:9E:1A:00:00:01", name: "Strap", link: "streaming", bpm: 70,
                secondsSinceFrame: 0.25, batteryPercent: 80, lostFrames: 3, stored: 10, pending: 2)
        ],
        enrollments: [
            EnrollmentReport(
                name: "a\"b\\c\nd", kind: "invitation", exchange: "https://exchange.example",
                patient: "40001",
                device: "70007", code: "omh:heart-rate:2.0", resolution: "raw", state: "active",
                pending: 2, delivered: 8, dead: 0, lastDelivery: Date())
        ],
        destinations: [
            DestinationReport(
                id: 2, name: "x\"y", kind: "influx", place: "http://127.0.0.1:8086",
                state: "active",
                everyStrap: true, straps: 1, resolution: "raw", pending: 1, delivered: 7, dead: 0,
                dropped: [:])
        ],
        balance: BalanceReport(
            received: 12, stored: 10, undecodable: 1, refused: ["full": 1], delivered: 8,
            pending: 2, held: ["no-consent": 0], dead: 0, dropped: [:], buffered: 0,
            balanced: true),
        oldestUnsent: Date())
}
