import Basics
import BlueZ
import Foundation
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway

/// A tree of the kernel's files, made for one test.
private final class Tree {
    let root = FileManager.default.temporaryDirectory
        .appending(path: "tree-\(UInt32.random(in: 0 ... .max))")

    init(_ files: [String: String], links: [String: String] = [:]) throws {
        for (path, text) in files {
            let file = root.appending(path: path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        for (path, target) in links {
            let link = root.appending(path: path)
            try FileManager.default.createDirectory(
                at: link.deletingLastPathComponent(), withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(
                atPath: link.path, withDestinationPath: target)
        }
    }

    deinit { try? FileManager.default.removeItem(at: root) }

    var system: SystemTree { SystemTree(root: root.path) }
}

@Suite struct DoctorTests {
    @Test func aNarrowConnectionWindowIsTold() throws {
        let path = "sys/kernel/debug/bluetooth/hci0/conn_max_interval"
        let narrow = try Tree([path: "40\n"])
        let finding = RadioChecks(tree: narrow.system).connectionWindow()
        #expect(finding.verdict == .warning)
        #expect(
            finding.message.contains("50 ms") && finding.remedy.contains("MaxConnectionInterval"))
        let wide = try Tree([path: "400\n"])
        #expect(RadioChecks(tree: wide.system).connectionWindow().verdict == .ok)
        let none = try Tree(["x": ""])
        #expect(RadioChecks(tree: none.system).connectionWindow().verdict == .unknown)
    }

    @Test func aSwitchedOffRadioIsToldWithItsSwitch() throws {
        func tree(soft: Int, hard: Int) throws -> Tree {
            try Tree([
                "sys/class/rfkill/rfkill0/type": "bluetooth\n",
                "sys/class/rfkill/rfkill0/soft": "\(soft)\n",
                "sys/class/rfkill/rfkill0/hard": "\(hard)\n",
                "sys/class/rfkill/rfkill1/type": "wlan\n",
                "sys/class/rfkill/rfkill1/soft": "1\n",
            ])
        }
        let off = try tree(soft: 1, hard: 0)
        #expect(RadioChecks(tree: off.system).switchedOff().remedy == "rfkill unblock bluetooth")
        let hard = try tree(soft: 1, hard: 1)
        #expect(RadioChecks(tree: hard.system).switchedOff().message.contains("hardware"))
        let on = try tree(soft: 0, hard: 0)
        #expect(RadioChecks(tree: on.system).switchedOff().verdict == .ok)
    }

    /// Who uses a stick in the place of the board's own radio had a fault for ever.
    @Test func aSecondAdapterThatIsSwitchedOffIsAWarning() throws {
        let tree = try Tree([
            "sys/class/rfkill/rfkill0/type": "bluetooth\n",
            "sys/class/rfkill/rfkill0/name": "hci0\n",
            "sys/class/rfkill/rfkill0/soft": "1\n",
            "sys/class/rfkill/rfkill1/type": "bluetooth\n",
            "sys/class/rfkill/rfkill1/soft": "0\n",
        ])
        let finding = RadioChecks(tree: tree.system).switchedOff()
        #expect(finding.verdict == .warning && finding.message.contains("hci0"))
    }

    @Test func wifiOnTheSameChipIsToldOnlyWhileItIsUp() throws {
        for (state, driver, verdict) in [
            ("up", "brcmfmac", Finding.Verdict.warning), ("down", "brcmfmac", .ok),
            ("up", "iwlwifi", .ok),
        ] {
            let tree = try Tree(
                [
                    "sys/class/net/wlan0/wireless/x": "",
                    "sys/class/net/wlan0/operstate": "\(state)\n",
                ], links: ["sys/class/net/wlan0/device/driver": "../../bus/sdio/\(driver)"])
            #expect(RadioChecks(tree: tree.system).wifi().verdict == verdict)
        }
    }

    @Test func noControllerAndOneThatIsDownAreTwoThings() throws {
        let tree = try Tree(["x": ""])
        var checks = RadioChecks(tree: tree.system)
        checks.controllers = ([], nil)
        #expect(checks.kernelControllers().message.contains("sees no Bluetooth controller"))
        checks.controllers = ([], EAFNOSUPPORT)
        #expect(checks.kernelControllers().message.contains("kernel has no Bluetooth"))
    }

    @Test(arguments: [
        ("0x01 0x02", "0x01", Finding.Verdict.ok), ("0x09 0x01", "0x01", .warning),
        ("0x02 0x02", "0x03", .warning),
    ])
    func wearIsReadFromTheCard(life: String, end: String, verdict: Finding.Verdict) async throws {
        let tree = try Tree([
            "sys/block/mmcblk0/device/life_time": life,
            "sys/block/mmcblk0/device/pre_eol_info": end,
        ])
        #expect(try await machine(tree.system).wear().verdict == verdict)
    }

    @Test func aClockThatIsNotTrustedIsAFaultWithWhatToDo() async throws {
        let tree = try Tree(["x": ""])
        var checks = try await machine(tree.system)
        checks.clock = UnsetClock()
        #expect(checks.time().verdict == .fault)
        #expect(checks.time().message.contains("1970"))
        #expect(checks.disk().verdict == .fault)
        #expect(checks.store().verdict == .unknown)
    }

    @Test func tokensThatOthersMayReadAreToldAndClosed() async throws {
        let state = "var/lib/edge-gateway"
        let tree = try Tree(
            [
                state + "/tokens-1.json": "{}", state + "/heart.ndjson": "{}",
                "elsewhere": "{}",
            ], links: [state + "/link": "../../../elsewhere"])
        let path = tree.root.appending(path: state).path
        for (name, mode) in [("", 0o777), ("/tokens-1.json", 0o666), ("/heart.ndjson", 0o644)] {
            chmod(path + name, mode_t(mode))
        }
        chmod(tree.root.path + "/elsewhere", 0o644)
        let checks = try await machine(tree.system)
        #expect(checks.modes().verdict == .fault)
        #expect(checks.modes().message.contains("/\(state)"))
        let (open, left) = StateModes(directory: path).repair()
        #expect(open == [path, path + "/tokens-1.json"] && left.isEmpty)
        #expect(checks.modes().verdict == .ok)
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        #expect(try mode(path) == 0o700 && mode(path + "/tokens-1.json") == 0o600)
        #expect(try mode(path + "/heart.ndjson") == 0o644)
        #expect(try mode(tree.root.path + "/elsewhere") == 0o644)
    }

    private func machine(_ tree: SystemTree) async throws -> MachineChecks {
        MachineChecks(
            tree: tree, settings: try SettingsLoader(environment: [:]).load(path: nil),
            clock: SystemClock(trust: .always))
    }

    /// The clock of a machine without a battery that has just started.
    private struct UnsetClock: GatewayClock {
        func read() -> ClockReading { ClockReading(uptime: .zero, wall: .epoch, isTrusted: false) }
    }

    @Test func aReportNamesTheModelThePackagesAndWhatTheDaemonUses() async throws {
        let tree = try Tree([
            "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
            "proc/meminfo": "MemTotal:        3884404 kB\n",
            "etc/os-release": "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
            "proc/42/cmdline": "/usr/bin/edge-gateway\0run\0",
            "proc/43/cmdline": "/usr/bin/edge-gateway\0doctor\0",
            "proc/42/smaps_rollup":
                "Rss: 41000 kB\nPss: 30000 kB\nAnonymous: 7168 kB\nSwap: 0 kB\n",
            "proc/42/io": "wchar: 9\nwrite_bytes: 4000000\n",
            "var/lib/dpkg/status": """
            Package: bluez
            Status: install ok installed
            Version: 5.66-1+deb12u2

            Package: dbus
            Status: deinstall ok config-files
            Version: 1.14.10-1~deb12u1

            Package: linux-image-6.1.0-25-arm64
            Status: install ok installed
            Version: 6.1.106-3

            Package: nano
            Status: install ok installed
            Version: 7.2-1
            """,
        ])
        let evidence = MachineEvidence(
            tree: tree.system, settings: try SettingsLoader(environment: [:]).load(path: nil))
        let machine = evidence.machine()
        #expect(machine.contains("model: Raspberry Pi 4 Model B Rev 1.4"))
        #expect(machine.contains("system: Debian GNU/Linux 12 (bookworm)"))
        #expect(machine.contains("memory: 3793.4 MiB"))
        #expect(machine.contains("page size: \(sysconf(Int32(_SC_PAGESIZE))) bytes"))
        #expect(
            evidence.packageVersions()
                == ["bluez: 5.66-1+deb12u2", "linux-image-6.1.0-25-arm64: 6.1.106-3"])
        let daemon = evidence.daemon(uptime: 3_600)
        #expect(daemon.contains("memory of its own: 7.0 MiB"))
        #expect(daemon.contains("proportional (PSS): 29.3 MiB"))
        #expect(daemon.contains("which is, for a day: 96 MB"))
        #expect(evidence.store() == ["there is no store, or this user may not read it"])
    }

    /// The daemon's answer comes over a socket: the report trapped on what no `Int` holds.
    @Test(arguments: [1e300, -1e300, 1e-300, .infinity, .nan])
    func aReportOfADaemonWithAnImpossibleUptimeIsWritten(uptime: Double) async throws {
        let tree = try Tree([
            "proc/42/cmdline": "/usr/bin/edge-gateway\0run\0",
            "proc/42/smaps_rollup": "Anonymous: 7168 kB\n",
            "proc/42/io": "write_bytes: 4000000\n",
        ])
        let evidence = MachineEvidence(
            tree: tree.system, settings: try SettingsLoader(environment: [:]).load(path: nil))
        let lines = evidence.daemon(uptime: uptime)
        #expect(lines.first?.hasPrefix("runs for: ") == true)
        #expect(lines.contains("written to disks: 4000000 bytes"))
    }

    @Test func aReportOfAMachineWithNothingSaysSo() async throws {
        let tree = try Tree(["proc/stat": ""])
        let evidence = MachineEvidence(
            tree: tree.system, settings: try SettingsLoader(environment: [:]).load(path: nil))
        let report = MachineReport(
            doctor: DoctorReport(version: "1.2.3", well: true, findings: []), evidence: evidence,
            kernelLog: "journalctl cannot be run", status: nil, gaps: nil,
            redactor: Redactor(patients: []))
        let text = report.text(at: Date(timeIntervalSince1970: 1_800_000_000))
        for line in [
            "model: no device tree", "this machine has no Debian packages",
            "the daemon does not run", "the daemon does not answer",
            "the kernel's log says nothing of Bluetooth",
        ] {
            #expect(text.contains(line), "\(line) in \(text)")
        }
    }

    @Test func ofTheKernelsLogAReportHasTheRadiosLinesOnlyAndNoAddress() {
        let log = """
            [    1.0] usb 1-1: new device
            [    8.1] Bluetooth: hci0: BCM43455 'brcm/BCM4345C0.hcd' Patch
            [    8.2] Bluetooth: hci0: AA:BB:CC:DD:EE:FF is up
            """
        let lines = MachineEvidence.radioLines(inKernelLog: log)
        #expect(lines.count == 2)
        let text = Redactor(patients: []).redact(lines.joined(separator: "\n"))
        #expect(text.contains("brcm/BCM4345C0.hcd") && text.contains("…EE:FF"))
        #expect(!text.contains("AA:BB"))
    }

    @Test func nothingThatMustNotLeaveSurvivesInAReport() {
        let redactor = Redactor(patients: ["40001"])
        let text = redactor.redact(
            """
            link streaming sensor=A0:9E:1A:00:00:01 /org/bluez/hci0/dev_A0_9E_1A_00_00_01
            "patient" : "40001", Patient/40001 token I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj
            https://gw/enroll/127.0.0.1%3A8000_I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj
            Bearer TqqeWdazVV5tRwfoCqrm6VZIF2VvgH
            """)
        for secret in ["A0:9E", "A0_9E", "40001", "I2Hnwc", "TqqeWd", "QiYj"] {
            #expect(!text.contains(secret), "\(secret) in \(text)")
        }
        #expect(text.contains("…00:01"))
        let plain = """
            storage.keep_delivered_hours: 24
            2026-11-22T04:00:00+00:00 started version=0.1.0 40002 exchange-unreachable
            """
        #expect(redactor.redact(plain) == plain)
    }

    /// "Ada", and how fast her heart beat, used to be in it.
    @Test func aReportNamesNoPersonAndHasNoRate() throws {
        var status = StatusReport.sample
        status.sensors[0].name = "Ada Lovelace"
        status.sensors[0].bpm = 137
        status.enrollments[0].name = "Ben \"Bär\""
        status.health[0].message = "Ada Lovelace has sent nothing for 60 s"
        status.health[1].message = "BEN \"BÄR\": the patient has not consented"
        let redactor = Redactor(
            patients: ["40001"],
            names: Redactor.labels(
                sensors: status.sensors, enrollments: status.enrollments, destinations: []))
        let text = redactor.redact(
            BugreportCommand.json(status.withoutPeople, redactor)
                + """

                2026-11-22T04:00:00 gw edge-gateway[1]: notice edge-gateway: enrollment=Ben "Bär" [EdgeGateway] enrolled
                2026-11-22T04:00:00 gw edge-gateway[1]: info edge-gateway: enrollment=Cleo Erased [EdgeGateway] enrolled
                2026-11-22T04:00:00 gw edge-gateway[1]: info edge-gateway: enrollment=e1 outcome=fresh [Uplink] token
                2026-11-22T04:00:00 gw edge-gateway[1]: warning edge-gateway: [EdgeGateway] ada lovelace: battery at 9 %
                Adamant
                """)
        for word in ["Ada Lovelace", "ada lovelace", "Ben", "BÄR", "Cleo", "137", "40001"] {
            #expect(!text.contains(word), "\(word) in \(text)")
        }
        for word in [
            "strap-1 has sent nothing", "enrollment-1: the patient", "strap-1: battery",
            "enrollment=e1 outcome=fresh", "enrollment=<name> [EdgeGateway]", "Adamant",
        ] {
            #expect(text.contains(word), "\(word) not in \(text)")
        }
        #expect(
            Redactor(patients: [], names: ["Ada": "strap-1"]).redact("Ada, adapter, Ada2, (ADA)")
                == "strap-1, adapter, Ada2, (strap-1)")
    }

