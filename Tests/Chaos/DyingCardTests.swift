import Basics
import Foundation
import Testbed
import Testing

@testable import OfflineQueue

/// Whatever happens to the files of a daemon's store, they lie beside it as they were, recording goes on, and each row
/// that could be read before is in the new store or said to be unknown.
@Suite(.serialized) struct DyingCardTests {
    /// `DYING_CARD=all` tries every octet of the headers, and more of everything else.
    private static let isWhole = ProcessInfo.processInfo.environment["DYING_CARD"] == "all"
    /// `DYING_CARD_SEED=7` repeats what chance chose.
    private static let seed =
        ProcessInfo.processInfo.environment["DYING_CARD_SEED"].flatMap { UInt64($0) } ?? 1

    private static func every(_ step: Int, of count: Int) -> [Int] {
        (0..<count).filter { isWhole || $0 % step == 18 % step }
    }

    @Test func anOctetOfAHeaderIsChanged() async throws {
        try await DyingCard.run { card in
            for at in Self.every(50, of: 100) {
                try await card.suffer("octet \(at) of the file") { $0[""]?[at] ^= 0x5A }
            }
            for at in Self.every(16, of: 32) {
                try await card.suffer("octet \(at) of the log") { $0["-wal"]?[at] ^= 0x5A }
            }
        }
    }

    @Test func octetsAndPagesAnywhereAreChangedAndFilesAreCut() async throws {
        try await DyingCard.run { card in
            var random = SeededRandom(seed: Self.seed)
            for round in 0..<(Self.isWhole ? 40 : 1) {
                let (place, mask) = (Double.random(in: 0..<1, using: &random), UInt8(round | 1))
                let what = "\(place), DYING_CARD_SEED=\(Self.seed)"
                for file in ["", "-wal"] {
                    // Not in the zeros behind the log.
                    func at(_ files: [String: [UInt8]]) -> Int {
                        let end = (files[file] ?? []).lastIndex { $0 != 0 } ?? 0
                        return Int(place * Double(end))
                    }
                    try await card.suffer("an octet of \(file) at \(what)", isSeenAtOnce: false) {
                        files in
                        let index = at(files)
                        files[file]?[index] ^= mask
                    }
                    try await card.suffer("zeros in \(file) at \(what)", isSeenAtOnce: false) {
                        files in
                        let start = at(files) / 512 * 512
                        let end = min(start + 512, files[file]?.count ?? 0)
                        for index in start..<end { files[file]?[index] = 0 }
                    }
                    try await card.suffer("\(file) cut at \(what)", isSeenAtOnce: false) { files in
                        files[file] = Array(files[file]?.prefix(at(files)) ?? [])
                    }
                }
            }
        }
    }

    @Test func filesAreGoneOrAnothers() async throws {
        try await DyingCard.run { card in
            let stranger = try await DyingCard.stranger()
            try await card.suffer("no file") { $0[""] = nil }
            try await card.suffer("an empty file") { $0[""] = [] }
            try await card.suffer("no log") { $0["-wal"] = nil }
            try await card.suffer("an empty log") { $0["-wal"] = [] }
            try await card.suffer("file and log swapped") {
                ($0[""], $0["-wal"]) = ($0["-wal"], $0[""])
            }
            try await card.suffer("the log of another file") { $0["-wal"] = stranger["-wal"] }
            try await card.suffer("the file of another log", hasStranger: true) {
                $0[""] = stranger[""]
            }
        }
    }

    @Test func theFileIsOverwrittenWhileItRuns() async throws {
        try await DyingCard.run { card in
            let stranger = try await DyingCard.stranger()
            for (what, bytes) in [
                ("its older state", card.older), ("zeros", [UInt8](repeating: 0, count: 20_000)),
                ("another store", stranger[""] ?? []),
            ] {
                try await card.sufferRunning("overwritten by \(what)") { path in
                    let file = try FileHandle(forUpdating: URL(filePath: path))
                    try file.write(contentsOf: bytes)
                    try file.truncate(atOffset: UInt64(bytes.count))
                    try file.close()
                }
            }
        }
    }

