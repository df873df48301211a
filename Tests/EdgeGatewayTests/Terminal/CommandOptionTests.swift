import ArgumentParser
import GATTHeartRate
import Testing

@testable import EdgeGateway

@Suite struct CommandOptionTests {
    /// `share ADDRESS --stop` ended everybody's links, and `history --sensor` listed the deliveries of all.
    @Test(arguments: [
        "share A0:9E:1A:00:00:01 --stop", "share --stop --hours 2",
        "history --sensor A0:9E:1A:00:00:01", "history --last 5", "history --hours --limit 5",
        "history --hours --destination influx",
    ])
    func anOptionThatWouldBeIgnoredIsRefused(line: String) {
        #expect(throws: (any Error).self) { try Self.parse(line) }
    }

    @Test(arguments: [
        "share --stop", "share A0:9E:1A:00:00:01 --hours 2",
        "history --hours --last 6 --sensor A0:9E:1A:00:00:01",
        "history --destination influx --limit 5",
        "fleet --hosts f.yaml --watch --every 60", "fleet --hosts f.yaml --page 8471 --every 60",
    ])
    func optionsThatBelongTogetherAreTaken(line: String) throws {
        _ = try Self.parse(line)
    }

    @Test(arguments: ["watch --seconds 0", "watch --seconds=-1"])
    func watchingForNoTimeIsRefused(line: String) {
        #expect(throws: (any Error).self) { try Self.parse(line) }
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
