import Foundation

/// The fleet's screen as lines: a row a gateway, below it a line or two for each thing that is not well.
struct FleetTable {
    /// `ward3-07` is a name.
    private static let nameWidthMin = 10
    /// Beyond it the eye loses the row between the columns.
    private static let nameWidthMax = 32

    let columns: Int
    var times = LocalTimes.utc

    func lines(_ report: FleetHostsReport) -> [String] {
        let rows = report.gateways
        func count(_ state: FleetGateway.State) -> Int { rows.count { $0.state == state } }
        let summary =
            "\(times.sentence(report.time))  \(rows.count.counted("gateway")): \(count(.gone)) gone, "
            + "\(count(.notWell)) not well, \(count(.well)) well"
        let head = line(
            ["GATEWAY", "SITE", "VERSION", "STATE", "SINCE", "STRAPS", "OLDEST", "ANSWER"])
        return [DisplayWidth.cut(summary, to: columns), head]
            + rows.flatMap { [row($0, report.time)] + details($0, report.time) }
    }

    private func row(_ gateway: FleetGateway, _ now: Date) -> String {
        func age(_ date: Date) -> String { Terminal.age(since: date, now: now) }
        let state =
            switch gateway.state {
            case .well: "well"
            case .notWell: "NOT WELL"
            case .gone: "GONE"
            }
        return line([
            gateway.name, gateway.site ?? "", gateway.version ?? "?", state, age(gateway.since),
            gateway.sensors.map { "\($0.streaming)/\($0.paired)" } ?? "-",
            gateway.sensors == nil
                ? "?" : gateway.oldestUndeliveredSeconds.map(Terminal.age) ?? "-",
            gateway.lastAnswer.map { $0 == now ? "now" : age($0) } ?? "never",
        ])
    }

    private func details(_ gateway: FleetGateway, _ now: Date) -> [String] {
        var lines: [String] = []
        for item in gateway.items {
            let age = Terminal.age(since: item.since, now: now)
            let what = "  ! \(item.name) for \(age): \(item.detail)"
            let both = "\(what) -> \(item.remedy)"
            // The remedy has its own line where one is too short for both.
            lines +=
                DisplayWidth.of(Printable.line(both)) <= columns
                ? [both] : [what, "      \(item.remedy)"]
        }
        if let silent = gateway.sensors?.silent, !silent.isEmpty {
            lines.append("  silent: " + silent.joined(separator: ", "))
        }
        let waiting = (gateway.backlog ?? []).filter { $0.samples > 0 }
        if !waiting.isEmpty {
            lines.append(
                "  waiting: "
                    + waiting.map { "\($0.destination) \($0.samples)" }.joined(separator: ", "))
        }
        return lines.map { DisplayWidth.cut(Printable.line($0), to: columns) }
    }

    /// State, age, straps, oldest and answer have their width; name and site share what is left.
    private func line(_ cells: [String]) -> String {
        let fixed = [7, 8, 6, 7, 6, 6]
        let left = columns - fixed.reduce(0, +) - fixed.count - 1
        // On a very narrow terminal the ends of rows are cut, never the names.
        let name = min(max(Self.nameWidthMin, left * 3 / 5), Self.nameWidthMax)
        let site = min(max(0, left - name), Self.nameWidthMax)
        let widths = [name, site] + fixed
        let text = zip(cells, widths).map { DisplayWidth.fit(Printable.line($0), to: $1) }
            .joined(separator: " ")
        return DisplayWidth.cut(
            String(text.reversed().drop { $0 == " " }.reversed()), to: columns)
    }
}
