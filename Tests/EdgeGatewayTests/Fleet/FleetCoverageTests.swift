import ArgumentParser
import Foundation
import OfflineQueue
import Testing

@testable import EdgeGateway
@testable import Uplink

/// The statement of completeness over a fleet: what is known of each day of each strap, and what is not.
@Suite struct FleetCoverageTests {
    /// 2026-12-01 12:00 UTC.
    private let noon = Date(timeIntervalSince1970: 1_796_126_400)
    private var today: Date { noon - 43_200 }
    private var days: [Date] { (-2...0).map { today + Double($0) * 86_400 } }

    private func figures(_ day: Date, _ percent: Double = 99.5) -> FleetCoverageReport.Day {
        FleetCoverageReport.Day(
            day: day, percent: percent, expectedSeconds: 1_000, coveredSeconds: percent * 10,
            longestGapSeconds: 5, secondsByCause: ["link-lost": 1_000 - percent * 10])
    }

    private func report(
        _ name: String = "ward3-07", at time: Date?, straps: [FleetCoverageReport.Strap]
    ) -> FleetCoverageReport {
        FleetCoverageReport(
            time: time, gateway: GatewayIdentity(name: name, site: "Ward 3"), since: days[0],
            until: today + 86_400, straps: straps)
    }

    private func table(
        _ replies: [(String, FleetReply<FleetCoverageReport>)], memory: FleetMemory = FleetMemory()
    ) -> FleetCoverageTable {
        FleetCoverageTable(
            replies.map { (FleetSubject(address: $0), $1) }, memory, days: days, at: noon)
    }

    @Test func eachDayOfEachStrapIsARowAndTheLastOneGoesOn() {
        let straps = ["Bed 10", "Bed 2"].map { name in
            FleetCoverageReport.Strap(name: name, days: days.map { figures($0) })
        }
        let table = table([("https://a", .report(report(at: noon, straps: straps)))])
        #expect(table.rows.map(\.state) == [.whole, .whole, .soFar, .whole, .whole, .soFar])
        #expect(table.rows.allSatisfy { $0.gateway == "ward3-07" && $0.site == "Ward 3" })
        #expect(table.rows[2].until == noon && table.rows[0].until == nil)
        #expect(table.isComplete)
    }

    @Test func aGatewayThatDoesNotAnswerHasARowForEachDay() {
        var memory = FleetMemory()
        memory.see(
            FleetSubject(address: "https://b"), .report(report("ward3-09", at: noon, straps: [])),
            at: noon)
        let table = table(
            [
                ("https://a", FleetReply(.failure(.timeout))),
                ("https://b", FleetReply(.failure(.connect))),
            ], memory: memory)
        #expect(table.rows.count == 6 && !table.isComplete)
        #expect(table.rows.allSatisfy { $0.state == .notAnswered && $0.detail?.isEmpty == false })
        // By the name that it had when it last answered.
        #expect(Set(table.rows.map(\.gateway)) == ["https://a", "ward3-09"])
        #expect(table.cells.allSatisfy { $0[3] == "not answered" })
    }

    @Test func aDayWithoutAStrapIsARowThatIsKnown() {
        let strap = FleetCoverageReport.Strap(name: "Bed 2", days: [figures(days[1])])
        let table = table([("https://a", .report(report(at: noon, straps: [strap])))])
        #expect(table.rows.map(\.state) == [.whole, .noStrap, .noStrap])
        #expect(table.isComplete)
    }

    /// A gateway that died at noon of the first day is no gateway with a whole first day.
    @Test func whatAGatewaySaidBeforeItWentSilentEndsThere() {
        let strap = FleetCoverageReport.Strap(
            name: "Bed 2", days: [figures(days[0], 100), figures(days[1], 100)])
        let died = days[0] + 43_200
        let table = table([("mqtt://h/a", .report(report(at: died, straps: [strap])))])
        #expect(table.rows.map(\.state) == [.endsEarly, .notAnswered, .notAnswered])
        #expect(table.rows[0].until == died)
        #expect(table.cells[0][3] == "100.0 % until 12:00")
        #expect(!table.isComplete)
    }

