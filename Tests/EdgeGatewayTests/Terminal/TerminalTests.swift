import Basics
import Foundation
import Testing

@testable import EdgeGateway

@Suite struct TerminalTests {
    @Test func tablesFitEightyColumns() {
        let name = String(repeating: "a very long name ", count: 10)
        let sensor = SensorReport(
            id: 1, address: "C0:00:00:00:00:01", name: name, link: "streaming", bpm: 72,
            contact: true, secondsSinceFrame: 1, batteryPercent: 80, enrollment: "ward",
            patient: "123456789", stored: 123_456_789, pending: 123_456_789)
        for line in StrapsCommand.text([sensor], columns: 80).split(separator: "\n") {
            #expect(line.count <= 80)
        }
    }

    /// A strap that was paired for another patient by mistake could be seen nowhere.
    @Test func strapsSayForWhomEachIsAndWhyItsLinkIsNotUp() {
        let straps = [
            SensorReport(
                id: 1, address: "C0:00:00:00:00:01", name: "Ada", link: "streaming",
                enrollment: "ward", patient: "40001", stored: 1, pending: 0),
            SensorReport(
                id: 2, address: "C0:00:00:00:00:02", name: "Bob", link: "suspended",
                linkDetail: "out of range\u{1B}", enrollment: "e1", stored: 1, pending: 0),
        ]
        #expect(!StrapsCommand.table(straps, columns: nil).contains("40001"), "as in status")
        let lines = StrapsCommand.text(straps, columns: nil).split(separator: "\n")
        #expect(lines.count == 4 && lines[1].contains("ward, patient 40001  Ada"))
        #expect(lines[2].hasSuffix("e1                   Bob"), "\(lines)")
        #expect(lines[3].hasPrefix("Bob: out of range") && !lines[3].contains("\u{1B}"))
    }

    /// One name of 70 characters hid STATE, DELIVERED and UNSENT of every row, and a port was cut off without a mark.
    @Test func aLongNameOrPlaceHidesNoOtherColumnAndInAPipeNothingIsCut() throws {
        let name = String(repeating: "n", count: 70)
        var enrollment = StatusReport.sample.enrollments[0]
        (enrollment.name, enrollment.delivered, enrollment.pending) = (name, 123_456, 789)
        var destination = StatusReport.sample.destinations[0]
        destination.place = "http://127.0.0.1:8086,http://a-second-one.example:8087"
        (destination.delivered, destination.pending) = (123_456, 789)
        for columns in [80, 60] {
            for table in [
                EnrollmentsCommand.table([enrollment], columns: columns),
                DestinationText.table([destination], columns: columns),
            ] {
                let lines = table.split(separator: "\n")
                for word in ["STATE", "DELIVERED", "UNSENT", "DEAD", "LAST"] {
                    #expect(lines[0].contains(word), "\(table)")
                }
                for word in ["active", "123456", "789", "…"] {
                    #expect(lines[1].contains(word), "\(table)")
                }
            }
        }
        let whole = EnrollmentsCommand.table([enrollment], columns: 80)
        #expect(whole.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(whole)")
        #expect(EnrollmentsCommand.table([enrollment], columns: nil).contains(name))
        #expect(DestinationText.table([destination], columns: nil).hasSuffix(destination.place))
        #expect(Terminal.table(["A"], [[name]], columns: 10) == "A\n" + name)
    }

    @Test func namesFromTheRadioCannotSteerTheTerminal() {
        let table = Terminal.table(["NAME"], [["\u{1B}[2Jstrap\u{202E}x\n"]])
        #expect(!table.contains("\u{1B}"))
        #expect(!table.contains("\u{202E}"))
        #expect(table.split(separator: "\n").count == 2)
    }

    /// Escape sequences, also as C1; overrides of the reading order; line ends of every kind.
    private static let hostile =
        "Ada\u{1B}]0;x\u{7}\u{1B}[2J\u{9B}31m\u{202E}evil\u{2066}\u{2028}\u{85}\r\n! radio-off\t\u{0}\u{E0041}z"