    /// A disk that fails for a while is no broken one.
    @Test func theDiskFailsForALittle() async throws {
        try await DyingCard.run { card in
            for how in ["r", "w", "s", "rws", "f"] {
                // At the start, and while it runs.
                try await card.suffer("disk \(how)", failing: how) { _ in }
                try await card.sufferRunning("disk \(how) while it runs", failing: how) { _ in }
                let broken = try card.brokenFiles()
                #expect(
                    broken.isEmpty,
                    "\(how): a fault of the disk is no damage; \(card.world.gateway.logTail())")
            }
        }
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a small file system takes root"))
    func theDiskIsNearlyFullWhenTheStoreBreaks() async throws {
        try await DyingCard.run(hasSmallDisk: true) { card in
            for kilobytes in Self.isWhole
                ? [0, 10, 40, 70, 100, 150, 200, 300, 400, 500] : [0, 120]
            {
                try await card.suffer("\(kilobytes) kB free", freeKilobytes: kilobytes) {
                    $0[""]?[18] ^= 0x5A
                }
            }
        }
    }

    @Test func theGatewayIsKilledAtEachStepOfIt() async throws {
        let steps: [(FaultPoint, Int)] =
            [(.evidenceRenamed, 2), (.sliceSaved, 1), (.sliceSaved, 3)]
            + (Self.isWhole
                ? [
                    (.evidenceRenamed, 1), (.evidenceRenamed, 3), (.migrate, 1), (.migrate, 4),
                    (.migrated, 1), (.ledgersClosed, 1), (.runBegun, 1), (.sliceSaved, 2),
                ] : [])
        try await DyingCard.run { card in
            for (step, times) in steps {
                try await card.suffer("killed at \(step)", killedAt: "\(step.rawValue):\(times)") {
                    $0[""]?[18] ^= 0x5A
                }
            }
        }
    }

    /// And what the gateway saves, the command reads of a copy, on any machine.
    @Test func itBreaksTwiceInARow() async throws {
        try await DyingCard.run { card in
            try await card.suffer("once") { $0[""]?[18] ^= 0x5A }
            let (samples, expected) = try await card.salvaged()
            #expect(samples == expected && expected > 100)
            try card.keep()
            try await card.suffer("and again") { $0[""]?[18] ^= 0x5A }
        }
    }
}

/// A daemon, the files that it left when it was killed, and what an independent program reads of them.
private final class DyingCard {
    private struct Report: Decodable {
        struct Salvage: Decodable {
            var brokenFile: String
            var cause: String
            var carried: Int
            var damaged: Int
            var orphaned: Int
            var unknown: Int?
            var done: Bool
        }
        var salvages: [Salvage]
    }

    private static let companions = ["", "-wal", "-shm"]
    private static let speed: Int64 = 30
    /// In so many seconds the gateway has read each row of so small a store: it rests for a minute between two walks,
    /// and the first one begins where the last run stopped.
    private static let walkSeconds = 100.0

    let world: TestWorld
    /// All files beside the store.
    private var files: [String: Data] = [:]
    /// An older state of the file.
    private(set) var older: [UInt8] = []
    /// Uptime and frame of each sample.
    private var rows: Set<String> = []

    private var state: URL { URL(filePath: world.storePath).deletingLastPathComponent() }

