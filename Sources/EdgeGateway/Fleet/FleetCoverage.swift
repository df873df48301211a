import Foundation
import OfflineQueue

// The parts of a fleet's table of coverage; docs/api.yaml and docs/use/data.md have the fields.

/// `GET /v1/fleet/coverage`, and what a destination of the kind `mqtt` publishes: how much of each day of each strap
/// there is data for. No patient, no rate, no sensor's address.
struct FleetCoverageReport: Codable, Equatable, Sendable {
    /// The days that a gateway publishes, the one that goes on included: `--last 7d` touches as many.
    static let publishedDays = 8

    /// One UTC day of one strap.
    struct Day: Codable, Equatable, Sendable {
        /// The day's beginning.
        var day: Date
        /// Left out where nothing was to be recorded.
        var percent: Double?
        /// Seconds in which the strap was to be recorded, and those with data.
        var expectedSeconds: Double
        var coveredSeconds: Double
        var longestGapSeconds: Double
        var secondsByCause: [String: Double]
    }

    struct Strap: Codable, Equatable, Sendable {
        /// Its name, or "Strap 3".
        var name: String
        /// Oldest first; a day on which it was not assigned is not there.
        var days: [Day]
    }

    /// When this was so; left out while the gateway's clock is not set.
    var time: Date?
    var gateway: GatewayIdentity
    /// The days that this speaks for.
    var since: Date
    var until: Date
    var straps: [Strap]
}

extension FleetCoverageReport {
    private static let dayLength: TimeInterval = 86_400

    /// The report as JSON with as many of its days, the newest, as fit into `bytesMax`. One day is always there.
    func json(bytesMax: Int) throws -> [UInt8] {
        var report = self
        while true {
            let json = try ReportCoding.encoder().encode(report)
            let later = report.since + Self.dayLength
            guard json.count > bytesMax, later < report.until else { return Array(json) }
            report.since = later
            for index in report.straps.indices {
                report.straps[index].days.removeAll { $0.day < later }
            }
        }
    }
}

extension FleetCoverageReport.Day {
    init(_ report: CoverageReport) {
        func tenths(_ seconds: Double) -> Double { (seconds * 10).rounded() / 10 }
        self.init(
            day: report.day,
            // A day with a gap has no 100 %.
            percent: report.percent.map { ($0 * 100).rounded(.down) / 100 },
            expectedSeconds: tenths(report.expectedSeconds),
            coveredSeconds: tenths(report.coveredSeconds),
            longestGapSeconds: tenths(report.longestGapSeconds),
            secondsByCause: report.secondsByCause.mapValues(tenths))
    }
}

/// A day of a strap, or of a gateway of which nothing else is known.
struct FleetCoverageRow: Codable, Equatable, Sendable {
    enum State: String, Codable, Sendable {
        /// The day is over, and the figures are of the whole of it.
        case whole
        /// The day goes on.
        case soFar = "so-far"
        /// The gateway was last heard before the end of the day.
        case endsEarly = "ends-early"
        /// The gateway answered, and no strap was assigned on that day.
        case noStrap = "no-strap"
        /// Nobody knows.
        case notAnswered = "not-answered"
    }

    var gateway: String
    var site: String?
    var strap: String?
    /// The day's beginning, UTC.
    var day: Date
    var state: State
    /// The end of the time that the figures cover, if that is before the end of the day.
    var until: Date?
    /// These are left out where there is no strap.
    var figures: FleetCoverageReport.Day?
    /// Why nothing is known, and what to do.
    var detail: String?
    var remedy: String?

    /// Whether the gateway could not be asked about the day, or not to its end.
    var isUnknown: Bool { state == .endsEarly || state == .notAnswered }
}

/// `fleet coverage --json`: every gateway and day is there.
struct FleetCoverageTable: Codable, Equatable, Sendable {
    /// A gateway says its coverage anew each quarter of an hour: two are missing.
    private static let staleTime: TimeInterval = 1_800
    private static let dayLength: TimeInterval = 86_400

    /// When this was put together.
    var time: Date
    /// By gateway, strap and day.
    var rows: [FleetCoverageRow]

    /// The coverage of each UTC day, given by its first instant, as far as it is known.
    init(
        _ answers: [(subject: FleetSubject, reply: FleetReply<FleetCoverageReport>)],
        _ memory: FleetMemory, days: [Date], at now: Date
    ) {
        time = now
        var names: [String: Int] = [:]
        let named = answers.map { subject, reply in
            let entry = memory.entries[subject.address]
            var own = entry?.name
            if case .report(let report) = reply { own = report.gateway.name }
            let name =
                subject.name ?? (own ?? "").nilIfEmpty ?? subject.spareName ?? subject.address
            names[name, default: 0] += 1
            return (name: name, site: entry?.site, subject: subject, reply: reply)
        }
        rows = named.flatMap { one in
            let name =
                names[one.name] == 1 ? one.name : "\(one.name) at \(one.subject.address)"
            return Self.rows(of: one.reply, days, at: now).map { row in
                var row = row
                row.gateway = name
                row.site = row.site ?? one.site
                return row
            }
        }
        // A strap's days follow one another.
        rows = rows.enumerated().sorted { one, other in
            let (left, right) = (one.element, other.element)
            if left.gateway != right.gateway {
                return left.gateway.localizedStandardCompare(right.gateway) == .orderedAscending
            }
            return one.offset < other.offset
        }.map(\.element)
    }