    private func isHarmless(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy {
            switch $0.properties.generalCategory {
            case .control: $0 == "\n"
            case .format, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
    }

    @Test func aHostileNameIsOnePrintableLine() {
        let line = Printable.line(Self.hostile)
        #expect(isHarmless(line) && !line.contains("\n"), "\(line.debugDescription)")
        #expect(line.contains("Ada") && line.contains("evil") && line.contains("! radio-off"))
        #expect(isHarmless(Printable.lines("a\nb" + Self.hostile.replacing("\t", with: ""))))
        #expect(Printable.lines("a\n\tb") == "a\n\tb")
        #expect(Printable.line("Jürgen 💓 Łódź 心拍") == "Jürgen 💓 Łódź 心拍")
    }

    @Test func jsonKeepsAHostileNameAndEscapesWhatSteers() throws {
        let bytes = try ReportCoding.encoder(pretty: true).encode(["name": Self.hostile])
        let text = Printable.json(String(decoding: bytes, as: UTF8.self))
        #expect(isHarmless(text), "\(text.debugDescription)")
        let back = try JSONDecoder().decode([String: String].self, from: Data(text.utf8))
        #expect(back["name"] == Self.hostile)
    }

    @Test func answersForPeopleHavePrintableTextsAndTheSameNumbers() throws {
        let sensor = SensorReport(
            id: .max, address: "C0:00:00:00:00:01", name: Self.hostile, link: "streaming",
            contact: true, secondsSinceFrame: 0.25, stored: 123_456_789, pending: 0)
        let bytes = try ReportCoding.encoder().encode([sensor])
        let shown = try ReportCoding.decoder().decode(
            [SensorReport].self, from: Printable.strings(inJSON: bytes))
        var expected = sensor
        expected.name = Printable.line(Self.hostile)
        #expect(shown == [expected])
        #expect(Printable.strings(inJSON: Data("no JSON".utf8)) == Data("no JSON".utf8))
    }

    /// One place writes; whatever goes another way is seen here.
    @Test func noCommandWritesPastTheTerminal() throws {
        let root = repositoryRoot.appending(path: "Sources/EdgeGateway")
        let files = try FileManager.default.subpathsOfDirectory(atPath: root.path).filter {
            $0.hasSuffix(".swift") && $0 != "Terminal/Terminal.swift"
        }
        #expect(files.count > 50)
        for file in files {
            let text = try String(contentsOf: root.appending(path: file), encoding: .utf8)
            #expect(
                !text.contains(#/(^|[^\w.])(print|puts|fputs|debugPrint|dump)\(/#), "\(file)")
            #expect(!text.contains("Swift.print"), "\(file)")
            #expect(!text.contains(#/FileHandle\.standard(Output|Error)\.write/#), "\(file)")
            #expect(!text.contains(#"\u{1B}"#), "\(file)")
        }
    }

    @Test(arguments: [
        (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d"),
        (-5, "in the future"), (1e300, "99999 d"), (.infinity, "99999 d"), (.nan, "0 d"),
    ])
    func agesReadWell(seconds: Double, text: String) {
        #expect(Terminal.age(seconds) == text)
    }

    /// "for 20784 d": the clock of a machine that has just started says 1970.
    @Test func noAgeIsTakenFromAClockThatIsNotSet() {
        let set = Date(timeIntervalSince1970: 1_795_737_600)
        let unset = Date(timeIntervalSince1970: 30)
        #expect(Terminal.age(since: unset, now: set) == "?")
        #expect(Terminal.age(since: set, now: unset) == "?")
        #expect(Terminal.age(since: set, now: set + 300) == "5 min")
        #expect(Terminal.age(since: set + 5, now: set) == "0 s")
    }

    @Test(arguments: [
        ("165a0034", [0x16, 0x5a, 0x00, 0x34]), ("16:5A 00-34", [0x16, 0x5a, 0x00, 0x34]),
        ("0x16 0x4d", [0x16, 0x4d]), ("(0x) 16-4D-8C-03", [0x16, 0x4d, 0x8c, 0x03]),
        ("(0x)16-4D", [0x16, 0x4d]), ("0x 16 4d", [0x16, 0x4d]), ("0X164D", [0x16, 0x4d]),
        ("0x16, 0x4D,", [0x16, 0x4d]), ("164d 8c03", [0x16, 0x4d, 0x8c, 0x03]),
        ("\u{FEFF}16 4d\r", [0x16, 0x4d]), ("\t16:4d:00  ", [0x16, 0x4d, 0]), ("", []),
    ])
    func hexadecimalIsReadAsPeopleTypeIt(text: String, bytes: [UInt8]) {
        #expect(DecodeReport.octets(hexadecimal: text) == bytes)
    }

    /// `16 4b 8 3 1 3` was read as `16 4b 83 13`, another frame, with exit code 0.
    @Test(arguments: [
        "1", "zz", "１６", "1 6 0", "16 4b 8 3 1 3", "16 4b 8 3", "1-6", "164 b8", "16 0x4", "16 0x",
        "16 (0x)4d", "0x1 6", "16x4d", "16 4b\u{A0}83", "16\u{FEFF}4d",
    ])
    func whatIsNotAFrameIsRefused(text: String) {
        #expect(DecodeReport.octets(hexadecimal: text) == nil)
    }
}

@Suite struct SystemdNotifierTests {
    /// Calls `body` with the socket on which systemd would listen, and a notifier that knows it.
    private static func withSocket(
        _ body: (_ descriptor: Int32, _ notifier: SystemdNotifier) throws -> Void
    ) throws {
        let path =
            FileManager.default.temporaryDirectory.path + "/n\(UInt32.random(in: 0 ... .max))"
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer {
            close(descriptor)
            unlink(path)
        }
        try #require(UnixSocket.withAddress(path) { bind(descriptor, $0, $1) } == 0)
        try body(descriptor, SystemdNotifier(environment: ["NOTIFY_SOCKET": path]))
    }

    @Test func readinessReachesTheNotifySocket() throws {
        try Self.withSocket { descriptor, notifier in
            notifier.send("READY=1")
            #expect(Self.next(descriptor, Int32(MSG_DONTWAIT)) == "READY=1")
        }
    }

    @Test func readinessArrivesOnceABusySystemdReadsAndNobodyWaitsForThat() throws {
        try Self.withSocket { descriptor, notifier in
            // More than any kernel lets wait.
            for _ in 0..<10_000 { notifier.feedWatchdog() }
            notifier.send("READY=1")
            var message: String?
            repeat {
                message = Self.next(descriptor, 0)
                try #require(message != nil)
            } while message != "READY=1"
        }
    }

    /// The next message; nil if there is none.
    private static func next(_ descriptor: Int32, _ flags: Int32) -> String? {
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &buffer, buffer.count, flags)
        return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    @Test func withoutSystemdNothingHappens() {
        SystemdNotifier(environment: [:]).send("READY=1")
        SystemdNotifier(environment: ["NOTIFY_SOCKET": ""]).send("READY=1")
        SystemdNotifier(environment: ["NOTIFY_SOCKET": String(repeating: "x", count: 300)]).send(
            "x")
    }
}