    /// A gateway that died minutes before midnight had a day that went on for ever, with all of its data.
    @Test func aDayThatIsOverDoesNotGoOn() {
        let strap = FleetCoverageReport.Strap(name: "Bed 2", days: [figures(days[1], 100)])
        let table = table([
            ("mqtt://h/a", .report(report(at: days[2] - 300, straps: [strap])))
        ])
        #expect(table.rows.first { $0.day == days[1] }?.state == .endsEarly)
        #expect(!table.isComplete)
    }

    @Test func aTargetIsNotMetByDaysThatNobodyKnows() throws {
        #expect(try CoverageTarget.parse(["--target", "95"]).fails([]))
        #expect(try CoverageTarget.parse(["--target", "95"]).fails([false, true]))
        #expect(try !CoverageTarget.parse(["--target", "95"]).fails([false]))
        #expect(try !CoverageTarget.parse([]).fails([]))
    }

    @Test func aGatewayWithoutAClockKnowsNoDays() {
        let strap = FleetCoverageReport.Strap(name: "Bed 2", days: [figures(days[0])])
        let table = table([("https://a", .report(report(at: nil, straps: [strap])))])
        #expect(table.rows.map(\.state) == [.notAnswered, .notAnswered, .notAnswered])
        #expect(table.rows[0].detail == "its clock is not set")
    }

    @Test func daysBeforeThoseThatAGatewayPublishesAreNotKnown() {
        var report = report(at: noon, straps: [])
        report.since = days[1]
        let table = table([("mqtt://h/a", .report(report))])
        #expect(Set(table.rows.map(\.state)) == [.notAnswered, .noStrap])
        #expect(table.rows.filter { $0.state == .notAnswered }.map(\.day) == [days[0]])
    }

