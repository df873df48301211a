import Basics
import GATTHeartRate
import Testing

@testable import OfflineQueue

@Suite("Beats as CSV")
struct BeatExportTests {
    private static let strap = "A0:9E:1A:00:00:01"
    private static let uptime = Uptime.zero + .seconds(100)

    /// A frame `seconds` after midnight.
    private static func frame(
        _ seconds: Int64, _ rr: RRIntervals, flags: Plausibility = [], isTimed: Bool = true
    ) -> BeatTable.Frame {
        BeatTable.Frame(
            uptime: uptime + .seconds(seconds),
            time: isTimed ? ManualClock.midnight + .seconds(seconds) : nil, flags: flags, rr: rr)
    }

    private func columns(_ line: String) -> [String] {
        line.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }

    @Test(
        "An interval is in milliseconds, to the microsecond",
        arguments: [
            (1, "0.977"), (768, "750.000"), (831, "811.523"), (1024, "1000.000"),
            (65_535, "63999.023"),
        ] as [(UInt16, String)])
    func intervals(ticks: UInt16, text: String) {
        #expect(BeatTable.intervalText(ticks) == text)
    }

    @Test("The first beat begins a line, and lies within the second and a half before its frame")
    func firstBeat() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        let lines = table.lines(of: Self.frame(0, [1024]))
        #expect(lines == ["2026-11-30T23:59:59.250Z,1000.000,750,A0:9E:1A:00:00:01,7,0,break"])
    }

    @Test("Frames without intervals have no lines, and those after them lie no interval apart")
    func framesWithoutIntervals() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        for second in 0..<20 {
            let lines = table.lines(
                of: Self.frame(Int64(second), second % 2 == 0 ? [1024, 1024] : []))
            #expect(lines.count == (second % 2 == 0 ? 2 : 0))
        }
        #expect(table.lines(of: Self.frame(20, [0])).isEmpty)
    }

    @Test("A chain that holds has no break, and after a silence there is one")
    func gap() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        var lines: [String] = []
        for second in Int64(0)..<30 { lines += table.lines(of: Self.frame(second, [1024])) }
        #expect(lines.count == 30)
        #expect(lines.suffix(10).allSatisfy { columns($0)[6].isEmpty })
        let after = table.lines(of: Self.frame(3_600, [1024]))
        #expect(after.count == 1 && columns(after[0])[6] == "break")
    }

    @Test("Beats that were lost are estimated")
    func loss() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        var sent = 0
        var lost = 0
        var last = ""
        for second in Int64(0)..<180 {
            // A beat every 900.390625 ms.
            let beats = Int(second * 1_000_000_000 / 900_390_625)
            let rr = RRIntervals([UInt16](repeating: 922, count: beats - sent))
            sent = beats
            if (90..<94).contains(second) {
                lost += rr.count
            } else {
                last = table.lines(of: Self.frame(second, rr)).last ?? last
            }
        }
        #expect(lost == 5 && columns(last)[5] == "5")
    }

    @Test("Without a trusted clock a beat has no time, and no place in a range of times")
    func untrustedClock() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        #expect(
            table.lines(of: Self.frame(0, [1024], isTimed: false))
                == [",1000.000,750,A0:9E:1A:00:00:01,7,0,break"])
        var some = BeatTable(strap: Self.strap, segment: 7, since: ManualClock.midnight)
        #expect(some.lines(of: Self.frame(0, [1024], isTimed: false)).isEmpty)
    }

    @Test("A frame's flags stand beside each of its beats")
    func flags() {
        var table = BeatTable(strap: Self.strap, segment: 7)
        let lines = table.lines(
            of: Self.frame(0, [1024, 1024], flags: [.frozenRR, .impossibleJump]))
        #expect(
            lines.map { columns($0)[6] } == [
                "break frozenRR impossibleJump", "frozenRR impossibleJump",
            ])
    }

    @Test("Times at the ends of all numbers stop nothing")
    func hostileTimes() {
        for uptime in [Int64.min, -1, Int64.max] {
            for time in [Int64.min, 0, Int64.max] {
                var table = BeatTable(strap: "=1,\"\n", segment: .min)
                let lines = table.lines(
                    of: BeatTable.Frame(
                        uptime: Uptime(microseconds: uptime), time: UTC(microseconds: time),
                        flags: .all,
                        rr: [.max, 0, 1]))
                #expect(lines.count == 2)
                #expect(lines.allSatisfy { $0.contains("\"'=1,\"\"\n\"") })
            }
        }
    }

    // MARK: - Of a store

    private func export(
        _ store: TestStore, _ filter: ExportFilter = ExportFilter()
    ) throws -> (lines: [String], summary: BeatSummary, pieces: [Int]) {
        var bytes: [UInt8] = []
        var pieces: [Int] = []
        let summary = try SampleQueue.exportBeats(path: store.path, filter: filter) {
            bytes += $0
            pieces.append($0.count)
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
        return (lines, summary, pieces)
    }

    private func record(
        _ count: Int, _ assignment: Assignment, _ queue: SampleQueue, _ clock: ManualClock
    ) async throws {
        for _ in 0..<count {
            try await queue.append(
                Arrival(
                    sensorID: assignment.sensorID, at: clock.read(), frame: [0x10, 60, 0x00, 0x04],
                    flags: 0))
            clock.advance(seconds: 1)
        }
    }

    @Test("Each strap's beats stand together, delivered ones too, in pieces of bounded size")
    func ofAStore() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let first = try await Worn(queue, 1)
        let second = try await Worn(queue, 2)
        for _ in 0..<20 {
            try await record(100, second.assignment, queue, clock)
            try await record(100, first.assignment, queue, clock)
        }
        try await queue.flush()
        try await queue.deliverAll(first.enrollment.id)
        try await queue.close()

        let all = try export(store)
        #expect(all.lines[0] == "time,rr_ms,uncertainty_ms,strap,segment,lost_beats,flags")
        #expect(all.summary.beats == 4_000 && all.lines.count == 4_001)
        let straps = all.lines.dropFirst().map { columns($0)[3] }
        #expect(straps == straps.sorted())
        #expect(all.pieces.count > 1 && all.pieces.allSatisfy { $0 < 70_000 })

        let refused = #expect(throws: QueueError.self) {
            try export(store, ExportFilter(sensor: "C0:00:00:00:00:77"))
        }
        #expect(refused?.code == .unknownReference)
        let one = try export(store, ExportFilter(sensor: second.sensor.address))
        #expect(one.summary.beats == 2_000)
        let hour = try export(
            store,
            ExportFilter(
                since: ManualClock.midnight, until: ManualClock.midnight + .seconds(50)))
        #expect((48...50).contains(hour.summary.beats))

        try store.execute("UPDATE sample SET frame = x'103c0003' WHERE id = 5")
        let damaged = try export(store)
        #expect(damaged.summary.damaged == 1 && damaged.summary.beats == 3_999)
    }

    @Test("Beats of a boot whose clock nobody knew are there without a time")
    func ofAnUntrustedBoot() async throws {
        let store = try TestStore()
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await record(5, worn.assignment, queue, clock)
        try await queue.close()
        let lines = try export(store).lines.dropFirst()
        #expect(lines.count == 5 && lines.allSatisfy { $0.hasPrefix(",1000.000,") })
    }
}
