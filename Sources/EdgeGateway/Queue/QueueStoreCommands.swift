import ArgumentParser
import Basics
import Foundation
import Glibc
import Health
import OfflineQueue

// Commands that read the store's file themselves, in one snapshot: beside the daemon or without it.

/// `queue verify`
struct VerifyReport: Codable, Equatable {
    var clean: Bool
    var samples: Int
    /// Numbers of samples whose row fails its checksum.
    var damaged: [Int64]
    /// Whatever else is wrong, a line each.
    var findings: [String]
}

/// `queue export`
struct ExportReport: Codable, Equatable {
    var file: String
    var samples: Int
    /// Left out because their row fails its checksum.
    var damaged: Int
    /// Left out because they are delivered, dropped or dead everywhere: what `--all` adds.
    var leftOut: Bool
    /// Left out because straps still record their minute.
    var underWay: Int
    /// The store has deleted samples of that time.
    var deleted: Bool
}

/// `queue export --gaps`
struct GapExportReport: Codable, Equatable {
    var file: String
    var gaps: Int
}

/// `queue export --coverage`
struct CoverageExportReport: Codable, Equatable {
    var file: String
    /// Rows: a strap, a patient and a day each.
    var days: Int
}

/// `queue export --beats`
struct BeatsReport: Codable, Equatable {
    var file: String
    var beats: Int
    /// Samples left out because their row fails its checksum.
    var damaged: Int
    /// The store has deleted samples of that time.
    var deleted: Bool
}