    /// "Byron" and "ByronLovelace.ndjson" were in the report; so was what a person calls the gateway.
    @Test func aReportHasNoNameAndNoPlaceThatAPersonTyped() throws {
        let path = "/srv/ByronLovelace.ndjson"
        var status = StatusReport.sample
        status.enrollments = [status.enrollments[0], status.enrollments[0]]
        status.enrollments[0].name = "e1"
        status.enrollments[1].name = "e2"
        status.enrollments[1].exchange = "file:///srv/Cleo.ndjson"
        status.destinations = ["Byron", "influx", "nats"].map { name in
            var one = status.destinations[0]
            one.name = name
            return one
        }
        (status.destinations[0].id, status.destinations[0].kind) = (7, "file")
        status.destinations[0].place = "file://" + path
        (status.destinations[1].id, status.destinations[1].kind) = (8, "influx")
        status.destinations[1].place = "https://influx.lovelace.example:8086"
        (status.destinations[2].id, status.destinations[2].kind) = (9, "nats")
        status.destinations[2].place = "tls://nats.one.example,tls://nats.two.example:4222"
        status.health[0].message = "Byron: write data points (open) at \(path)"
        let settings = try SettingsLoader(
            environment: [
                "EDGE_GATEWAY_GATEWAY_NAME": "ada-bedside", "EDGE_GATEWAY_GATEWAY_SITE": "Ward Q",
                "EDGE_GATEWAY_GATEWAY_LABELS": "owner=cardiology, floor=3",
            ]
        ).load(path: nil)
        let redactor = Redactor(settings: settings, status: status, sensors: nil, alerts: nil)
        let text = redactor.redact(
            BugreportCommand.json(status.withoutPeople, redactor)
                + """

                2026-11-22T04:00:00 edge-gateway[1]: notice: enrollment=Byron [EdgeGateway] delivery paused
                2026-11-22T04:00:00 edge-gateway[1]: notice: enrollment=Dora [EdgeGateway] destination removed
                2026-11-22T04:00:00 edge-gateway[1]: notice: enrollment=influx [EdgeGateway] delivery paused
                2026-11-22T04:00:00 edge-gateway[1]: warning: not well: exchange-unreachable: Byron: no folder
                fault=influx.lovelace.example and nats.two.example:4222 not found
                ada-bedside in Ward Q of cardiology, 3
                """)
        for word in [
            "Byron", "Lovelace", "lovelace", "Cleo", "/srv", "nats.one", "nats.two", "Dora",
            "bedside", "Ward Q", "cardiology",
        ] {
            #expect(!text.contains(word), "\(word) in \(text)")
        }
        for word in [
            "destination-7: write data points (open) at destination-7-place",
            "enrollment=destination-7 [EdgeGateway]", "enrollment=influx [EdgeGateway]",
            "exchange-unreachable: destination-7: no folder", "enrollment-2-place",
            "fault=destination-8-place and destination-9-place not found",
            "https://exchange.example", "2026-11-22T04:00:00", ", 3",
        ] {
            #expect(text.contains(word), "\(word) not in \(text)")
        }
    }

