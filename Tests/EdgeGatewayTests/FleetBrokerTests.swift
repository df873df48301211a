import Basics
import Foundation
import Testing

@testable import EdgeGateway
@testable import Uplink

/// The fleet's screen from what a broker says.
@Suite struct FleetBrokerTests {
    private let noon = Date(timeIntervalSince1970: 1_796_126_400)

    private func json(_ name: String, at time: Date?, well: Bool = true) throws -> String {
        let items =
            well
            ? []
            : [
                FleetItem(
                    name: "strap-silent", severity: "error", since: noon, detail: "Bed 7",
                    remedy: "wear it", sensor: "Bed 7")
            ]
        let report = FleetReport(
            time: time, gateway: GatewayIdentity(name: name), version: "1.0.0", well: well,
            items: items, sensors: FleetSensors(paired: 1, streaming: 1, silent: []), backlog: [])
        return String(decoding: try ReportCoding.encoder().encode(report), as: UTF8.self)
    }

    /// The messages, and when each came if it was not retained.
    private func states(_ messages: [(topic: String, payload: String, at: Date?)]) -> BrokerStates {
        var states = BrokerStates(prefix: "edge-gateway")
        for message in messages {
            _ = states.note(
                MQTTMessage(
                    topic: "edge-gateway/" + message.topic, payload: Array(message.payload.utf8),
                    isRetained: message.at == nil), at: message.at ?? noon)
        }
        return states
    }

    private func rows(
        _ messages: [(topic: String, payload: String, at: Date?)], after seconds: TimeInterval = 0
    ) -> [FleetGateway] {
        var memory = FleetMemory()
        var screen = BrokerScreen(place: "mqtt://h:1883", prefix: "edge-gateway")
        return screen.report(
            .success(states(messages)), &memory, at: noon.addingTimeInterval(seconds)
        ).gateways
    }

    @Test func gatewaysAreShownAsTheyPublishedAndWhoNeedsAPersonFirst() throws {
        let found = rows([
            ("a/status", "online", nil),
            ("a/health", try json("ward3-01", at: noon.addingTimeInterval(-40)), nil),
            ("b/status", "online", nil), ("b/health", try json("b", at: noon, well: false), nil),
        ])
        #expect(found.map(\.name) == ["b", "ward3-01"])
        #expect(found.map(\.state) == [.notWell, .well])
        #expect(found[0].items.map(\.name) == ["strap-silent"])
        #expect(found[1].lastAnswer == noon.addingTimeInterval(-40))
    }

    @Test func whoseLastWillCameIsGoneSinceItsLastReport() throws {
        let found = rows(
            [
                ("a/status", "offline", nil), ("a/health", try json("ward3-01", at: noon), nil),
            ], after: 7_200)
        #expect(found.map(\.state) == [.gone])
        #expect(found[0].since == noon && found[0].lastAnswer == noon)
        #expect(found[0].name == "ward3-01" && found[0].version == "1.0.0")
        #expect(found[0].sensors == nil && found[0].items.map(\.name) == ["no-answer"])
    }

    @Test func whoHasBeenSilentForThreeMinutesIsGoneThoughNoWillCame() throws {
        let messages: [(topic: String, payload: String, at: Date?)] = [
            ("a/status", "online", nil), ("a/health", try json("a", at: noon), nil),
        ]
        #expect(rows(messages, after: BrokerScreen.staleTime).map(\.state) == [.well])
        let late = rows(messages, after: BrokerScreen.staleTime + 1)
        #expect(late.map(\.state) == [.gone] && late[0].since == noon)
    }

