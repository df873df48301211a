import Basics
import Foundation

/// Where the files of a store go that broke: they are renamed, and never written to, checkpointed or opened for
/// writing again.
struct Evidence: Sendable {
    /// Of the store whose place it is.
    let path: String

    /// The file, its write-ahead log, and the index of that. The file is first: a log without its file is found to be
    /// one, a file without its log is not.
    static let companions = ["", "-wal", "-shm", "-journal"]

    init(of path: String) { self.path = path }

    private var directory: URL { URL(fileURLWithPath: path).deletingLastPathComponent() }
    private static let infix = ".broken-"
    private var prefix: String { URL(fileURLWithPath: path).lastPathComponent + Self.infix }

    /// The place of the store that a file is of, broken or not.
    static func origin(of path: String) -> String {
        let url = URL(fileURLWithPath: path)
        guard let end = url.lastPathComponent.range(of: infix)?.lowerBound else { return path }
        return url.deletingLastPathComponent()
            .appendingPathComponent(String(url.lastPathComponent[..<end])).path
    }

    /// Renames what is at the store's place. Returns the name of the file, also of one of which there is only a log.
    func setAside(at wall: UTC) throws(QueueError) -> String {
        try finish()
        let stamp = Self.stamp(wall)
        var name = prefix + stamp
        var number = 1
        while Self.companions.contains(where: { Self.isThere(place(of: name) + $0) }) {
            number += 1
            name = "\(prefix)\(stamp).\(number)"
        }
        try rename(to: place(of: name))
        return name
    }

    /// Joins a log that a power cut has left behind to its file; every opening of a store begins with it.
    func finish() throws(QueueError) {
        guard !Self.isThere(path), let newest = files.last, Self.isThere(place(of: newest)) else {
            return
        }
        try rename(to: place(of: newest))
    }

    private func rename(to target: String) throws(QueueError) {
        for companion in Self.companions
        where Self.isThere(path + companion) && !Self.isThere(target + companion) {
            guard Glibc.rename(path + companion, target + companion) == 0 else {
                throw QueueError(errno: errno, "set the broken store aside")
            }
            FaultPoint.evidenceRenamed.reach()
        }
        try PrivateFile.sync(directory.path)
    }

    /// The names of the files, oldest first.
    var files: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        let files = names.filter { $0.hasPrefix(prefix) && !$0.contains(SalvageView.suffix) }.map {
            name in
            Self.companions.dropFirst().first { name.hasSuffix($0) }
                .map { String(name.dropLast($0.count)) } ?? name
        }
        return Set(files).sorted { $0.localizedStandardCompare($1) == .orderedAscending }
    }

    /// Of what a run set aside, the whole path is known.
    func place(of name: String) -> String {
        Self.isAside(name) ? name : directory.appendingPathComponent(name).path
    }

    /// All files of all of them, and of what runs put into these directories.
    func paths(_ directories: [String]) -> [String] {
        (files.map(place) + directories.flatMap(asides)).flatMap { path in
            Self.companions.map { path + $0 }.filter(Self.isThere)
        }
    }

    /// Deletes the files of that name: a person has acknowledged what they said, or all of it is in the store.
    func remove(_ name: String) {
        Self.remove(place(of: name))
    }

    /// Deletes what is of a store at `path`.
    static func remove(_ path: String) {
        for companion in companions { unlink(path + companion) }
    }

    // MARK: - What a run could not write

    /// Stores of that kind in one directory at most: a gateway that starts again and again on a full disk must not fill
    /// the memory.
    private static let asidesMax = 16
    private var asidePrefix: String { URL(fileURLWithPath: path).lastPathComponent + ".aside-" }

    static func isAside(_ name: String) -> Bool { name.hasPrefix("/") }

    /// Where the run of that nonce puts what the store does not take; nil if there is too much already.
    func aside(in directory: String, _ nonce: UInt64) -> String? {
        let place = URL(fileURLWithPath: directory)
            .appendingPathComponent(asidePrefix + String(nonce, radix: 16))
        return asides(in: directory).count < Self.asidesMax ? place.path : nil
    }

    /// The stores that runs have put there.
    func asides(in directory: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.map { URL(fileURLWithPath: directory).appendingPathComponent($0).path }
            .filter { nonce(ofAside: $0) != nil }
    }

    /// The nonce of the run that set this file aside; nil for the name of another file.
    func nonce(ofAside path: String) -> UInt64? {
        let name = URL(fileURLWithPath: path).lastPathComponent
        guard name.hasPrefix(asidePrefix) else { return nil }
        return UInt64(name.dropFirst(asidePrefix.count), radix: 16)
    }

    private static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// `20261122T001500Z`.
    private static func stamp(_ wall: UTC) -> String {
        (UTCText.text(wall) ?? "unknown").prefix(19).filter { $0 != "-" && $0 != ":" } + "Z"
    }
}
