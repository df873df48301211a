import ArgumentParser
import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Synchronization
import Testing
import Uplink

@testable import EdgeGateway

/// The alerts of a daemon, with a clock that is moved and a receiver in memory.
@Suite struct AlertsTests {
    /// A receiver that answers or does not, and what it got.
    private final class Receiver: HTTPTransport {
        private let state = Mutex<(isThere: Bool, requests: [HTTPRequest])>((true, []))

        var isThere: Bool {
            get { state.withLock(\.isThere) }
            set { state.withLock { $0.isThere = newValue } }
        }

        var requests: [HTTPRequest] { state.withLock(\.requests) }

        func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer {
            let isThere = state.withLock { state in
                if state.isThere { state.requests.append(request) }
                return state.isThere
            }
            guard isThere else { throw .connect }
            return HTTPAnswer(status: 200)
        }
    }

    private final class MovedClock: GatewayClock {
        private let reading = Mutex(
            ClockReading(
                uptime: .zero + .seconds(10_000), wall: UTC(microseconds: 1_795_846_200_000_000),
                isTrusted: true))

        func read() -> ClockReading { reading.withLock { $0 } }

        func change(_ body: (inout ClockReading) -> Void) { reading.withLock { body(&$0) } }

        func pass(_ time: Duration) {
            change {
                $0.uptime += time
                $0.wall += time
            }
        }
    }

    /// A state directory, and the alerts of one run after another.
    private final class Fixture {
        let directory = URL(filePath: "/tmp/alerts-\(UUID().uuidString)")
        let clock = MovedClock()
        let receiver = Receiver()
        let queue: SampleQueue
        let settings: Settings
        var alerts: Alerts
        var boot = "boot-1"
        var present: [AlertSchedule.Seen] = []
        var isFlowing = true

        init() throws {
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            queue = try SampleQueue(
                path: directory.path + "/queue.sqlite", clock: SystemClock(trust: .always),
                bootID: "boot")
            settings = try SettingsLoader(
                environment: [
                    "EDGE_GATEWAY_STATE": directory.path,
                    "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
                    "EDGE_GATEWAY_GATEWAY_NAME": "attic",
                ]
            ).load()
            alerts = Self.begin(settings, queue, clock, receiver, boot)
        }

        private static func begin(
            _ settings: Settings, _ queue: SampleQueue, _ clock: MovedClock, _ receiver: Receiver,
            _ boot: String
        ) -> Alerts {
            var logger = Logger(label: "alerts")
            logger.logLevel = .critical
            return Alerts(
                settings: settings, queue: queue, clock: clock, logger: logger, boot: boot,
                transport: { receiver })
        }

        var service: AlertService { AlertService(alerts: alerts) }

        func restart() { alerts = Self.begin(settings, queue, clock, receiver, boot) }

        func begin(_ name: HealthName, _ subject: String = "", strap: Int64? = nil) {
            present.append(
                AlertSchedule.Seen(
                    name: name, subject: subject, strap: strap, began: clock.read().uptime))
        }

        /// What one look finds to be sent.
        func due() async -> [Alerts.Sending] {
            await alerts.due(
                HealthView(reading: clock.read(), items: present, isFlowing: isFlowing))
        }

        func run(_ time: Duration) async {
            let end = clock.read().uptime + time
            while clock.read().uptime < end {
                for sending in await due() { await sending.send() }
                clock.pass(.seconds(13))
            }
        }

        /// The messages that ntfy got, without tests.
        var texts: [String] {
            receiver.requests.filter { $0.method == .post }
                .map { String(decoding: $0.body, as: UTF8.self) }
                .filter { !$0.hasPrefix("This is a test") }
        }

        func end() async throws {
            try await queue.close()
            try FileManager.default.removeItem(at: directory)
        }
    }

    private static let ntfy = AlertAddRequest(
        kind: "ntfy", settings: ["url": "http://127.0.0.1:9/Zebra7"])

