import Basics
import Foundation

/// The store's reports as text.
enum QueueText {
    static func status(_ queue: QueueReport, _ times: LocalTimes) -> String {
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
            lines.append("oldest unsent sample: \(times.sentence(oldest))")
        }
        if queue.clockUnknownBoots > 0 {
            lines.append(
                "boots with an unknown clock: \(queue.clockUnknownBoots) "
                    + "(edge-gateway queue release)")
        }
        for salvage in queue.salvages {
            lines.append(
                (salvage.acknowledged ? "" : "! ")
                    + "the store broke on \(times.sentence(salvage.at))\n"
                    + "    \(salvage.figures)\n"
                    + "    \(Printable.line(salvage.brokenFile))"
                    + (salvage.acknowledged ? "" : "\n    edge-gateway queue acknowledge"))
        }
        return lines.joined(separator: "\n")
    }

    static func samples(
        _ report: SamplesReport, _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        if report.samples.isEmpty { return "no samples match" }
        return Terminal.table(
            ["ID", times.header("TIME"), "BPM", "STATE", "STRAP", "REASON"],
            report.samples.map {
                [
                    String($0.id), time($0.time, times), $0.bpm.map(String.init) ?? "-",
                    $0.state == "pending" ? "waiting" : $0.state,
                    strap($0.name, $0.address), $0.reason ?? "",
                ]
            }, free: ["STRAP", "REASON"], columns: columns) + more(report.more)
    }

    static func letters(
        _ report: DeadLettersReport, _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        if report.letters.isEmpty { return "there are no dead letters" }
        return Terminal.table(
            ["ID", times.header("TIME"), "BPM", "STRAP", "DESTINATION", "REASON", "ANSWER"],
            report.letters.map {
                [
                    String($0.id), time($0.time, times), $0.bpm.map(String.init) ?? "-",
                    strap($0.name, $0.address), $0.enrollment ?? "-", $0.reason,
                    $0.diagnostics,
                ]
            }, free: ["STRAP", "DESTINATION", "REASON", "ANSWER"], columns: columns)
            + more(report.more)
    }

    static func letter(_ letter: DeadLetterReport, _ times: LocalTimes) -> String {
        let facts = [
            ("id", String(letter.id)), ("uuid", letter.uuid), ("time", time(letter.time, times)),
            ("died", time(letter.died, times)), ("strap", strap(letter.name, letter.address)),
            ("destination", letter.enrollment ?? "-"),
            ("bpm", letter.bpm.map(String.init) ?? "-"), ("frame", letter.frame),
            ("reason", letter.reason), ("answer", letter.diagnostics),
        ]
        return facts.map { "\($0): \(Printable.line($1))" }.joined(separator: "\n")
    }

    static func boots(_ boots: [BootReport], _ times: LocalTimes) -> String {
        if boots.isEmpty { return "the clock of every boot is known" }
        return Terminal.table(
            ["BOOT", "HELD", "FRAMES FOR", times.header("NOT BEFORE")],
            boots.map {
                [
                    $0.boot + ($0.running ? " *" : ""), String($0.held),
                    Terminal.age($0.lastUptime - $0.firstUptime),
                    times.text(
                        Date(timeIntervalSince1970: $0.earliestOffset + $0.firstUptime)),
                ]
            })
            + (boots.contains(where: \.running)
                ? "\n* running; gets its times by itself once the clock is synchronised" : "")
    }

    static func unbound(
        _ all: [UnboundReport], _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        if all.isEmpty { return "no samples wait for an enrollment" }
        return Terminal.table(
            ["NUMBER", "SAMPLES", times.header("FROM"), "TO", "PATIENT", "STRAP"],
            all.map {
                [
                    String($0.assignment) + ($0.recording ? " *" : $0.unsure ? " ?" : ""),
                    String($0.samples),
                    $0.first.map(times.minute) ?? "unknown", $0.last.map(times.minute) ?? "unknown",
                    $0.patient ?? "-",
                    $0.name.isEmpty
                        ? $0.address : "\(strap($0.name, $0.address)) \($0.address)",
                ]
            }, free: ["STRAP"], columns: columns)
            + (all.contains(where: \.recording)
                ? "\n* records: edge-gateway pair STRAP gives them to an enrollment, too" : "")
            + (all.contains(where: \.unsure)
                ? "\n? nobody knows for certain who wore the strap then" : "")
    }

    static func uploads(
        _ report: HistoryReport, _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        if report.uploads.isEmpty { return "nothing was sent" }
        return Terminal.table(
            [times.header("ENDED"), "SAMPLES", "OF", "DESTINATION", "OUTCOME"],
            report.uploads.map {
                [
                    time($0.at, times), String($0.samples), time($0.first, times), $0.enrollment,
                    $0.outcome,
                ]
            }, free: ["DESTINATION"], columns: columns) + more(report.more)
    }

    static func hours(
        _ hours: [HourReport], _ times: LocalTimes, columns: Int? = Terminal.columns
    ) -> String {
        if hours.isEmpty { return "no samples: none were measured, or delivered ones are deleted" }
        return Terminal.table(
            [times.header("HOUR"), "SAMPLES", "MEAN", "LOWEST", "HIGHEST", "STRAP"],
            hours.map {
                [
                    times.minute($0.hour), String($0.samples),
                    String(format: "%.1f", $0.meanBpm), String($0.lowestBpm),
                    String($0.highestBpm), strap($0.name, $0.address),
                ]
            }, free: ["STRAP"], columns: columns)
    }

    private static func strap(_ name: String, _ address: String) -> String {
        name.isEmpty ? address : name
    }

    private static func time(_ date: Date?, _ times: LocalTimes) -> String {
        date.map(times.text) ?? "unknown"
    }

    private static func more(_ more: Bool) -> String {
        more ? "\n… there are more: use --limit" : ""
    }

    private static func bytes(_ count: Int64) -> String {
        String(format: "%.1f MiB", Double(count) / 1_048_576)
    }
}
