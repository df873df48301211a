import Foundation
import Testing

@testable import EdgeGateway

@Suite struct TerminalTests {
    @Test func tablesFitEightyColumns() {
        let name = String(repeating: "a very long name ", count: 10)
        let sensor = SensorReport(
            id: 1, address: "C0:00:00:00:00:01", name: name, link: "streaming", bpm: 72,
            contact: true, secondsSinceFrame: 1, batteryPercent: 80, stored: 123_456_789,
            pending: 12)
        for line in SensorsCommand.table([sensor]).split(separator: "\n") {
            #expect(line.count <= 80)
        }
    }

    @Test func namesFromTheRadioCannotSteerTheTerminal() {
        let table = Terminal.table(["NAME"], [["\u{1B}[2Jstrap\u{202E}x\n"]])
        #expect(!table.contains("\u{1B}"))
        #expect(!table.contains("\u{202E}"))
        #expect(table.split(separator: "\n").count == 2)
    }

    @Test(arguments: [
        (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d"),
        (-5, "in the future"), (1e300, "99999 d"),
    ])
    func agesReadWell(seconds: Double, text: String) {
        #expect(Terminal.age(seconds) == text)
    }

    @Test(arguments: [
        ("165a0034", [0x16, 0x5a, 0x00, 0x34]), ("16:5A 00-34", [0x16, 0x5a, 0x00, 0x34]),
        ("", []),
    ])
    func hexadecimalIsReadAsPeopleTypeIt(text: String, bytes: [UInt8]) {
        #expect(DecodeReport.octets(hexadecimal: text) == bytes)
    }

    @Test(arguments: ["1", "zz", "１６", "1 6 0"])
    func whatIsNotAFrameIsRefused(text: String) {
        #expect(DecodeReport.octets(hexadecimal: text) == nil)
    }
}

@Suite struct HealthLogTests {
    @Test func aConditionKeepsItsBeginningUntilItEnds() {
        var log = HealthLog()
        let radio = HealthCondition(name: "radio-off", message: "m", advice: "a")
        let start = Date(timeIntervalSince1970: 100)
        log.update([radio], at: start)
        log.update([radio], at: start + 60)
        #expect(log.items.map(\.since) == [start])
        log.update([], at: start + 90)
        #expect(log.items.isEmpty)
        log.update([radio], at: start + 120)
        #expect(log.items.map(\.since) == [start + 120])
    }

    @Test func twoSensorsWithTheSameConditionAreTwoItems() {
        var log = HealthLog()
        let one = HealthCondition(name: "strap-silent", subject: "1", message: "m", advice: "a")
        let two = HealthCondition(name: "strap-silent", subject: "2", message: "m", advice: "a")
        log.update([one], at: Date(timeIntervalSince1970: 1))
        log.update([one, two], at: Date(timeIntervalSince1970: 2))
        #expect(log.items.map(\.since.timeIntervalSince1970) == [1, 2])
    }
}

@Suite struct SystemdNotifierTests {
    @Test func readinessReachesTheNotifySocket() throws {
        let path =
            FileManager.default.temporaryDirectory.path + "/n\(UInt32.random(in: 0 ... .max))"
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer {
            close(descriptor)
            unlink(path)
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        SystemdNotifier(environment: ["NOTIFY_SOCKET": path]).send("READY=1")
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        #expect(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == "READY=1")
    }

    @Test func withoutSystemdNothingHappens() {
        SystemdNotifier(environment: [:]).send("READY=1")
        SystemdNotifier(environment: ["NOTIFY_SOCKET": ""]).send("READY=1")
        SystemdNotifier(environment: ["NOTIFY_SOCKET": String(repeating: "x", count: 300)]).send(
            "x")
    }
}