    @Test func twoGatewaysOfOneNameAreToldApart() {
        let table = table(
            ["https://a", "https://b"].map { ($0, .report(report(at: noon, straps: []))) })
        #expect(
            Set(table.rows.map(\.gateway)) == ["ward3-07 at https://a", "ward3-07 at https://b"])
    }

    @Test func asCSVEveryRowHasEveryColumn() {
        let strap = FleetCoverageReport.Strap(name: "Bed, 2", days: days.map { figures($0) })
        let table = table([
            ("https://a", .report(report(at: noon, straps: [strap]))),
            ("https://b", FleetReply(.failure(.timeout))),
        ])
        let lines = table.csv
        #expect(lines.count == 7)
        #expect(
            lines[0].hasPrefix(
                "gateway,site,strap,day,state,until,percent,expected_seconds,covered_seconds,"))
        let columns = FleetCoverageTable.columns.count
        for line in lines where !line.contains("\"") {
            #expect(line.split(separator: ",", omittingEmptySubsequences: false).count == columns)
        }
        let known = lines.first { $0.contains("Bed") }
        #expect(
            known?.hasPrefix(
                "ward3-07,Ward 3,\"Bed, 2\",2026-11-29,whole,,99.500,1000.000,995.000,5.000,")
                == true,
            "\(known ?? "")")
        #expect(lines.contains { $0.contains(",2026-12-01,so-far,2026-12-01T12:00:00Z,") })
    }

    // MARK: Over a broker

    private func states(_ messages: [(topic: String, payload: String)]) -> BrokerStates {
        var states = BrokerStates(prefix: "edge-gateway", reads: .coverage)
        for message in messages {
            _ = states.note(
                MQTTMessage(
                    topic: "edge-gateway/" + message.topic, payload: Array(message.payload.utf8),
                    isRetained: true), at: noon)
        }
        return states
    }

    @Test func gatewaysAtABrokerThatSayNothingOrAreForgottenThereHaveRows() throws {
        let broker = FleetSubject(address: "mqtt://h:1883/edge-gateway", name: "mqtt://h:1883")
        let json = String(
            decoding: try ReportCoding.encoder().encode(report("a", at: noon, straps: [])),
            as: UTF8.self)
        var memory = FleetMemory()
        for name in ["gone", "other/place"] {
            memory.see(
                FleetSubject(address: "\(broker.address)/\(name)"),
                .report(report(name, at: noon, straps: [])), at: noon)
        }
        let answers = FleetCoverageCommand.answers(
            states([
                ("a/status", "online"), ("a/coverage", json), ("b/status", "online"),
                ("c/status", "online"), ("c/coverage", "{"), ("c/health", "{}"),
            ]), broker, memory)
        let table = FleetCoverageTable(answers, memory, days: days, at: noon)
        #expect(Set(table.rows.map(\.gateway)) == ["a", "b", "c", "gone"])
        let unknown = Set(table.rows.filter(\.isUnknown).map(\.gateway))
        #expect(unknown == ["b", "c", "gone"])
        // A broker that does not answer hides none of them.
        let problem = DestinationProblem("no connection", "check the port")
        let silent = FleetCoverageTable(
            FleetCoverageCommand.answers(problem, broker, memory), memory, days: days, at: noon)
        #expect(Set(silent.rows.map(\.gateway)) == ["mqtt://h:1883", "gone"])
        #expect(silent.rows.allSatisfy { $0.detail == "no connection" })
    }

    @Test func aBrokerWithoutGatewaysIsARowItself() {
        let broker = FleetSubject(address: "mqtt://h:1883/edge-gateway", name: "mqtt://h:1883")
        let answers = FleetCoverageCommand.answers(states([]), broker, FleetMemory())
        let table = FleetCoverageTable(answers, FleetMemory(), days: days, at: noon)
        #expect(table.rows.count == 3 && !table.isComplete)
    }

    @Test(arguments: [
        "", "null", "{}", "[]", "\u{0}", String(repeating: "[", count: 100_000),
        #"{"gateway":{"name":"a","labels":{}},"since":"2026-11-29T00:00:00Z","until":"2026-12-02T00:00:00Z","straps":[{"name":"x","days":[{"day":"2026-12-01T00:00:00Z","percent":101,"expected_seconds":1,"covered_seconds":1,"longest_gap_seconds":0,"seconds_by_cause":{}}]}]}"#,
        #"{"gateway":{"name":"a","labels":{}},"since":"2026-11-29T00:00:00Z","until":"2026-12-02T00:00:00Z","straps":[{"name":"x","days":[{"day":"2026-12-01T00:00:00Z","expected_seconds":1,"covered_seconds":1e99,"longest_gap_seconds":0,"seconds_by_cause":{}}]}]}"#,
        #"{"gateway":{"name":"a","labels":{}},"since":"2026-11-29T00:00:00Z","until":"2026-12-02T00:00:00Z","straps":[{"name":"x","days":[{"day":"2026-12-01T00:00:00Z","expected_seconds":1,"covered_seconds":1,"longest_gap_seconds":0,"seconds_by_cause":{"weather":1}}]}]}"#,
    ])
    func whatIsNoCoverageIsAFaultOfThatGateway(body: String) {
        let reply = FleetReply<FleetCoverageReport>(message: Array(body.utf8))
        guard case .fault(.unusable, _, _) = reply else {
            Issue.record("\(reply)")
            return
        }
    }

    @Test func namesInACoverageCannotSteerATerminal() {
        let strap = FleetCoverageReport.Strap(
            name: "\u{1B}[2J" + String(repeating: "a", count: 900), days: [figures(days[0])])
        guard
            let bytes = try? ReportCoding.encoder().encode(
                report("\u{202E}", at: noon, straps: [strap])),
            case .report(let read) = FleetReply<FleetCoverageReport>(message: Array(bytes))
        else {
            Issue.record("no report")
            return
        }
        #expect(Printable.line(read.gateway.name) == read.gateway.name)
        #expect(Printable.line(read.straps[0].name) == read.straps[0].name)
        #expect(read.straps[0].name.count <= GatewayIdentity.lengthMax)
    }

    /// A ward's 200 straps made a message that no reader took, so that none of its days was known.
    @Test func aLargeGatewayPublishesTheNewestDaysThatFitAndTheTableSaysWhichAreMissing() throws {
        let causes = ["link-lost", "no-contact", "out-of-range", "no-rate", "store-lost"]
        let straps = (1...200).map { number in
            FleetCoverageReport.Strap(
                name: "Ward 3, bed \(number)",
                days: (-7...0).map { day in
                    var figures = figures(today + Double(day) * 86_400, 92.34)
                    figures.secondsByCause = Dictionary(
                        uniqueKeysWithValues: causes.map { ($0, 1_234.5) })
                    return figures
                })
        }
        var whole = report(at: noon, straps: straps)
        whole.since = today - 7 * 86_400
        #expect(try ReportCoding.encoder().encode(whole).count > BrokerStates.reportBytesMax)
        let published = try whole.json(bytesMax: BrokerStates.reportBytesMax)
        #expect(published.count <= BrokerStates.reportBytesMax)
        let reply = FleetReply<FleetCoverageReport>(message: published)
        let read = try #require(reply.report)
        let kept = Int(today.timeIntervalSince(read.since) / 86_400) + 1
        #expect(3...7 ~= kept)
        #expect(read.straps.allSatisfy { $0.days.count == kept && $0.days.last?.day == today })
        let week = FleetCoverageTable(
            [(FleetSubject(address: "mqtt://h/a"), reply)], FleetMemory(),
            days: (-7...0).map { today + Double($0) * 86_400 }, at: noon)
        #expect(!week.isComplete)
        let missing = week.rows.filter { $0.state == .notAnswered }
        #expect(missing.count == 8 - kept)
        let since = ISO8601DateFormatter().string(from: read.since).prefix(10)
        #expect(
            missing.allSatisfy {
                $0.detail == "it publishes the days from \(since) on"
                    && $0.remedy?.contains("--hosts") == true
            })
        // One that fits stays as it is, and one day stays however large it is.
        let small = report(at: noon, straps: Array(straps.prefix(12)))
        #expect(
            try small.json(bytesMax: BrokerStates.reportBytesMax)
                == Array(ReportCoding.encoder().encode(small)))
        let last = FleetReply<FleetCoverageReport>(message: try whole.json(bytesMax: 1))
        let day = try #require(last.report)
        #expect(day.since == today && day.straps.allSatisfy { $0.days.count == 1 })
    }

    // MARK: What it asks for

    @Test func theDaysAreThoseOfUTCThatTheTimeTouches() throws {
        func days(_ words: String...) throws -> [Double] {
            try FleetCoverageCommand.days(try TimeRange.parse(words), now: noon, .utc)
                .map { $0.timeIntervalSince(today) / 86_400 }
        }
        #expect(try days() == [-7, -6, -5, -4, -3, -2, -1, 0])
        #expect(try days("--last", "7d").count == 8)
        #expect(try days("--day", "yesterday") == [-1])
        #expect(try days("--since", "yesterday", "--until", "2026-12-09") == [-1, 0])
        // It was said to be to come.
        #expect(try days("--until", "2026-11-20").count == 7)
        #expect(throws: (any Error).self) { _ = try days("--last", "40d") }
        #expect(throws: (any Error).self) { _ = try days("--since", "2026-12-09") }
        #expect(try days("--last", "30d").count == FleetCoverageReport.publishedDays + 23)
    }

    @Test func aShareIsNeverRoundedUpAndBelowTheTargetIsBelow() throws {
        #expect(CoverageTarget.text(99.99) == "99.9 %" && CoverageTarget.text(100) == "100.0 %")
        let goal = try CoverageTarget.parse(["--target", "95"])
        #expect(goal.isMissed(by: 94.99) && !goal.isMissed(by: 95) && !goal.isMissed(by: nil))
        #expect(goal.verdict([true, false]) == "1 of 2 rows below 95 %")
        #expect(throws: (any Error).self) { _ = try CoverageTarget.parse(["--target", "101"]) }
        let none = try CoverageTarget.parse([])
        #expect(!none.isMissed(by: 1) && none.verdict([false]) == nil)
    }
}

extension FleetReply {
    fileprivate var report: Report? { if case .report(let report) = self { report } else { nil } }
}