    /// A lost token file was "the exchange no longer lets this gateway in"; `status` said what it is.
    @Test func doctorSaysThatTokensAreMissingHereAndNotThatTheExchangeRefusesThem() async throws {
        try await ServerFixture.run { fixture in
            let enrollment = try await fixture.queue.enroll(
                EnrollmentTerms(
                    name: "e1", origin: "http://127.0.0.1:9",
                    fhirBase: "http://127.0.0.1:9/FHIR/R5", clientID: "gw", patient: "40001",
                    device: "70001", codeSystem: "s", code: "c",
                    identifierSystem: "urn:x"))
            try await fixture.gateway.enrollmentChanges.startDelivery(of: enrollment.id)
            let report = try #require(try await fixture.gateway.enrollments.reports().first)
            let finding = ExchangeChecks.enrollment(report)
            #expect(finding.verdict == .fault)
            #expect(finding.message.contains("cannot be read"), "\(finding.message)")
            #expect(!finding.message.contains("lets this gateway in"))
            #expect(finding.remedy.contains("owner and mode"), "\(finding.remedy)")
            var refused = report
            refused.fault = nil
            #expect(ExchangeChecks.enrollment(refused).message.contains("lets this gateway in"))
        }
    }

    /// It said "ok: answers" of an exchange that had moved.
    @Test func doctorNamesTheAddressThatAnExchangeHasMovedTo() throws {
        let origin = try #require(Origin("https://old.example"))
        let answer = HTTPAnswer(
            status: 301, fields: ["location": "https://new.example:8443/health?x=hush"])
        let redirect = try #require(Redirect(answer, of: origin))
        let finding = ExchangeChecks.moved("https://old.example", redirect)
        #expect(finding.verdict == .fault)
        #expect(finding.message.contains("a redirect to https://new.example:8443"))
        #expect(finding.remedy.contains("--exchange https://new.example:8443"))
        #expect(!"\(finding)".contains("hush"))
    }