    @Test func aMessageThatCameJustNowIsOfNowWhateverTheGatewaysClockSays() throws {
        let longAgo = Date(timeIntervalSince1970: 0)
        let live = try json("a", at: longAgo)
        #expect(
            rows([("a/status", "online", nil), ("a/health", live, noon)]).map(\.state) == [.well])
        // One that was retained by a gateway without a clock has no time.
        let unset = try json("a", at: nil)
        #expect(
            rows([("a/status", "online", nil), ("a/health", unset, nil)]).map(\.state) == [.well])
        // A clock that is ahead makes nobody younger than now.
        let ahead = try json("a", at: noon.addingTimeInterval(1e9))
        #expect(rows([("a/health", ahead, nil)])[0].lastAnswer == noon)
    }

    @Test(arguments: [
        "", "null", "{", "{\"well\":true}", "\u{0}", String(repeating: "[", count: 100_000),
    ])
    func whatIsNoReportIsAFaultOfThatRowAndNothingElse(payload: String) throws {
        let found = rows([
            ("a/status", "online", nil), ("a/health", payload, nil),
            ("b/status", "online", nil), ("b/health", try json("b", at: noon), nil),
        ])
        #expect(found.map(\.state) == [.notWell, .well])
        #expect(found[0].items.map(\.name) == ["answer-unusable"] && found[0].name == "a")
    }

    @Test func namesOfGatewaysAndTopicsCannotSteerATerminal() throws {
        let evil = "\u{1B}[2J\u{202E}"
        let found = rows([
            ("\(evil)/status", "online", nil), ("b/status", "online", nil),
            ("b/health", try json(evil, at: noon), nil),
        ])
        #expect(found.count == 2)
        for row in found { #expect(Printable.line(row.name) == row.name) }
    }

    @Test func twoGatewaysOfOneNameAreToldApart() throws {
        let found = rows([
            ("a/status", "online", nil), ("a/health", try json("ward", at: noon), nil),
            ("b/status", "online", nil), ("b/health", try json("ward", at: noon), nil),
        ])
        #expect(
            found.map(\.name) == [
                "ward at mqtt://h:1883/edge-gateway/a", "ward at mqtt://h:1883/edge-gateway/b",
            ])
    }

    @Test func aBrokerThatDoesNotAnswerOrKnowsNobodyIsARowAndNotAWellFleet() throws {
        #expect(rows([]).map(\.state) == [.notWell])
        var memory = FleetMemory()
        var screen = BrokerScreen(place: "mqtt://h:1883", prefix: "edge-gateway")
        let known = states([
            ("a/status", "online", nil), ("a/health", try json("a", at: noon), nil),
        ])
        _ = screen.report(.success(known), &memory, at: noon)
        let problem = DestinationProblem("no connection", "check the port")
        let soon = screen.report(.failure(problem), &memory, at: noon.addingTimeInterval(60))
        #expect(soon.gateways.map(\.name) == ["mqtt://h:1883", "a"])
        #expect(soon.gateways.map(\.state) == [.gone, .well] && !soon.isWell)
        #expect(soon.gateways[0].items.map(\.detail) == ["no connection"])
    }

    @Test func theMemoryDoesNotGrowWithGatewaysThatSomebodyInvents() throws {
        var memory = FleetMemory()
        let answer = FleetAnswer(message: Array(try json("a", at: noon).utf8))
        for number in 0..<FleetMemory.entriesMax + 100 {
            _ = memory.note(
                answer, of: FleetSubject(address: "\(number)"),
                at: noon.addingTimeInterval(Double(number)))
        }
        memory.forget(at: noon.addingTimeInterval(6_000))
        #expect(memory.entries.count == FleetMemory.entriesMax)
        #expect(memory.entries["0"] == nil && memory.entries["5099"] != nil)
    }

    // MARK: - When a gateway publishes

    private func report(_ change: (inout StatusReport) -> Void = { _ in }) -> FleetReport {
        var status = StatusReport.sample
        change(&status)
        return FleetReport(status, at: noon)
    }

    @Test func theStateIsShownEachMinuteAndAtOnceWhenAPersonWouldSeeSomethingNew() {
        var pace = ShowPace()
        func due(_ report: FleetReport, _ seconds: Double) -> Bool {
            pace.isDue(report, at: .zero + .milliseconds(Int64(seconds * 1_000)))
        }
        #expect(due(report(), 0))
        #expect(!due(report(), 5))
        #expect(!due(report(), 59.9))
        #expect(due(report(), 60))
        let silent = report { $0.sensors[0].secondsSinceFrame = 11 }
        #expect(due(silent, 62))
        #expect(!due(silent, 67))
        #expect(due(report(), 70))
        let item = HealthItem(
            name: "battery-low", severity: "warning", since: noon, sensor: 1,
            message: "9 %", advice: "change it")
        #expect(due(report { $0.health = [item] }, 75))
        #expect(due(report { $0.sensors[0].name = "Bed 9" }, 80))
    }

    @Test func figuresThatChangeAllTheTimeWaitForTheMinute() {
        var pace = ShowPace()
        _ = pace.isDue(report(), at: .zero)
        let item = HealthItem(
            name: "battery-low", severity: "warning", since: noon, seconds: 7, sensor: 1,
            message: "9 %", advice: "change it")
        let isNew = pace.isDue(report { $0.health = [item] }, at: .zero)
        var later = item
        later.message = "8 %"
        later.since = noon.addingTimeInterval(0.1)
        later.seconds = 12
        let figures = report {
            $0.health = [later]
            $0.oldestUnsent = noon.addingTimeInterval(-99)
            $0.destinations = $0.destinations.map {
                var one = $0
                one.pending += 7
                return one
            }
        }
        let isDue = pace.isDue(figures, at: .zero)
        #expect(isNew && !isDue)
    }
}