struct QueueVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Checks every row of the store, and its books.",
        discussion: """
            Changes nothing, and works whether or not the daemon runs. Only root and the daemon's \
            user may read the store. Exits with 1 if anything is wrong.

            Example: sudo edge-gateway queue verify
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let path = try daemon.settings().storePath
        let audit = try StoreAccess.read(path) {
            let line = ProgressLine("checking")
            return try SampleQueue.verify(path: path) { line.show($0) }
        }
        let report = VerifyReport(
            clean: audit.isClean, samples: audit.samples, damaged: audit.damaged,
            findings: audit.differences)
        try daemon.show(report, Self.text(report))
        if !report.clean { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    static func text(_ report: VerifyReport) -> String {
        if report.clean { return "\(report.samples.counted("sample")), all intact" }
        var lines = report.findings.map { "! \(Printable.line($0))" }
        if !report.damaged.isEmpty {
            let ids = report.damaged.prefix(5).map(String.init).joined(separator: ", ")
            lines.append(
                "! \(report.damaged.count) damaged samples: \(ids)"
                    + (report.damaged.count > 5 ? ", …" : ""))
        }
        return lines.joined(separator: "\n")
            + "\nsee docs/operate/operations.md, \"When the store is broken\""
    }
}

extension ExportFormat: ExpressibleByArgument {}

struct QueueExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes samples to a file, to take them elsewhere.",
        discussion: """
            Without options it writes the samples that wait for any destination, for `queue import` \
            at another gateway. The store stays as it is. The file names straps and patients; only \
            its owner can read it. The times in the file are UTC. If samples are damaged, it leaves \
            them out, writes all others and exits with 1. docs/use/data.md describes every column.

            --gaps writes the times without data and their causes, --coverage how much of each UTC day \
            has data.

            Examples:
              sudo edge-gateway queue export /media/usb/ward-3.ndjson
              sudo edge-gateway queue export day.csv --format csv --all --day yesterday
              sudo edge-gateway queue export gaps.csv --gaps --last 7d
              sudo edge-gateway queue export coverage.csv --coverage
              sudo edge-gateway queue export hours.csv --format csv --all --last 12h
              sudo edge-gateway queue export late.csv --format csv --destination influx
              sudo edge-gateway queue export beats.csv --beats --strap "bed 4"
            """)

    @Argument(help: "The file to write; an existing one is not overwritten.", completion: .file())
    var file: String
    @Option(help: "ndjson, which `queue import` reads, or csv (default: ndjson).")
    var format: ExportFormat?
    @Flag(help: "Write beat times and RR intervals of all samples, as CSV for HRV programs.")
    var beats = false
    @Flag(help: "Write the times without data and their causes, as CSV.")
    var gaps = false
    @Flag(
        help:
            "Write how much of each UTC day has data, as CSV; a chosen time selects each day that it touches."
    )
    var coverage = false
    @Flag(help: "Include delivered, dropped and dead samples.")
    var all = false
    @OptionGroup var range: TimeRange
    @OptionGroup var chosen: StrapOption
    @Option(
        help: ArgumentHelp(
            "Only samples that wait for this destination; with --all, that go there.",
            valueName: "name"),
        completion: .destinationName)
    var destination: String?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        let tables = [("--beats", beats), ("--gaps", gaps), ("--coverage", coverage)]
            .filter(\.1).map(\.0)
        guard let table = tables.first else { return }
        guard tables.count == 1 else {
            throw ValidationError("choose one of --beats, --gaps and --coverage")
        }
        guard destination == nil, !all else {
            throw ValidationError("\(table) is of every sample: leave --all and --destination out")
        }
        guard format != .ndjson else {
            throw ValidationError("\(table) writes CSV; leave --format out")
        }
    }

    func run() async throws {
        let settings = try daemon.settings()
        let path = settings.storePath
        try GatewayFiles(settings: settings).check(file)
        let filter = try filter(path)
        let output = try OutputFile(file)
        if beats { return try export(beatsOf: settings, filter, to: output) }
        if gaps || coverage { return try export(ledgerAt: path, filter, to: output) }
        let summary = try StoreAccess.read(path) {
            let line = ProgressLine("exporting")
            return try SampleQueue.export(
                path: path, format: format ?? .ndjson, selection: all ? .everything : .unsent,
                filter: filter, now: .now(),
                progress: { line.show($0) }, to: { try output.write($0) })
        }
        try output.finish()
        if summary.leavesOut {
            Terminal.complain(
                "note: the file has only samples that still wait; delivered, dropped and dead ones are not in it\n"
                    + "  --all adds those that the store still has")
        }
        if summary.underWay > 0 {
            Terminal.complain(
                "note: \(summary.underWay.counted("sample is", "samples are")) left out: their straps still record these minutes\n"
                    + "  in three minutes, export again with --last 15m")
        }
        let isPartial = try all && lacksDeleted(settings, filter)
        try tell(
            ExportReport(
                file: file, samples: summary.samples, damaged: summary.damaged,
                leftOut: summary.leavesOut, underWay: summary.underWay, deleted: isPartial),
            summary.samples.counted("sample is", "samples are"), damaged: summary.damaged)
    }

    /// The samples that the command writes, with names as the store has them.
    private func filter(_ path: String) throws -> ExportFilter {
        func utc(_ date: Date?) -> UTC? {
            date.map { .epoch + .seconds(Int64($0.timeIntervalSince1970.rounded(.down))) }
        }
        let (since, until) = try range.instants(daemon.times)
        var filter = ExportFilter(since: utc(since), until: utc(until))
        guard chosen.strap != nil || destination != nil else { return filter }
        let names = try StoreAccess.read(path) { try SampleQueue.names(path: path) }
        if let strap = chosen.strap {
            let straps = names.sensors.map { Named(thing: $0, name: $0.label, address: $0.address) }
            filter.sensor = try Choosing.strap.choose(
                strap,
                among: [
                    straps.filter { !$0.thing.isForgotten }, straps.filter(\.thing.isForgotten),
                ]
            ).address
        }
        if let destination {
            filter.destination = try Choosing.destination.choose(
                destination, among: [names.destinations.map { Named(thing: $0, name: $0) }])
        }
        return filter
    }

    /// Whether the store has deleted samples that the file should have. Says so, too.
    private func lacksDeleted(_ settings: Settings, _ filter: ExportFilter) throws -> Bool {
        let path = settings.storePath
        guard
            try StoreAccess.read(
                path, { try SampleQueue.hasDeletedSamples(path: path, filter: filter) })
        else { return false }
        Terminal.complain(
            "note: the store has deleted samples of that time, and they are not in the file\n"
                + "  delivered samples stay for \(settings.keepDeliveredHours) hours: export sooner, or "
                + "raise storage.keep_delivered_hours")
        return true
    }

    private func export(
        beatsOf settings: Settings, _ filter: ExportFilter, to output: OutputFile
    ) throws {
        let path = settings.storePath
        let summary = try StoreAccess.read(path) {
            let line = ProgressLine("exporting")
            return try SampleQueue.exportBeats(
                path: path, filter: filter, progress: { line.show($0) },
                to: { try output.write($0) })
        }
        try output.finish()
        try tell(
            BeatsReport(
                file: file, beats: summary.beats, damaged: summary.damaged,
                deleted: lacksDeleted(settings, filter)),
            summary.beats.counted("beat is", "beats are"), damaged: summary.damaged)
    }

    private func export(
        ledgerAt path: String, _ filter: ExportFilter, to output: OutputFile
    ) throws {
        let rows = try StoreAccess.read(path) {
            gaps
                ? try SampleQueue.exportGaps(path: path, filter: filter) { try output.write($0) }
                : try SampleQueue.exportCoverage(path: path, filter: filter) {
                    try output.write($0)
                }
        }
        try output.finish()
        if gaps {
            try tell(GapExportReport(file: file, gaps: rows), rows.counted("gap is", "gaps are"))
        } else {
            try tell(
                CoverageExportReport(file: file, days: rows),
                rows.counted("day of a strap is", "days of straps are"))
        }
    }

    private func tell(_ report: some Encodable, _ count: String, damaged: Int = 0) throws {
        try daemon.show(report, "\(count) in \(file)")
        guard damaged > 0 else { return }
        Terminal.complain(
            "\(damaged.counted("damaged sample was", "damaged samples were")) left out\n"
                + "  edge-gateway queue verify lists them")
        throw ExitCode(CommandExit.notWell.rawValue)
    }
}

extension Settings {
    /// The store's file.
    var storePath: String { stateDirectory + "/queue.sqlite" }
}

/// The store's file, for commands.
enum StoreAccess {
    /// Runs `work`; what the store says is wrong becomes a failure with advice.
    ///
    /// - Throws: ``CommandFailure``
    static func read<Value>(_ path: String, _ work: () throws -> Value) throws -> Value {
        do {
            return try work()
        } catch let error as QueueError {
            if access(path, R_OK) != 0, errno == EACCES {
                throw CommandFailure(
                    exitCode: .notPermitted,
                    message: "this user may not read the store \(path)\n  use sudo")
            }
            if access(path, F_OK) != 0, errno == ENOENT {
                throw CommandFailure(
                    exitCode: .notWell,
                    message: "there is no store yet at \(path)\n  "
                        + "the daemon makes it when it starts: systemctl start edge-gateway")
            }
            throw CommandFailure(
                exitCode: .notWell,
                message: "\(error.operation): \(error.cause)\n  \(error.code.advice)")
        }
    }
}
