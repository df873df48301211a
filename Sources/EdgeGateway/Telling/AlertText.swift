import Basics
import Foundation
import Health
import OfflineQueue
import Uplink

/// Puts a message about health items into words.
struct AlertText {
    /// This gateway's name.
    let gateway: String
    /// The names that people gave to straps, by number; empty unless somebody switched that on.
    var straps: [Int64: String] = [:]
    let now: ClockReading

    /// Straps that one line names; the others are counted.
    private static let strapsMax = 12

    /// Items of one name, which are said once.
    private struct Group {
        enum Kind: String { case raised, over, still }

        let kind: Kind
        let name: HealthName
        var lines: [AlertNews.Line]

        var since: Uptime { lines.map(\.since).min() ?? .zero }
        var until: Uptime? { kind == .over ? lines.compactMap(\.until).max() : nil }
    }

    /// A message of a schedule, which is known by `id`.
    func message(_ news: AlertNews, id: String) -> AlertMessage {
        let groups =
            groups(news.raised, .raised) + groups(news.still, .still) + groups(news.over, .over)
        let late = news.lateTime(at: now.uptime)
        var text = groups.map(words).joined(separator: "\n\n")
        if let late {
            text +=
                "\n\nThis message is \(Self.age(late)) late: it could not be sent before. "
                + "edge-gateway status there says what is so now."
        }
        text += "\n\nThe gateway is \(gateway); edge-gateway status there says more.\n"
        let lasting = groups.filter { $0.kind != .over }
        return AlertMessage(
            id: "\(id)-\(news.number)", title: title(groups), text: text,
            json: json("health.changed", groups, late: late),
            urgency: lasting.isEmpty
                ? .over : lasting.contains { $0.name.severity == .error } ? .error : .warning)
    }

    /// A message that only shows that messages arrive.
    func test(id: String) -> AlertMessage {
        AlertMessage(
            id: id, title: "\(gateway): a test",
            text:
                "This is a test of the alerts of the gateway \(gateway): it sends a message here when it is not well.\n",
            json: json("health.test", [], late: nil), urgency: .over)
    }

    private func groups(_ lines: [AlertNews.Line], _ kind: Group.Kind) -> [Group] {
        var groups: [Group] = []
        for line in lines {
            if let index = groups.firstIndex(where: { $0.name == line.name }) {
                groups[index].lines.append(line)
            } else {
                groups.append(Group(kind: kind, name: line.name, lines: [line]))
            }
        }
        let errors = groups.filter { $0.name.severity == .error }
        return errors + groups.filter { $0.name.severity != .error }
    }

    // MARK: - Words

    private func title(_ groups: [Group]) -> String {
        if groups.count == 1, let only = groups.first {
            let beginning =
                switch only.kind {
                case .raised: only.name.severity.rawValue
                case .still: "still \(only.name.severity.rawValue)"
                case .over: "over"
                }
            return "\(gateway): \(beginning): \(only.name.rawValue)"
        }
        func count(_ kind: Group.Kind, _ severity: HealthName.Severity? = nil) -> Int {
            groups.count { $0.kind == kind && (severity == nil || $0.name.severity == severity) }
        }
        let parts = [
            (count(.raised, .error), "error", "errors"),
            (count(.raised, .warning), "warning", "warnings"),
            (count(.still), "item lasts", "items last"), (count(.over), "item over", "items over"),
        ].filter { $0.0 > 0 }.map { $0.0.counted($0.1, $0.2) }
        return "\(gateway): \(parts.joined(separator: ", "))"
    }

    private func words(_ group: Group) -> String {
        let about = about(group)
        let head = about.isEmpty ? group.name.rawValue : "\(group.name.rawValue) (\(about))"
        let severity = group.name.severity.rawValue
        guard group.kind != .over else {
            return "over: \(head)\n  was the \(severity): \(group.name.meaning)\n  \(time(group))"
        }
        return "\(group.kind == .still ? "still " : "")\(severity): \(head)\n"
            + "  \(group.name.meaning)\n  \(time(group))\n  do: \(group.name.remedy)"
    }

