import Basics
import ArgumentParser
import Foundation

/// The store's reports as text.
enum QueueText {
    static func status(_ queue: QueueReport) -> String {
        let limit = queue.maxBytes.map { " of \(bytes($0))" } ?? ""
        var lines = [
            "store: \(bytes(queue.usedBytes))\(limit), \(bytes(queue.reclaimableBytes)) of it "
                + "delivered; log \(bytes(queue.logBytes))",
            queue.full
                ? "! it is full: "
                    + (queue.fullPolicy == "keep-newest"
                        ? "the oldest samples that wait are dropped" : "new samples are refused")
                : "when it is full: "
                    + (queue.fullPolicy == "keep-newest"
                        ? "the oldest samples that wait are dropped" : "new samples are refused"),
            StatusCommand.balance(queue.balance),
        ]
        if let oldest = queue.oldestUnsent {
            lines.append("oldest unsent sample: \(Terminal.time(oldest)) UTC")
        }
        if queue.clockUnknownBoots > 0 {
            lines.append(
                "boots with an unknown clock: \(queue.clockUnknownBoots) "
                    + "(edge-gateway queue release)")
        }
        for salvage in queue.salvages {
            lines.append(
                (salvage.acknowledged ? "" : "! ")
                    + "the store broke on \(Terminal.time(salvage.at)) UTC\n"
                    + "    saved \(salvage.carried), damaged \(salvage.damaged), "
                    + "orphaned \(salvage.orphaned), lost \(salvage.lost)\n"
                    + "    \(Printable.line(salvage.brokenFile))"
                    + (salvage.acknowledged ? "" : "\n    edge-gateway queue acknowledge"))
        }
        return lines.joined(separator: "\n")
    }

    static func samples(_ report: SamplesReport, columns: Int? = Terminal.columns) -> String {
        if report.samples.isEmpty { return "no samples match" }
        return Terminal.table(
            ["ID", "TIME (UTC)", "BPM", "STATE", "SENSOR", "REASON"],
            report.samples.map {
                [
                    String($0.id), time($0.time), $0.bpm.map(String.init) ?? "-", $0.state,
                    sensor($0.name, $0.address), $0.reason ?? "",
                ]
            }, free: ["SENSOR", "REASON"], columns: columns) + more(report.more)
    }

    static func letters(_ report: DeadLettersReport, columns: Int? = Terminal.columns) -> String {
        if report.letters.isEmpty { return "there are no dead letters" }
        return Terminal.table(
            ["ID", "TIME (UTC)", "BPM", "SENSOR", "DESTINATION", "REASON", "ANSWER"],
            report.letters.map {
                [
                    String($0.id), time($0.time), $0.bpm.map(String.init) ?? "-",
                    sensor($0.name, $0.address), $0.enrollment ?? "-", $0.reason,
                    $0.diagnostics,
                ]
            }, free: ["SENSOR", "DESTINATION", "REASON", "ANSWER"], columns: columns)
            + more(report.more)
    }

    static func letter(_ letter: DeadLetterReport) -> String {
        let facts = [
            ("id", String(letter.id)), ("uuid", letter.uuid), ("time", time(letter.time)),
            ("died", time(letter.died)), ("sensor", sensor(letter.name, letter.address)),
            ("destination", letter.enrollment ?? "-"),
            ("bpm", letter.bpm.map(String.init) ?? "-"), ("frame", letter.frame),
            ("reason", letter.reason), ("answer", letter.diagnostics),
        ]
        return facts.map { "\($0): \(Printable.line($1))" }.joined(separator: "\n")
    }

    static func boots(_ boots: [BootReport]) -> String {
        if boots.isEmpty { return "the clock of every boot is known" }
        return Terminal.table(
            ["BOOT", "HELD", "FRAMES FOR", "NOT BEFORE (UTC)"],
            boots.map {
                [
                    $0.boot + ($0.running ? " *" : ""), String($0.held),
                    Terminal.age($0.lastUptime - $0.firstUptime),
                    Terminal.time(
                        Date(timeIntervalSince1970: $0.earliestOffset + $0.firstUptime)),
                ]
            })
            + (boots.contains(where: \.running)
                ? "\n* running; gets its times by itself once the clock is synchronised" : "")
    }

    static func unbound(_ all: [UnboundReport], columns: Int? = Terminal.columns) -> String {
        if all.isEmpty { return "no samples wait for an enrollment" }
        return Terminal.table(
            ["NUMBER", "SAMPLES", "FROM (UTC)", "TO (UTC)", "SENSOR"],
            all.map {
                [
                    String($0.assignment) + ($0.recording ? " *" : ""), String($0.samples),
                    String(time($0.first).prefix(16)), String(time($0.last).prefix(16)),
                    $0.name.isEmpty
                        ? $0.address : "\(sensor($0.name, $0.address)) \($0.address)",
                ]
            }, free: ["SENSOR"], columns: columns)
            + (all.contains(where: \.recording)
                ? "\n* records: edge-gateway pair ADDRESS gives them to an enrollment, too" : "")
    }

    static func uploads(_ report: HistoryReport, columns: Int? = Terminal.columns) -> String {
        if report.uploads.isEmpty { return "nothing was sent yet" }
        return Terminal.table(
            ["ENDED (UTC)", "SAMPLES", "OF (UTC)", "DESTINATION", "OUTCOME"],
            report.uploads.map {
                [time($0.at), String($0.samples), time($0.first), $0.enrollment, $0.outcome]
            }, free: ["DESTINATION"], columns: columns) + more(report.more)
    }

    static func hours(_ hours: [HourReport], columns: Int? = Terminal.columns) -> String {
        if hours.isEmpty { return "no samples: none were measured, or delivered ones are deleted" }
        return Terminal.table(
            ["HOUR (UTC)", "SAMPLES", "MEAN", "LOWEST", "HIGHEST", "SENSOR"],
            hours.map {
                [
                    String(Terminal.time($0.hour).prefix(16)), String($0.samples),
                    String(format: "%.1f", $0.meanBpm), String($0.lowestBpm),
                    String($0.highestBpm), sensor($0.name, $0.address),
                ]
            }, free: ["SENSOR"], columns: columns)
    }

    private static func sensor(_ name: String, _ address: String) -> String {
        name.isEmpty ? address : name
    }

    static func time(_ date: Date?) -> String { date.map(Terminal.time) ?? "unknown" }

    private static func more(_ more: Bool) -> String {
        more ? "\n… there are more: use --limit" : ""
    }

    private static func bytes(_ count: Int64) -> String {
        String(format: "%.1f MiB", Double(count) / 1_048_576)
    }
}

/// A time in UTC as people type it: `2026-12-01`, `2026-12-01 12:00:00`, `2026-12-01T12:00:00Z`.
struct UTCTime: ExpressibleByArgument {
    let date: Date

    init?(argument text: String) {
        var text = text.replacing(" ", with: "T")
        if text.count == 10 { text += "T00:00:00" }
        if text.count == 16 { text += ":00" }
        if text.count == 19 { text += "Z" }
        guard let date = try? Date(text, strategy: .iso8601), date.timeIntervalSince1970 >= 0,
            date.timeIntervalSince1970 < 253_402_300_800
        else { return nil }
        self.date = date
    }

    /// To the second, as it was typed.
    var utc: UTC { .epoch + .seconds(Int64(date.timeIntervalSince1970)) }
}