    private static func run(_ body: (Fixture) async throws -> Void) async throws {
        let fixture = try Fixture()
        try await body(fixture)
        try await fixture.end()
    }

    @Test func aMessageSaysWhatSinceWhenAndWhatToDoAndNoMore() async throws {
        try await Self.run { fixture in
            let strap = try await fixture.queue.addSensor(
                address: "A0:9E:1A:00:00:01", details: SensorDetails(name: "Ada"))
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.strapSilent, "\(strap.id)", strap: strap.id)
            fixture.begin(.exchangeUnreachable, "Ben's enrollment")
            await fixture.run(.seconds(600))
            #expect(
                fixture.texts
                    == [
                        """
                        error: strap-silent (strap \(strap.id))
                          a paired strap has sent nothing for a minute
                          since 2026-11-28 06:10 UTC, for 4 min
                          do: wear it, moisten the electrodes, end its connection to phones, check its battery

                        error: exchange-unreachable
                          deliveries fail; samples are kept
                          since 2026-11-28 06:10 UTC, for 4 min
                          do: check network, DNS, proxy and firewall; delivery resumes by itself

                        The gateway is attic; edge-gateway status there says more.

                        """
                    ].map { $0.replacing("for 4 min", with: "for 5 min") }, "\(fixture.texts)")
            let title = fixture.receiver.requests.last?.headers.first { $0.name == "Title" }?.value
            #expect(title == "attic: 2 errors")
        }
    }

    @Test func namesOfStrapsAreInItOnlyIfSomebodyWantsThat() async throws {
        try await Self.run { fixture in
            let strap = try await fixture.queue.addSensor(
                address: "A0:9E:1A:00:00:01", details: SensorDetails(name: "Ada\u{202E}"))
            _ = try await fixture.service.add(Self.ntfy)
            var named = Self.ntfy
            (named.name, named.strapNames) = ("open", true)
            #expect(try await fixture.service.add(named).strapNames)
            fixture.begin(.strapSilent, "\(strap.id)", strap: strap.id)
            await fixture.run(.seconds(600))
            #expect(fixture.texts.count == 2)
            #expect(fixture.texts.count { $0.contains("(Ada\u{FFFD})") } == 1)
            #expect(fixture.texts.count { $0.contains("(strap \(strap.id))") } == 1)
            #expect(!fixture.texts.contains { $0.contains("A0:9E") || $0.contains("00:01") })
        }
    }

    /// A mail server that hung for a minute kept every other alert waiting as long.
    @Test func aServerThatHangsKeepsNoOtherAlertWaiting() async throws {
        try await Self.run { fixture in
            for name in ["slow", "quick"] {
                var request = Self.ntfy
                request.name = name
                _ = try await fixture.service.add(request)
            }
            fixture.begin(.noAdapter)
            let seconds = fixture.clock.read().uptime
            var hanging: [Alerts.Sending] = []
            func look(for time: Duration) async {
                let end = fixture.clock.read().uptime + time
                while fixture.clock.read().uptime < end {
                    for sending in await fixture.due() {
                        // The slow one's server has not answered yet.
                        if sending.alert == "slow" {
                            hanging.append(sending)
                        } else {
                            await sending.send()
                        }
                    }
                    fixture.clock.pass(.seconds(13))
                }
            }
            await look(for: .seconds(400))
            #expect(fixture.texts.count == 1 && hanging.count == 1)
            fixture.present = []
            await look(for: .seconds(400))
            #expect(fixture.texts.count == 2 && hanging.count == 1, "\(fixture.texts)")
            // It answers at last, and that it is over is news there as well.
            await hanging[0].send()
            #expect(fixture.texts.count == 3)
            await look(for: .seconds(26))
            #expect(hanging.count == 2)
            #expect(fixture.clock.read().uptime - seconds < .seconds(1_000))
        }
    }

    /// A message that nobody had sent counted as sent: an attempt from before the change of the alert ended well.
    @Test func anAttemptFromBeforeAChangeOfTheAlertSettlesNothing() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            func next() async -> Alerts.Sending? {
                for _ in 0..<40 {
                    if let sending = await fixture.due().first { return sending }
                    fixture.clock.pass(.seconds(13))
                }
                return nil
            }
            let old = try #require(await next())
            _ = try await fixture.service.add(Self.ntfy)
            let new = try #require(await next())
            await old.send()
            fixture.present = []
            #expect(await next()?.alert == nil, "the new attempt is under way")
            await new.send()
            #expect(fixture.texts.count == 2)
        }
    }

    @Test func identicalItemsAreSaidOnce() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            for strap in 1...20 { fixture.begin(.strapSilent, "\(strap)", strap: Int64(strap)) }
            for name in ["e1", "e2"] { fixture.begin(.deliveryStalled, name) }
            await fixture.run(.seconds(600))
            let text = try #require(fixture.texts.first)
            #expect(text.components(separatedBy: "error: ").count == 3)
            #expect(text.contains("strap 12 and 8 more") && text.contains("(2 of them)"))
        }
    }

    @Test func nothingIsSaidAgainByTheNextRunNorByTheNextBoot() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            await fixture.run(.seconds(900))
            #expect(fixture.texts.count == 1)
            for boot in ["boot-1", "boot-2", "boot-3"] {
                // The machine was off for an hour, and its uptime begins anew.
                if boot != "boot-1" {
                    fixture.clock.change {
                        $0.wall += .seconds(3_600)
                        $0.uptime = .zero + .seconds(40)
                    }
                }
                fixture.boot = boot
                fixture.restart()
                fixture.present[0].began = fixture.clock.read().uptime
                await fixture.run(.seconds(2_000))
            }
            #expect(fixture.texts.count == 1)
            // A day has passed with what the machine was off.
            await fixture.run(.seconds(86_400 - 13_800 + 60))
            try #require(fixture.texts.count == 2)
            #expect(fixture.texts[1].hasPrefix("still error: no-adapter"), "\(fixture.texts[1])")
            #expect(fixture.texts[1].contains("since 2026-11-28 06:10 UTC"))
        }
    }

    /// A machine without a battery clock learns the time minutes after its start.
    @Test func timeInWhichTheMachineWasOffCountsOnceTheClockIsTrusted() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            await fixture.run(.seconds(900))
            let wall = fixture.clock.read().wall
            fixture.clock.change {
                $0 = ClockReading(uptime: .zero + .seconds(40), wall: .epoch, isTrusted: false)
            }
            fixture.boot = "boot-2"
            fixture.restart()
            fixture.clock.pass(.seconds(1))
            fixture.present[0].began = fixture.clock.read().uptime
            fixture.begin(.clockUntrusted)
            await fixture.run(.seconds(600))
            try #require(fixture.texts.count == 2)
            #expect(fixture.texts[1].contains("clock-untrusted"))
            fixture.clock.change {
                $0.isTrusted = true
                $0.wall = wall + .seconds(90_000)
            }
            await fixture.run(.seconds(30))
            try #require(fixture.texts.count == 3)
            #expect(fixture.texts[2].contains("still error: no-adapter"))
            #expect(fixture.texts[2].contains("since 2026-11-28 06:10 UTC, for 25 h"))
        }
    }

    /// The clock is what a box in the field is unsure of.
    @Test func aClockThatIsSetChangesNothingButWhatItSays() async throws {
        try await Self.run { fixture in
            fixture.clock.change {
                $0.isTrusted = false
                $0.wall = .epoch
            }
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.clockUntrusted)
            await fixture.run(.seconds(150))
            fixture.clock.change { $0.wall += .seconds(50 * 365 * 86_400) }
            await fixture.run(.seconds(250))
            fixture.clock.change { $0.wall = .epoch }
            await fixture.run(.seconds(3_600))
            try #require(fixture.texts.count == 1)
            #expect(
                fixture.texts[0].contains("\n  for 4 min\n")
                    || fixture.texts[0].contains("\n  for 5 min\n"))
            #expect(!fixture.texts[0].contains("1970"))
        }
    }

    @Test func whatDoesNotArriveIsAHealthItemThatTheOthersTell() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            await fixture.run(.seconds(200))
            fixture.receiver.isThere = false
            await fixture.run(.seconds(1_200))
            let now = fixture.clock.read().uptime
            let fault = try #require(await fixture.alerts.faults(at: now).first)
            #expect(fault.name == "ntfy" && fault.undeliveredTime > .seconds(300))
            #expect(fault.fault == "no connection to the server")
            let report = try #require(try await fixture.alerts.reports().first)
            #expect(report.waitingSince != nil && report.fault == fault.fault)
            // It is not told to itself.
            fixture.begin(.alertNotDelivered, "ntfy")
            fixture.receiver.isThere = true
            await fixture.run(.seconds(7_200))
            #expect(await fixture.alerts.faults(at: fixture.clock.read().uptime).isEmpty)
            try #require(fixture.texts.count == 1)
            #expect(fixture.texts[0].contains("late: it could not be sent before"))
            var other = Self.ntfy
            (other.name, other.warningsAfter) = ("other", 60)
            _ = try await fixture.service.add(other)
            await fixture.run(.seconds(900))
            #expect(fixture.texts.contains { $0.contains("warning: alert-not-delivered") })
        }
    }

    @Test func aFailedTestStoresNothing() async throws {
        try await Self.run { fixture in
            fixture.receiver.isThere = false
            let problem = await #expect(throws: ProblemReport.self) {
                _ = try await fixture.service.add(Self.ntfy)
            }
            #expect(problem?.code == "alert-refused")
            #expect(problem.map { "\($0)".contains("Zebra7") } == false)
            let stored = try await fixture.alerts.reports()
            #expect(stored.isEmpty)
            for (kind, settings, code) in [
                ("pigeon", [:], "bad-alert"), ("ntfy", ["url": "x"], "bad-alert"),
                ("ntfy", ["url": "http://127.0.0.1/", "x": "y"], "bad-alert"),
                ("ntfy", ["url": String(repeating: "x", count: 5_000)], "bad-alert"),
            ] {
                let problem = await #expect(throws: ProblemReport.self) {
                    _ = try await fixture.service.add(
                        AlertAddRequest(kind: kind, settings: settings))
                }
                #expect(problem?.code == code)
            }
            let late = await #expect(throws: ProblemReport.self) {
                var ask = Self.ntfy
                ask.errorsAfter = 90_000
                _ = try await fixture.service.add(ask)
            }
            #expect(late?.code == "bad-request")
        }
    }

    @Test func anAlertIsPausedResumedAndRemovedWithItsFiles() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            #expect(try await fixture.alerts.pause("ntfy", true).state == "paused")
            fixture.restart()
            #expect(await fixture.alerts.isIdle)
            await fixture.run(.seconds(3_600))
            #expect(fixture.texts.isEmpty)
            #expect(try await fixture.alerts.pause("ntfy", false).state == "active")
            await fixture.run(.seconds(60))
            #expect(fixture.texts.count == 1)
            func files() throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path)
                    .filter { $0.hasPrefix("alert-") }
            }
            #expect(try files().count == 1)
            _ = try await fixture.alerts.remove("ntfy")
            #expect(try files().isEmpty)
            for name in ["ntfy", "", "../x"] {
                let problem = await #expect(throws: ProblemReport.self) {
                    _ = try await fixture.alerts.remove(name)
                }
                #expect(problem?.code == "unknown-alert")
            }
        }
    }

    @Test func newSettingsForAnAlertRepeatNothing() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            fixture.begin(.noAdapter)
            await fixture.run(.seconds(900))
            var moved = Self.ntfy
            moved.settings["url"] = "http://127.0.0.1:9/Other8"
            // A second one without a name took the first one's address.
            let refused = await #expect(throws: ProblemReport.self) {
                _ = try await fixture.service.add(moved)
            }
            #expect(refused?.message == "there is an alert ntfy already, with another url")
            moved.name = "NTFY"
            await #expect(throws: ProblemReport.self) { _ = try await fixture.service.add(moved) }
            moved.replace = true
            _ = try await fixture.service.add(moved)
            await fixture.run(.seconds(3_600))
            #expect(fixture.texts.count == 1)
            #expect(try await fixture.alerts.reports().count == 1)
            let problem = await #expect(throws: ProblemReport.self) {
                _ = try await fixture.service.add(
                    AlertAddRequest(
                        kind: "sign-of-life", settings: ["url": "http://127.0.0.1:9/"], name: "ntfy"
                    ))
            }
            #expect(problem?.code == "name-taken")
        }
    }

    @Test func aFileThatCannotBeReadIsAHealthItemUntilItCan() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(Self.ntfy)
            let file = URL(filePath: fixture.directory.path + "/alerts.json")
            let right = try Data(contentsOf: file)
            try Data("{".utf8).write(to: file)
            fixture.restart()
            #expect(await fixture.alerts.faults(at: .zero).map(\.name) == ["alerts"])
            try right.write(to: file)
            await fixture.alerts.readAgain()
            #expect(await fixture.alerts.faults(at: .zero).isEmpty)
            #expect(try await fixture.alerts.reports().map(\.name) == ["ntfy"])
            try Data("{".utf8).write(to: file)
            fixture.restart()
            var other = Self.ntfy
            other.name = "other"
            // It took the place of the file, and the others were gone with their passwords.
            let broken = try Data(contentsOf: file)
            let problem = await #expect(throws: ProblemReport.self) {
                _ = try await fixture.service.add(other)
            }
            #expect(problem?.code == "cannot-open")
            #expect(problem?.advice.contains("alerts.json") == true)
            await #expect(throws: ProblemReport.self) { _ = try await fixture.alerts.reports() }
            await #expect(throws: ProblemReport.self) {
                _ = try await fixture.alerts.remove("ntfy")
            }
            #expect(try Data(contentsOf: file) == broken)
            try right.write(to: file)
            _ = try await fixture.service.add(other)
            #expect(try await fixture.alerts.reports().map(\.name) == ["ntfy", "other"])
        }
    }

    @Test func whatReachesNobodyIsInTheStatusOfTheGateway() async throws {
        try await ServerFixture.run { fixture in
            let file = fixture.directory.appending(path: "alerts.json")
            try Data("{".utf8).write(to: file)
            let gateway = Gateway(
                settings: fixture.settings, queue: fixture.queue,
                central: Central(settings: CentralSettings(service: HeartRateService.service)),
                clock: SystemClock(trust: .always), logger: fixture.logger)
            let item = try #require(
                await gateway.health.items().first { $0.name == "alert-not-delivered" })
            #expect(item.severity == "warning" && item.advice.contains("alert add"))
            let view = await gateway.health.view()
            #expect(view.items.contains { $0.name == .alertNotDelivered && $0.subject == "alerts" })
        }
    }

    @Test func asManyAsThereMayBeAreStoredAndReadBack() async throws {
        try await Self.run { fixture in
            for number in 1...Alerts.countMax {
                var ask = Self.ntfy
                ask.name = "phone \(number)"
                ask.settings["url"] = "http://127.0.0.1:9/" + String(repeating: "x", count: 4_000)
                _ = try await fixture.service.add(ask)
            }
            let problem = await #expect(throws: ProblemReport.self) {
                _ = try await fixture.service.add(Self.ntfy)
            }
            #expect(problem?.code == "too-many-alerts")
            fixture.restart()
            #expect(try await fixture.alerts.reports().count == Alerts.countMax)
        }
    }

    @Test func aSignOfLifeFollowsTheHeartbeats() async throws {
        try await Self.run { fixture in
            _ = try await fixture.service.add(
                AlertAddRequest(
                    kind: "sign-of-life",
                    settings: [
                        "url": "http://127.0.0.1:9/Zebra7", "failure": "http://127.0.0.1:9/fail",
                        "every": "5m",
                    ]))
            #expect(fixture.receiver.requests.map(\.target) == ["/Zebra7"])
            await fixture.run(.seconds(500))
            fixture.isFlowing = false
            await fixture.run(.seconds(300))
            #expect(
                fixture.receiver.requests.map(\.target)
                    == ["/Zebra7", "/Zebra7", "/Zebra7", "/fail"])
            let report = try #require(try await fixture.alerts.reports().first)
            #expect(report.every == 300 && report.errorsAfter == nil)
            #expect(report.place == "http://127.0.0.1:9/…")
            fixture.receiver.isThere = false
            await fixture.run(.seconds(1_200))
            #expect(await fixture.alerts.faults(at: fixture.clock.read().uptime).count == 1)
        }
    }

    @Test(arguments: [
        "alert add mail password=word", "alert add webhook secret=whsec_x",
        "alert add ntfy token=tk",
        "alert add ntfy url", "alert add mail user=- password=-",
        "alert add ntfy --errors-after 5x", "alert add sign-of-life url=- --strap-names",
        "alert add sign-of-life url=- --errors-after 2m",
    ])
    func aSecretOnTheCommandLineAndWhatIsNoSettingAreRefused(line: String) {
        #expect(throws: (any Error).self) {
            try EdgeGatewayCommand.parseAsRoot(line.split(separator: " ").map(String.init))
        }
    }

    @Test(arguments: [
        "alert add mail password=@file", "alert add mail password=-",
        "alert add ntfy url=https://x/y",
        "alert add ntfy url=- --errors-after 10m --warnings-after 2h --strap-names", "alert list",
        "alert remove mail --yes", "alert kinds mail",
    ])
    func whatIsRightIsTaken(line: String) throws {
        _ = try EdgeGatewayCommand.parseAsRoot(line.split(separator: " ").map(String.init))
    }

    @Test func aListShowsWhatCouldNotBeSent() {
        let noon = Date(timeIntervalSince1970: 1_796_126_400)
        let report = AlertReport(
            name: "mail", kind: "mail", place: "smtps://mail.example:465, 1 recipient",
            state: "active", strapNames: false, waitingSince: noon, fault: "answers 451")
        #expect(
            AlertText.table([report], .utc, columns: nil) == """
                NAME  KIND  STATE  LAST SENT  PLACE
                mail  mail  fails  -          smtps://mail.example:465, 1 recipient
                ! mail: answers 451; a message waits since 2026-12-01 12:00:00 UTC
                """)
    }

    /// Who is told, and by which server, is nobody's business but this gateway's.
    @Test func aReportForMaintainersHasNoNameOrPlaceOfAnAlert() throws {
        let alert = AlertReport(
            name: "Cleo", kind: "mail", place: "smtps://mail.lovelace.example:465, 1 recipient",
            state: "active", strapNames: false)
        let settings = try SettingsLoader(environment: [:]).load()
        let text = Redactor(settings: settings, status: nil, sensors: nil, alerts: [alert]).redact(
            """
            Cleo: nothing has arrived for 9 min: smtps://mail.lovelace.example:465 answers 451
            warning: alert=Dora [EdgeGateway] nobody could be told: no connection to the server mail.lovelace.example
            notice: alert=mail [EdgeGateway] alert paused
            """)
        for word in ["Cleo", "lovelace", "Dora"] { #expect(!text.contains(word), "\(text)") }
        #expect(text.contains("alert-1: nothing") && text.contains("alert=mail ["))
    }
}
