import ArgumentParser
import GATTHeartRate
import Testing

@testable import EdgeGateway

@Suite struct CommandOptionTests {
    /// `share STRAP --stop` ended everybody's links, and `history --strap` listed the deliveries of all.
    @Test(arguments: [
        "share --strap A0:9E:1A:00:00:01 --stop", "share --stop --for 2h",
        "history --strap A0:9E:1A:00:00:01", "history --hours --limit 5",
        "history --hours --until 12:00", "history --hours --destination influx",
        "gaps --last 2d --since yesterday", "queue redeliver", "queue redeliver --until 12:00",
        "destination add file path=/srv/x --every-strap --strap A0:9E:1A:00:00:01",
    ])
    func anOptionThatWouldBeIgnoredIsRefused(line: String) {
        #expect(throws: (any Error).self) { try Self.parse(line) }
    }

    @Test(arguments: [
        "share --stop", "share --strap A0:9E:1A:00:00:01 --for 2h",
        "history --hours --last 6h --strap A0:9E:1A:00:00:01", "history --last 2d",
        "history --destination influx --limit 5",
        "fleet --hosts f.yaml --watch --every 60", "fleet --hosts f.yaml --page 8471 --every 60",
    ])
    func optionsThatBelongTogetherAreTaken(line: String) throws {
        _ = try Self.parse(line)
    }

    /// A link for half an hour was good for an hour.
    @Test(arguments: ["share --for 30m", "share --for 90m", "queue purge --older-than 1m"])
    func aLengthThatWouldBeRoundedIsRefused(line: String) {
        #expect(throws: (any Error).self) { try Self.parse(line) }
    }

    @Test(arguments: ["watch --for 0s", "watch --for=-1s", "watch --for 5"])
    func watchingForNoTimeIsRefused(line: String) {
        #expect(throws: (any Error).self) { try Self.parse(line) }
    }

    /// "12" was taken for 000012.
    @Test(arguments: ["12", "4213", "1234567", "+12345", "-12345", "12345x", ""])
    func aCodeThatIsNotOfSixDigitsIsRefused(code: String) {
        #expect(throws: (any Error).self) { try Self.parse("pair bed --passkey=\(code)") }
    }

    @Test func aCodeMayBeginWithZeros() throws {
        _ = try Self.parse("pair bed --passkey 004213")
    }

    @Test func theExampleOfDecodeIsAValidFrame() throws {
        let help = DecodeCommand.configuration.discussion
        let frame = try #require(help.firstMatch(of: #/decode ([0-9a-f]+)/#)).1
        let octets = try #require(DecodeReport.octets(hexadecimal: String(frame)))
        #expect(DecodeReport(frame: octets, policy: .strict).isValid)
    }

    private static func parse(_ line: String) throws -> any ParsableCommand {
        try EdgeGatewayCommand.parseAsRoot(line.split(separator: " ").map(String.init))
    }
}