    static func run(
        hasSmallDisk: Bool = false, _ body: (DyingCard) async throws -> Void
    ) async throws {
        var setup = TestWorld.Setup()
        setup.straps = 2
        setup.speed = speed
        setup.hasSmallDisk = hasSmallDisk
        setup.settings = TestWorld.quickly
        let script = FileManager.default.temporaryDirectory
            .appending(path: "bad-disk-\(UInt32.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: script) }
        setup.settings["BAD_DISK"] = script.path
        try await TestWorld.run(setup) { world in
            let card = DyingCard(world, script)
            try await card.prepare()
            try await body(card)
        }
    }

    /// The last report of a broken store.
    private(set) var told = ""
    /// How many there are, and how many of them are kept.
    private var reports = 0
    private var reportsKept = 0
    private let badDisk: URL

    private init(_ world: TestWorld, _ badDisk: URL) {
        self.world = world
        self.badDisk = badDisk
    }

    /// Samples in the file, and in a log that was not copied home.
    private func prepare() async throws {
        try await world.put(on: 0)
        try await world.put(on: 1)
        try await world.eventually("samples") { $0.balance.stored >= 60 }
        await world.gateway.stop()
        older = [UInt8](try Data(contentsOf: URL(filePath: world.storePath)))
        try await world.gateway.start()
        try await world.eventually("more samples") { $0.balance.stored >= 150 }
        await world.gateway.kill()
        try keep()
    }

    /// What lies there now is where the next damage begins.
    func keep() throws {
        files = [:]
        let names = try FileManager.default.contentsOfDirectory(atPath: state.path)
        for name in names where !name.hasSuffix(".lock") && name != "filler" {
            var isFolder: ObjCBool = false
            let url = state.appending(path: name)
            guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder),
                !isFolder.boolValue
            else { continue }
            files[name] = try Data(contentsOf: url)
        }
        rows = try Self.rows(store(files))
        reportsKept = reports
    }

    private func store(_ files: [String: Data]) -> [String: [UInt8]] {
        Dictionary(
            uniqueKeysWithValues: Self.companions.compactMap { end in
                files["queue.sqlite" + end].map { (end, [UInt8]($0)) }
            })
    }

    /// Another gateway's store, closed and with a log of its own.
    static func stranger() async throws -> [String: [UInt8]] {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "stranger-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "queue.sqlite").path
        var files: [String: [UInt8]] = [:]
        for round in 0..<2 {
            let queue = try SampleQueue(
                path: path, clock: SystemClock(trust: .always), bootID: "stranger")
            let sensor = try await queue.addSensor(address: "D0:00:00:00:00:0\(round)")
            let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
            for bpm in UInt8(0)..<200 {
                let reading = queue.clock.read()
                try await queue.append(
                    contentsOf: [
                        Arrival(sensorID: assignment.sensorID, at: reading, frame: [0, bpm])
                    ]
                )
            }
            try await queue.flush()
            for end in round == 0 ? [] : companions {
                files[end] = [UInt8](try Data(contentsOf: URL(filePath: path + end)))
            }
            try await queue.close()
        }
        return files
    }

    // MARK: - Damage