    /// `doctor` had no line at all for a destination that failed while samples waited.
    @Test func doctorHasALineForEachDestination() async throws {
        var one = StatusReport.sample.destinations[0]
        (one.name, one.kind, one.pending) = ("copy", "file", 5)
        #expect(ExchangeChecks.destination(one) == .ok("destination", "copy delivers, 5 wait"))
        one.fault = "write data points (open): No such file or directory"
        var finding = ExchangeChecks.destination(one)
        #expect(finding.verdict == .fault && finding.message.contains("5 wait"))
        #expect(finding.remedy.contains("folder"), "\(finding.remedy)")
        (one.held, one.kind) = ("forbidden", "mqtt")
        finding = ExchangeChecks.destination(one)
        #expect(finding.verdict == .fault && finding.remedy.contains("broker's rules"))
        (one.held, one.state) = (nil, "paused")
        #expect(ExchangeChecks.destination(one).verdict == .warning)
        (one.state, one.fault) = ("enroll-again", nil)
        #expect(ExchangeChecks.destination(one).remedy.contains("destination add"))
        var status = StatusReport.sample
        (status.enrollments, status.destinations) = ([], [one])
        let findings = await ExchangeChecks(
            settings: try SettingsLoader(environment: [:]).load(path: nil), status: status
        ).run()
        #expect(findings.map(\.name) == ["daemon", "destination"])
    }
}
