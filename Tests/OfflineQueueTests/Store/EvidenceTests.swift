import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// Whatever happens to the files, they are renamed as they are, and each row that could be read before is in the new
/// store afterwards, or said to be unknown.
@Suite("The files of a store that breaks")
struct EvidenceTests {
    /// `DYING_CARD=all` tries every octet of the headers, and more of everything else.
    private static let isWhole = ProcessInfo.processInfo.environment["DYING_CARD"] == "all"

    /// What an independent reader finds before the damage, and the bytes after it.
    struct Pair {
        var files: [String: [UInt8]] = [:]
        /// Of every sample, the identity of its frame: number and frame.
        var rows: Set<String> = []
        var world: SalvageWorld

        init(_ store: TestStore, _ clock: ManualClock) async throws {
            world = try await SalvageWorld(store, clock)
            let queue = try await store.open(clock, bootID: "boot-1", settings: Self.settings)
            for bpm in UInt8(0)..<30 {
                for worn in world.worn { try await queue.beat(worn.assignment, bpm: bpm, clock) }
                try await queue.flush()
                clock.advance(seconds: 1)
            }
            for companion in ["", "-wal", "-shm"] {
                files[companion] = [UInt8](
                    try Data(contentsOf: URL(fileURLWithPath: store.path + companion)))
            }
            try await queue.abandon()
            rows = try Self.rows(files)
        }

        static var settings: QueueSettings {
            var settings = QueueSettings()
            settings.staysAvailable = true
            return settings
        }

        /// The samples of a store, read by a program of its own from a copy: number and frame.
        private static func rows(_ files: [String: [UInt8]]) throws -> Set<String> {
            let copy = try TestStore()
            for (companion, bytes) in files {
                try Data(bytes).write(to: URL(fileURLWithPath: copy.path + companion))
            }
            return Set(
                try DatabaseQueue(path: copy.path).read { db in
                    try String.fetchAll(db, sql: "SELECT id || ' ' || hex(frame) FROM sample")
                })
        }

        func write(to store: TestStore) throws {
            for companion in ["", "-wal", "-shm"] {
                unlink(store.path + companion)
                guard let bytes = files[companion] else { continue }
                try Data(bytes).write(to: URL(fileURLWithPath: store.path + companion))
            }
        }
    }

    /// The bytes of the files of that name, byte for byte.
    private static func bytes(_ path: String) -> [[UInt8]?] {
        ["", "-wal"].map { companion in
            FileManager.default.contents(atPath: path + companion).map { [UInt8]($0) }
        }
    }