    /// Damages the files at rest, starts the gateway, and judges what it makes of them.
    ///
    /// - Parameter isSeenAtOnce: whether the start must see it. Damage inside of a tree is met later, by whoever reads it.
    func suffer(
        _ what: String, failing: String? = nil, freeKilobytes: Int? = nil, killedAt: String? = nil,
        hasStranger: Bool = false, isSeenAtOnce: Bool = true,
        _ damage: (inout [String: [UInt8]]) -> Void
    ) async throws {
        var damaged = store(files)
        damage(&damaged)
        try put(damaged)
        if let freeKilobytes { try await fill(leaving: freeKilobytes) }
        if let failing { try Data(failing.utf8).write(to: badDisk) }
        if let killedAt {
            try? await world.gateway.start(with: [KillSwitch.variable: killedAt])
            let deadline = ContinuousClock.now + .seconds(20)
            while await world.gateway.isRunning, ContinuousClock.now < deadline {
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(await world.gateway.diedAtStep, "\(what): not reached")
            await world.gateway.kill()
        }
        try await world.gateway.start()
        if failing != nil || freeKilobytes != nil {
            try await world.pass(seconds: 40)
            try? FileManager.default.removeItem(at: badDisk)
            world.disk?.free()
        }
        try await judge(
            what, rows, damaged, hasStranger: hasStranger, isSeenAtOnce: isSeenAtOnce)
    }

    /// Puts these files in the store's place, beside the others as they are kept.
    private func put(_ damaged: [String: [UInt8]]) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: state.path) {
            let isStore = name.hasPrefix("queue.sqlite") && !name.hasSuffix(".lock")
            if isStore { try FileManager.default.removeItem(at: state.appending(path: name)) }
        }
        for (name, data) in files
        where !Self.companions.contains(where: { name == "queue.sqlite\($0)" }) {
            try data.write(to: state.appending(path: name))
        }
        for (end, bytes) in damaged {
            try Data(bytes).write(to: URL(filePath: world.storePath + end))
        }
    }

    /// The same while it runs, from the files as they are kept.
    func sufferRunning(
        _ what: String, failing: String? = nil, _ damage: (String) throws -> Void
    ) async throws {
        try put(store(files))
        try await world.gateway.start()
        try await recordsOn()
        let before = try Self.rows(copied())
        try damage(world.storePath)
        if let failing {
            try Data(failing.utf8).write(to: badDisk)
            try await world.pass(seconds: 40)
            try? FileManager.default.removeItem(at: badDisk)
        }
        try await judge(what, before, nil, hasStranger: false, isDamaged: failing == nil)
    }

    private func fill(leaving kilobytes: Int) async throws {
        try await world.disk?.fill()
        // What is left of the filler makes the room.
        let filler = URL(filePath: (world.disk?.path ?? "") + "/filler")
        let size = try FileManager.default.attributesOfItem(atPath: filler.path)[.size] as? UInt64
        try FileHandle(forUpdating: filler)
            .truncate(atOffset: (size ?? 0) - UInt64(kilobytes) * 1_024)
    }

    /// New frames come to the store.
    private func recordsOn() async throws {
        var before: Int?
        try await eventually("records on") {
            let status = try await world.gateway.polledStatus()
            if before == nil { before = status.balance.stored }
            return status.balance.stored > before ?? 0
                && !status.health.contains { $0.name == "store-unwritable" }
        }
    }

    /// A status may be refused in the second in which the store is replaced.
    private func eventually(_ what: String, _ holds: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            if (try? await holds()) == true { return }
            // A look costs a process, of which the gateway has use.
            try await Task.sleep(for: .milliseconds(200))
        }
        let status = try? await world.gateway.status()
        throw GatewayProcess.Fault(
            description: "\(what): not within a minute; \(status?.summary ?? "")")
    }

    // MARK: - Judging

    /// The report of what was just broken, once all is saved; nil if nothing was found broken.
    private func salvage(after what: String, isDamaged: Bool) async throws -> Report.Salvage? {
        var report: Report.Salvage?
        try await eventually("saved after \(what)") {
            let text = try await world.command("queue", "status", "--json")
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            let salvages = try decoder.decode(Report.self, from: Data(text.utf8)).salvages
            told = "\(salvages)"
            reports = salvages.count
            report = salvages.count > reportsKept ? salvages.first : nil
            return salvages.allSatisfy(\.done) && (!isDamaged || report != nil)
        }
        return report
    }

    /// How many rows fail their checksum, as `status` says: "3 rows of the store fail …".
    private func damagedRows() async throws -> Int {
        let items = try await world.gateway.polledStatus().health
        let message = items.first { $0.name == "store-damaged" }?.message ?? ""
        return Int(message.prefix { $0.isNumber }) ?? 0
    }

    private func judge(
        _ what: String, _ rows: Set<String>, _ damaged: [String: [UInt8]]?, hasStranger: Bool,
        isDamaged: Bool = false, isSeenAtOnce: Bool = true
    ) async throws {
        var report = try await salvage(after: what, isDamaged: isDamaged)
        try await recordsOn()
        // A kill costs what is not committed yet.
        try await eventually("\(what): something new is on the disk") {
            try !Self.rows(copied()).subtracting(rows).isEmpty
        }
        // Nothing can be said while there is no store, as long as the disk is full.
        if report == nil { report = try await salvage(after: what, isDamaged: false) }
        var checked = 0
        if try !isSeenAtOnce && report == nil && !rows.subtracting(Self.rows(copied())).isEmpty {
            // The gateway reads all rows again and again.
            try await world.pass(seconds: Self.walkSeconds)
            report = try await salvage(after: what, isDamaged: false)
            checked = try await damagedRows()
        }
        await world.gateway.kill()
        let after = try Self.rows(copied())
        let missing = rows.subtracting(after)
        #expect(!after.subtracting(rows).isEmpty, "\(what): nothing was recorded")
        guard let report else {
            #expect(
                missing.count <= checked,
                "\(what): \(missing.count) rows are missing, and status reports \(checked)")
            return
        }
        #expect(
            (report.unknown ?? .max) >= missing.count,
            "\(what): of \(rows.count) \(missing.count) are missing: \(report)")
        guard let damaged else { return }
        // As they lay there; the index of the log is memory that SQLite shares.
        for end in ["", "-wal"] where isSeenAtOnce && damaged[end]?.isEmpty == false {
            let kept = state.appending(path: report.brokenFile + end)
            let bytes = FileManager.default.contents(atPath: kept.path).map { [UInt8]($0) }
            #expect(bytes == damaged[end], "\(what): \(report.brokenFile)\(end) is not as it was")
        }
        // What can be read of the damaged files themselves was saved.
        guard !hasStranger, let readable = try? Self.rows(damaged) else { return }
        let lost = readable.intersection(rows).subtracting(after)
        #expect(lost.isEmpty, "\(what): \(lost.count) could be read, and are not there")
    }

    /// How many samples `queue salvage` writes of a copy of the broken files, and how many there were.
    func salvaged() async throws -> (samples: Int, expected: Int) {
        let directory = world.gateway.directory.appending(path: "copy")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let broken = try #require(
            brokenFiles().first { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") })
        for end in Self.companions {
            try FileManager.default.copyItem(
                at: state.appending(path: broken + end),
                to: directory.appending(path: "its.sqlite" + end))
        }
        for end in [".registry-0", ".registry-1"] {
            try FileManager.default.copyItem(
                at: state.appending(path: "queue.sqlite" + end),
                to: directory.appending(path: "its.sqlite" + end))
        }
        func copies() throws -> Set<Data> {
            Set(
                try Self.companions.map {
                    try Data(contentsOf: directory.appending(path: "its.sqlite" + $0))
                })
        }
        let before = try copies()
        let file = directory.appending(path: "saved.ndjson").path
        try await world.gateway.succeed(
            ["queue", "salvage", directory.appending(path: "its.sqlite").path, file, "--all"])
        #expect(try copies() == before, "the command changes nothing of the copy")
        // The first and the last line hold no sample.
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        return (lines.count - 2, rows.count)
    }

    func brokenFiles() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: state.path)
            .filter { $0.contains(".broken-") }
    }

    /// The files of the store as they are now.
    private func copied() throws -> [String: [UInt8]] {
        Dictionary(
            uniqueKeysWithValues: Self.companions.compactMap { end in
                FileManager.default.contents(atPath: world.storePath + end).map {
                    (end, [UInt8]($0))
                }
            })
    }

    /// What Python reads of a copy, as far as it comes.
    private static func rows(_ files: [String: [UInt8]]) throws -> Set<String> {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "card-copy-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "copy.sqlite").path
        for end in ["", "-wal"] {
            guard let bytes = files[end] else { continue }
            try Data(bytes).write(to: URL(filePath: path + end))
        }
        let reader = Process()
        reader.executableURL = URL(filePath: "/usr/bin/python3")
        reader.arguments = [
            "-c",
            """
            import sqlite3, sys
            try:
                for row in sqlite3.connect(sys.argv[1]).execute("SELECT uptime_us, hex(frame) FROM sample"):
                    print(*row)
            except sqlite3.DatabaseError:
                pass
            """, path,
        ]
        let pipe = Pipe()
        reader.standardOutput = pipe
        try reader.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        reader.waitUntilExit()
        return Set(String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init))
    }
}

extension TestWorld {
    fileprivate static let quickly = [
        "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "5", "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
    ]
}
