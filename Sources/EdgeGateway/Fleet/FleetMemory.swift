import Foundation
import Glibc
import Uplink

/// The known state of the gateways from earlier: since when each is in its state, and what a gateway that is gone was.
/// A value; ``FleetMemoryFile`` keeps it between runs.
struct FleetMemory: Codable, Equatable, Sendable {
    /// Gateways that no hosts file has named for this long are forgotten.
    static let keptTime: TimeInterval = 30 * 86_400
    /// Whoever may publish at a broker may invent gateways: beyond this the oldest are forgotten.
    static let entriesMax = 5_000

    struct Entry: Codable, Equatable, Sendable {
        var firstAsked: Date
        var lastAsked: Date
        var lastAnswer: Date?
        /// Since when it has been well, without a break.
        var wellSince: Date?
        /// Since when its answers cannot be used.
        var faultSince: Date?
        var name: String?
        var site: String?
        var labels: [String: String] = [:]
        var version: String?
    }

    /// By address: a name may be given to another machine.
    private(set) var entries: [String: Entry] = [:]
    /// Since when two gateways have had a strap, by its mark.
    var sharedSince: [String: Date]?

    /// Takes what a gateway answered, and gives the row for it.
    mutating func note(_ answer: FleetAnswer, of host: FleetSubject, at now: Date) -> FleetGateway {
        let address = host.address
        var entry = entries[address] ?? Entry(firstAsked: now, lastAsked: now)
        entry.lastAsked = max(entry.lastAsked, now)
        let noted: FleetGateway
        switch answer {
        case .report(let report):
            entry.lastAnswer = now
            entry.faultSince = nil
            entry.wellSince = report.well ? entry.wellSince ?? now : nil
            entry.name = report.gateway.name
            entry.site = report.gateway.site
            entry.labels = report.gateway.labels
            entry.version = report.version
            var known = row(of: host, entry, report.well ? .well : .notWell)
            // A gateway whose clock is set tells times; another one tells how long ago.
            known.items = report.time == nil ? report.items.map { $0.dated(at: now) } : report.items
            known.since =
                report.well
                ? entry.wellSince ?? now : min(now, known.items.map(\.since).min() ?? now)
            known.sensors = report.sensors
            known.oldestUndeliveredSeconds = report.oldestUndeliveredSeconds
            known.backlog = report.backlog
            known.straps = report.straps
            noted = known
        case .fault(let fault, let detail, let remedy):
            entry.wellSince = nil
            if fault != .noAnswer { entry.lastAnswer = now }
            entry.faultSince = fault == .noAnswer ? nil : entry.faultSince ?? now
            var unknown = row(of: host, entry, fault == .noAnswer ? .gone : .notWell)
            unknown.since = entry.faultSince ?? entry.lastAnswer ?? entry.firstAsked
            unknown.items = [
                FleetItem(
                    name: fault.rawValue, severity: "error", since: unknown.since, detail: detail,
                    remedy: remedy)
            ]
            noted = unknown
        }
        entries[address] = entry
        return noted
    }

    /// Keeps who a gateway is, where it told its coverage alone.
    mutating func see(
        _ host: FleetSubject, _ reply: FleetReply<FleetCoverageReport>, at now: Date
    ) {
        guard case .report(let report) = reply else { return }
        var entry = entries[host.address] ?? Entry(firstAsked: now, lastAsked: now)
        entry.lastAsked = max(entry.lastAsked, now)
        entry.lastAnswer = max(entry.lastAnswer ?? now, now)
        (entry.name, entry.site) = (report.gateway.name, report.gateway.site)
        entry.labels = report.gateway.labels
        entries[host.address] = entry
    }

    /// Without those that were not asked about for long.
    mutating func forget(at now: Date) {
        entries = entries.filter { now.timeIntervalSince($0.value.lastAsked) < Self.keptTime }
        guard entries.count > Self.entriesMax else { return }
        let newest = entries.sorted { $0.value.lastAsked > $1.value.lastAsked }
        entries = Dictionary(uniqueKeysWithValues: newest.prefix(Self.entriesMax).map { ($0, $1) })
    }

    private func row(
        of host: FleetSubject, _ entry: Entry, _ state: FleetGateway.State
    ) -> FleetGateway {
        let own = entry.name.flatMap { $0.isEmpty ? nil : $0 }
        return FleetGateway(
            name: host.name ?? own ?? host.spareName ?? host.address, site: entry.site,
            labels: entry.labels.merging(host.labels) { $1 }, version: entry.version, state: state,
            since: entry.firstAsked, items: [], lastAnswer: entry.lastAnswer)
    }
}

/// The file that keeps a ``FleetMemory`` between runs.
struct FleetMemoryFile {
    /// 2,000 gateways with every label take less.
    private static let bytesMax = 16 << 20

    let path: String
    /// Whether its directory is made if it is missing.
    private var makesDirectory = false

    /// The file that a person names.
    ///
    /// - Throws: ``CommandFailure`` if there is something else, which would be replaced, or no such directory.
    init(named path: String) throws {
        self.path = path
        guard GivenPath.real(path) != nil else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "--state \(path): its directory is not there, or this user may not look "
                    + "into it\n  make the directory, or name another file")
        }
        guard isFree || kept() != nil else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "--state \(path): it is no file that `fleet` has made, and is not "
                    + "replaced\n  name another file; one that is not there yet is made")
        }
    }

    private init(standard path: String) {
        self.path = path
        makesDirectory = true
    }

    /// Whether nothing is there, or an empty file.
    private var isFree: Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return errno == ENOENT }
        return status.st_mode & S_IFMT == S_IFREG && status.st_size == 0
    }

    /// In the user's own place for such files (XDG Base Directory Specification); nil without a home.
    static func standard(_ environment: [String: String]) -> FleetMemoryFile? {
        let xdg = environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 + "/.local/state" : nil }
        return (xdg ?? home).map { FleetMemoryFile(standard: $0 + "/edge-gateway/fleet.json") }
    }

    /// The kept memory; empty, if the file is not there or is damaged.
    func read() -> FleetMemory { kept() ?? FleetMemory() }

    private func kept() -> FleetMemory? {
        guard !GivenPath.isOccupied(path), let handle = FileHandle(forReadingAtPath: path),
            let data = try? handle.read(upToCount: Self.bytesMax + 1), data.count <= Self.bytesMax
        else { return nil }
        return try? ReportCoding.decoder().decode(FleetMemory.self, from: data)
    }

    /// - Throws: ``CommandFailure`` if it cannot be written.
    func write(_ memory: FleetMemory) throws {
        if makesDirectory {
            try? FileManager.default.createDirectory(
                atPath: URL(filePath: path).deletingLastPathComponent().path,
                withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
        let file = try OutputFile(path, replaces: true)
        try file.write(Array(try ReportCoding.encoder().encode(memory)))
        try file.finish()
    }
}

extension FleetItem {
    /// The item with its beginning by this machine's clock.
    fileprivate func dated(at now: Date) -> FleetItem {
        guard let seconds, 0...1e9 ~= seconds else { return self }
        var item = self
        item.since = now.addingTimeInterval(-seconds)
        return item
    }
}
