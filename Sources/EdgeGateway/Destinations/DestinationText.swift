import Basics
import Foundation

/// Destinations as a terminal shows them.
enum DestinationText {
    static func table(
        _ destinations: [DestinationReport], columns: Int? = Terminal.columns
    ) -> String {
        Terminal.table(
            ["NAME", "KIND", "STATE", "STRAPS", "DELIVERED", "UNSENT", "DEAD", "LAST", "PLACE"],
            destinations.map {
                [
                    $0.name, $0.kind, $0.stateInAWord,
                    $0.everyStrap ? "every" : String($0.straps),
                    String($0.delivered), String($0.pending), String($0.dead),
                    $0.lastDelivery.map { Terminal.age(since: $0) } ?? "-", $0.place,
                ]
            }, free: ["NAME", "PLACE"], columns: columns)
    }

    static func added(_ report: DestinationAddReport) -> String {
        let one = report.destination
        var lines = ["\(one.name) delivers to \(one.place)"] + checks(report.test)
        if one.everyStrap {
            lines.append("  every strap delivers there: \(one.straps) now")
        } else if one.straps > 0 {
            lines.append(
                "  " + one.straps.counted("strap delivers there", "straps deliver there"))
        } else {
            lines.append(
                "  next: edge-gateway destination straps \(one.name.shellWord) --add STRAP")
        }
        lines.append(keeping(one))
        return lines.joined(separator: "\n")
    }

    static func test(_ report: DestinationTestReport) -> String {
        (["\(report.name) works"] + checks(report)).joined(separator: "\n")
    }

    static func codes(_ report: DestinationCodesReport, _ times: LocalTimes) -> String {
        guard !report.codes.isEmpty else {
            return "no strap delivers to \(report.name): edge-gateway destination straps "
                + "\(report.name.shellWord) --add STRAP"
        }
        return report.codes.map { code in
            let lines = QRPicture.lines(code.text) ?? []
            return (["strap \(code.strap), until \(times.sentence(code.expires)):"] + lines)
                .joined(separator: "\n")
        }.joined(separator: "\n\n")
    }

    private static func checks(_ report: DestinationTestReport) -> [String] {
        report.checked.map { "  ok: \($0)" } + report.unchecked.map { "  not tried: \($0)" }
    }

    private static func keeping(_ one: DestinationReport) -> String {
        one.keepDays.map {
            "  samples wait \($0.counted("day")) for it, then they are dropped for it alone"
        }
            ?? "  samples wait for it as long as it takes"
    }

    static func detail(_ report: DestinationDetailReport) -> String {
        let one = report.destination
        let counts = "\(one.delivered) delivered, \(one.pending) waiting, \(one.dead) refused"
        var lines = [
            "\(one.name): \(one.kind) at \(one.place), \(one.stateInAWord)",
            "  \(counts)"
                + (one.dropped.isEmpty ? "" : ", \(one.dropped.values.reduce(0, +)) dropped"),
            "  straps: " + (one.everyStrap ? "every (\(one.straps) now)" : String(one.straps)),
            keeping(one),
            "  delivered means: \(report.deliveredMeans)",
            "  patient: "
                + (report.patient == "id"
                    ? "the identifier leaves this machine" : "nothing that names the patient"),
            "", "settings:",
        ]
        if let fault = one.partialFault { lines.insert("  ! \(fault)", at: 1) }
        if let fault = one.fault { lines.insert("  ! \(fault)", at: 1) }
        lines += report.settings.sorted { $0.key < $1.key }.map { "  \($0.key)=\($0.value)" }
        lines += ["", "what leaves the machine, for one invented sample and gap:", report.example]
        return lines.joined(separator: "\n")
    }
}
