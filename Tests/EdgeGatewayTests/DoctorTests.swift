import Basics
import BlueZ
import Foundation
import OfflineQueue
import Testing

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
        checks.reading = ClockReading(
            uptime: .zero, wall: UTC(microseconds: 0), isTrusted: false)
        #expect(checks.clock().verdict == .fault)
        #expect(checks.clock().message.contains("1970"))
        #expect(checks.disk().verdict == .fault)
        #expect(checks.store().verdict == .unknown)
    }

    private func machine(_ tree: SystemTree) async throws -> MachineChecks {
        MachineChecks(
            tree: tree, settings: try await SettingsLoader(environment: [:]).load(path: nil),
            reading: SystemClock(trust: .always).read())
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
            names: Redactor.labels(sensors: status.sensors, enrollments: status.enrollments))
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
}