    private func about(_ group: Group) -> String {
        let numbers = Set(group.lines.compactMap(\.strap)).sorted()
        guard !numbers.isEmpty else {
            return group.lines.count > 1 ? "\(group.lines.count) of them" : ""
        }
        let shown = numbers.prefix(Self.strapsMax).map { straps[$0] ?? "strap \($0)" }
        let more = numbers.count - shown.count
        return shown.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
    }

    private func time(_ group: Group) -> String {
        let lasted = Self.age((group.until ?? now.uptime) - group.since)
        guard let since = wall(group.since) else { return "for \(lasted)" }
        guard let until = group.until else { return "since \(since) UTC, for \(lasted)" }
        return "from \(since) UTC, for \(lasted)" + (wall(until).map { ", until \($0) UTC" } ?? "")
    }

    private func wall(_ uptime: Uptime) -> String? {
        date(uptime).map { String(Terminal.time($0).dropLast(3)) }
    }

    private func date(_ uptime: Uptime) -> Date? {
        now.at(uptime).trustedWall.map { Date($0) }
    }

    private static func age(_ time: Duration) -> String { Terminal.age(max(0, time.inSeconds)) }

    // MARK: - JSON

    private func json(_ type: String, _ groups: [Group], late: Duration?) -> [UInt8] {
        let event = AlertEvent(
            type: type, timestamp: Date(now.wall),
            data: AlertEvent.Contents(
                gateway: gateway,
                items: groups.map { group in
                    let numbers = Set(group.lines.compactMap(\.strap)).sorted()
                    let names = numbers.compactMap { straps[$0] }
                    let lasted = (group.until ?? now.uptime) - group.since
                    return AlertEvent.Item(
                        name: group.name.rawValue, severity: group.name.severity.rawValue,
                        state: group.kind.rawValue, meaning: group.name.meaning,
                        advice: group.kind == .over ? nil : group.name.remedy,
                        straps: numbers.isEmpty ? nil : numbers,
                        strapNames: names.isEmpty ? nil : names, count: group.lines.count,
                        since: date(group.since), until: group.until.flatMap { date($0) },
                        seconds: Int(max(0, lasted.inSeconds)))
                }, lateSeconds: late.map { Int($0.inSeconds) }))
        // It has nothing that cannot be encoded.
        return [UInt8]((try? ReportCoding.encoder().encode(event)) ?? Data("{}".utf8))
    }
}

/// Alerts as a terminal shows them.
extension AlertText {
    static func table(
        _ alerts: [AlertReport], _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        let table = Terminal.table(
            ["NAME", "KIND", "STATE", "LAST SENT", "PLACE"],
            alerts.map {
                [
                    $0.name, $0.kind, $0.fault == nil ? $0.state : "fails",
                    $0.lastSent.map { Terminal.age(since: $0) } ?? "-", $0.place,
                ]
            }, free: ["NAME", "PLACE"], columns: columns)
        let faults = alerts.compactMap { alert in
            alert.fault.map { fault in
                "! \(alert.name): \(fault)"
                    + (alert.waitingSince.map { "; a message waits since \(times.sentence($0))" }
                        ?? "")
            }
        }
        return ([table] + faults).joined(separator: "\n")
    }

    static func added(_ report: AlertReport) -> String {
        var lines = ["\(report.name) works: \(report.place) took the test"]
        if let errors = report.errorsAfter, let warnings = report.warningsAfter {
            lines.append(
                "  errors are sent after \(Terminal.age(Double(errors))), warnings after "
                    + Terminal.age(Double(warnings)))
        }
        if let every = report.every {
            lines.append(
                "  it is called each \(Terminal.age(Double(every))) while heartbeats flow")
        }
        return lines.joined(separator: "\n")
    }
}