    /// Whether every day of every gateway is known.
    var isComplete: Bool { !rows.contains(where: \.isUnknown) }

    private static func rows(
        of reply: FleetReply<FleetCoverageReport>, _ days: [Date], at now: Date
    ) -> [FleetCoverageRow] {
        func unknown(_ day: Date, _ detail: String, _ remedy: String) -> FleetCoverageRow {
            FleetCoverageRow(
                gateway: "", day: day, state: .notAnswered, detail: detail, remedy: remedy)
        }
        guard case .report(let report) = reply else {
            guard case .fault(_, let detail, let remedy) = reply else { return [] }
            return days.map { unknown($0, detail, remedy) }
        }
        guard let time = report.time.map({ min($0, now) }) else {
            return days.map {
                unknown($0, "its clock is not set", "edge-gateway status there says why")
            }
        }
        var rows: [FleetCoverageRow] = []
        for strap in report.straps {
            for figures in strap.days where days.contains(figures.day) && figures.day <= time {
                var row = FleetCoverageRow(
                    gateway: "", site: report.gateway.site, strap: strap.name, day: figures.day,
                    state: .whole, figures: figures)
                let end = figures.day + dayLength
                if time < end {
                    row.until = time
                    // Of a day that is over somebody knows the rest, or nobody does.
                    let goesOn = now < end && now.timeIntervalSince(time) <= staleTime
                    row.state = goesOn ? .soFar : .endsEarly
                }
                rows.append(row)
            }
        }
        let told = Set(rows.map(\.day))
        for day in days where !told.contains(day) {
            var row: FleetCoverageRow
            if day > time {
                row = unknown(
                    day, "it was last heard before that day",
                    "is it switched on, and its network up? then: systemctl status edge-gateway")
            } else if day < report.since || day >= report.until {
                row = unknown(
                    day, "it publishes the days from \(date(report.since)) on",
                    "ask its page for older ones: --hosts")
            } else {
                row = FleetCoverageRow(gateway: "", day: day, state: .noStrap)
            }
            row.site = report.gateway.site
            rows.append(row)
        }
        return rows
    }
}

extension FleetCoverageTable {
    /// The columns of `fleet coverage --csv`.
    static let columns =
        ["gateway", "site", "strap", "day", "state", "until"] + ExportColumn.coverageFigures
        + ["detail"]

    /// The table as lines of CSV.
    var csv: [String] {
        [ExportColumn.header(Self.columns)]
            + rows.map { row in
                let figures = row.figures.map { day in
                    ExportColumn.figures(
                        percent: day.percent, expectedSeconds: day.expectedSeconds,
                        coveredSeconds: day.coveredSeconds,
                        longestGapSeconds: day.longestGapSeconds,
                        secondsByCause: day.secondsByCause)
                }
                return ExportColumn.line(
                    [
                        row.gateway, row.site ?? "", row.strap ?? "", Self.date(row.day),
                        row.state.rawValue, row.until.map { $0.formatted(.iso8601) } ?? "",
                    ]
                        + (figures
                            ?? ExportColumn.coverageFigures.map { _ in "" }) + [row.detail ?? ""])
            }
    }

    static let header = [
        "GATEWAY", "STRAP", "DAY (UTC)", "DATA", "LONGEST GAP", "WITHOUT DATA BECAUSE OF",
    ]

    /// The same for people.
    var cells: [[String]] {
        rows.map { row in
            let share = row.figures?.percent.map(CoverageTarget.text) ?? "-"
            let data =
                switch row.state {
                case .whole: share
                case .soFar: "\(share) so far"
                case .endsEarly:
                    "\(share) until \(Terminal.time(row.until ?? row.day).dropFirst(11).prefix(5))"
                case .noStrap: "no strap"
                case .notAnswered: "not answered"
                }
            return [
                row.gateway, row.strap ?? "", Self.date(row.day), data,
                row.figures.map { Terminal.age($0.longestGapSeconds) } ?? "",
                row.detail ?? CoverageTarget.causes(row.figures?.secondsByCause ?? [:]),
            ]
        }
    }

    private static func date(_ day: Date) -> String { String(Terminal.time(day).prefix(10)) }
}

extension String {
    fileprivate var nilIfEmpty: String? { isEmpty ? nil : self }
}