    private static func expectSaved(
        _ pair: Pair, _ store: TestStore, _ clock: ManualClock, _ comment: String
    ) async throws {
        let queue = try await store.open(clock, bootID: "boot-2", settings: Pair.settings)
        var health = await queue.health()
        if let report = health.salvage {
            let kept = store.directory.appendingPathComponent(report.brokenFile).path
            let laid = ["", "-wal"].map { pair.files[$0] }
            #expect(Self.bytes(kept) == laid, "\(comment): not as it lay there")
        }
        // Recording goes on at once; what damages a tree is met by whoever reads it.
        try await queue.beat(pair.world.worn[0].assignment, bpm: 250, clock)
        try? await queue.flush()
        _ = try? await queue.audit()
        await queue.commitIfDue()
        try await queue.flush()
        health = await queue.health()
        #expect(!health.isAbsent && health.fault == nil, "\(comment): \(health)")
        guard var report = health.salvage else {
            // It was no damage, or is a row's that its checksum finds: then nothing is missing.
            #expect(try await queue.balance().stored >= pair.rows.count + 1, "\(comment)")
            return try await queue.abandon()
        }
        let kept = store.directory.appendingPathComponent(report.brokenFile).path
        let before = Self.bytes(kept)
        let end = ContinuousClock.now + .seconds(20)
        while !report.isDone {
            clock.advance(seconds: 1)
            await queue.commitIfDue()
            try await Task.sleep(for: .milliseconds(1))
            let isOverdue = ContinuousClock.now >= end
            health = await queue.health()
            try #require(!isOverdue, "\(health)")
            report = try #require(await queue.health().salvage)
        }
        let saved = try await queue.balance().stored - 1
        #expect(
            report.unknown.map { saved + $0 >= pair.rows.count } ?? true,
            "\(comment): saved \(saved) of \(pair.rows.count), \(report)")
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(comment): \(audit)")
        #expect(try await queue.balance().isBalanced, "\(comment)")
        #expect(Self.bytes(kept) == before, "\(comment): changed since")
        try await queue.abandon()
    }

    private func damaged(
        _ damages: [(comment: String, change: (inout Pair) -> Void)]
    ) async throws {
        let origin = try TestStore()
        let clock = ManualClock()
        let sound = try await Pair(origin, clock)
        let sidecars = try [".registry-0", ".registry-1"].map {
            ($0, try Data(contentsOf: URL(fileURLWithPath: origin.path + $0)))
        }
        for (comment, change) in damages {
            let store = try TestStore()
            for (end, data) in sidecars {
                try data.write(to: URL(fileURLWithPath: store.path + end))
            }
            var pair = sound
            change(&pair)
            try pair.write(to: store)
            do {
                try await Self.expectSaved(pair, store, clock, comment)
            } catch {
                Issue.record("\(comment): \(error)")
            }
        }
    }

    @Test func everyOctetOfTheFilesHeader() async throws {
        try await damaged(
            (Self.isWhole ? Array(0..<100) : Array(stride(from: 3, to: 100, by: 15))).map { at in
                ("octet \(at) of the file", { $0.files[""]?[at] ^= 0x5A })
            })
    }

    @Test func everyOctetOfTheLogsHeader() async throws {
        try await damaged(
            (Self.isWhole ? Array(0..<32) : Array(stride(from: 1, to: 32, by: 8))).map { at in
                ("octet \(at) of the log", { $0.files["-wal"]?[at] ^= 0x5A })
            })
    }

    @Test func octetsAnywhereAndPagesOfZerosAndCuts() async throws {
        var random = SeededRandom(seed: 3)
        var damages: [(comment: String, change: (inout Pair) -> Void)] = []
        for _ in 0..<(Self.isWhole ? 40 : 5) {
            let (place, mask) = (
                Double.random(in: 0..<1, using: &random), UInt8.random(in: 1...255, using: &random)
            )
            damages.append(
                (
                    "an octet at \(place) of the file",
                    { pair in
                        let at = Int(place * Double(pair.files[""]?.count ?? 0))
                        pair.files[""]?[at] ^= mask
                    }
                ))
            damages.append(
                (
                    "a page of zeros at \(place) of the file",
                    { pair in
                        let page = Int(place * Double(pair.files[""]?.count ?? 0)) / 512
                        for at in (page * 512)..<(page * 512 + 512) { pair.files[""]?[at] = 0 }
                    }
                ))
            damages.append(
                (
                    "cut at \(place) of the file",
                    { pair in
                        let count = pair.files[""]?.count ?? 0
                        pair.files[""]?.removeLast(count - Int(place * Double(count)))
                    }
                ))
        }
        damages.append(("no file", { $0.files[""] = nil }))
        damages.append(("no log", { $0.files["-wal"] = nil }))
        damages.append(("an empty file", { $0.files[""] = [] }))
        try await damaged(damages)
    }

    /// The sidecar is not needed for what the broken store itself tells.
    @Test func twiceInARow() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let world = try await SalvageWorld(store, clock)
        for round in 0..<2 {
            let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            try handle.write(contentsOf: Data(count: 100))
            try handle.close()
            clock.advance(seconds: 60)
            let queue = try await store.open(clock, bootID: "boot-\(2 + round)")
            let report = try #require(await queue.health().salvage)
            #expect(
                report.isDone && report.carried == world.rows && report.unknown == 0, "\(report)")
            #expect(try await queue.audit().isClean)
            try await queue.close()
        }
        let queue = try await store.open(clock, bootID: "boot-9")
        #expect(try await queue.salvages().count == 2)
        let sent = try await world.deliverAll(queue)
        #expect(Set(sent.map(\.uuid)) == Set(world.pending.map(\.uuid)))
    }

    /// What is not covered by a saved sample is said to be lost, not covered.
    @Test func timeOfWhichNothingIsSavedIsStoreLost() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<100 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        await queue.note(.linkLost, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 100)
        await queue.note(nil, of: worn.assignment.sensorID, at: clock.read().uptime)
        for bpm in UInt8(100)..<200 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        try await queue.close()
        let leaves = try await DatabaseQueue(path: store.path).read { db in
            try Int.fetchAll(
                db,
                sql: "SELECT pageno - 1 FROM dbstat WHERE name = 'sample' AND pagetype = 'leaf'")
        }
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        for page in [0] + leaves.sorted().prefix(4) {
            try handle.seek(toOffset: UInt64(page * 512))
            try handle.write(contentsOf: Data(count: 512))
        }
        try handle.close()
        queue = try await store.open(clock, bootID: "boot-1")
        let report = try #require(await queue.health().salvage)
        let lost = 200 - report.carried
        #expect(lost > 10 && report.unknown == lost, "\(report)")
        let gaps = try await queue.gaps()
        let seconds = gaps.filter { $0.cause == .storeLost }.compactMap { $0.duration?.inSeconds }
            .reduce(0, +)
        #expect(abs(seconds - Double(lost)) < 5, "\(gaps)")
        #expect(try await queue.audit().isClean)
    }

    /// A hundred beats of a strap, the first pages of which are gone.
    private func withoutItsFirstPages(_ store: TestStore, _ clock: ManualClock) async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<100 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        try await queue.close()
        let leaves = try await DatabaseQueue(path: store.path).read { db in
            try Int.fetchAll(
                db,
                sql: "SELECT pageno - 1 FROM dbstat WHERE name = 'sample' AND pagetype = 'leaf'")
        }
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        for page in [0] + leaves.sorted().prefix(4) {
            try handle.seek(toOffset: UInt64(page * 512))
            try handle.write(contentsOf: Data(count: 512))
        }
        try handle.close()
    }

    /// The fresh store seemed to be one in order then, and did not say of what time it knew nothing.
    @Test func aKillRightAfterAFreshStoreWasMadeKeepsItsLostTime() async throws {
        let (store, clock) = (try TestStore(), ManualClock())
        try await withoutItsFirstPages(store, clock)
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = store.path as String] in
            setenv("EDGE_GATEWAY_KILL_AT", "migrated:1", 1)
            let clock = ManualClock()
            clock.advance(seconds: 110)
            _ = try SampleQueue(path: path, clock: clock, bootID: "boot-1")
        }
        clock.advance(seconds: 20)
        let queue = try await store.open(clock)
        let report = try #require(await queue.health().salvage)
        let lost = 100 - report.carried
        #expect(report.isDone && lost > 10 && report.unknown == lost, "\(report)")
        let gaps = try await queue.gaps()
        let seconds = gaps.filter { $0.cause == .storeLost }.compactMap { $0.duration?.inSeconds }
            .reduce(0, +)
        // And the ten between the last beat and the start that was killed.
        #expect(abs(seconds - Double(lost)) < 15, "\(gaps)")
        #expect(try await queue.audit().isClean)
    }

    /// A fresh store could not be filled, and the gateway started again and again.
    @Test func aRowOfWhoWearsWhatThatTheTablesRefuseKeepsNoOtherOut() async throws {
        let (store, clock) = (try TestStore(), ManualClock())
        var queue = try await store.open(clock)
        let worn = [try await Worn(queue, 1), try await Worn(queue, 2)]
        for strap in worn { try await queue.beat(strap.assignment, clock) }
        try await queue.close()
        for end in [".registry-0", ".registry-1"] {
            let url = URL(fileURLWithPath: store.path + end)
            let lines = try String(contentsOf: url, encoding: .utf8).split(
                separator: "\n", maxSplits: 1)
            let payload = lines[1].replacing(#"{"t":"\#(worn[0].sensor.address)"}"#, with: "{}")
            try PrivateFile.sealed("edge-gateway-registry 1", Data(payload.utf8)).write(to: url)
        }
        let sidecar = try #require(try Sidecar.newest(besides: store.path))
        _ = try StoreFile.openInMemory(sidecar)
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try handle.write(contentsOf: Data(count: 100))
        try handle.close()
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(try await queue.openAssignments().map(\.id) == [worn[1].assignment.id])
        let report = try #require(await queue.health().salvage)
        #expect(report.cause.contains("2 rows of who wears what"), "\(report)")
        #expect(report.carried == 2 && report.unknown == 0, "\(report)")
        #expect(try await queue.unboundSamples().map(\.samples) == [1])
        #expect(try await queue.audit().isClean)
    }
}
