import Foundation
import GATTHeartRate
import Testbed
import Testing

/// An enrollment of averages, through the real binary.
@Suite(.serialized) struct WindowTests {
    private struct Row: Decodable {
        var segment: Int
        var wall: Int64
        var frame: String
    }

    private struct Window: Hashable {
        var segment: Int
        var start: Int64
    }

    /// The stored samples, read by another program than the gateway.
    private func rows(_ fixture: TestWorld) async throws -> [Row] {
        let store = fixture.gateway.directory.appending(path: "state/queue.sqlite").path
        let script = """
            import json, sqlite3, sys
            rows = sqlite3.connect(sys.argv[1]).execute(
                'SELECT p.segment, p.uptime_us + s.wall_offset_us, hex(p.frame)'
                ' FROM sample p JOIN segment s ON s.id = p.segment ORDER BY p.id')
            print(json.dumps([dict(segment=s, wall=w, frame=f) for s, w, f in rows]))
            """
        let read = try await Command.run("/usr/bin/python3", ["-c", script, store])
        try #require(read.status == 0, "\(read.complaint)")
        return try JSONDecoder().decode([Row].self, from: Data(read.output.utf8))
    }

    private func bpm(_ hex: String) throws -> Double {
        let digits = Array(hex)
        let frame = try stride(from: 0, to: digits.count - 1, by: 2).map {
            try #require(UInt8(String(digits[$0...$0 + 1]), radix: 16))
        }
        return Double(try HeartRateMeasurement(frame: frame, policy: .lenient).bpm)
    }

    @Test func tenSecondsAreAveragedOnceEachAcrossAKillAndARestart() async throws {
        try await TestWorld.run { fixture in
            let link = await fixture.exchange.invite(patient: 40001)
            try await fixture.command("enroll", "-", "--resolution", "10s", input: link)
            try await fixture.command("pair", TestWorld.addresses[0])
            let first = try await fixture.eventually("two windows", withinSeconds: 90) {
                $0.balance.stored >= 15 && $0.balance.delivered > 0
            }
            await fixture.gateway.kill()
            try await fixture.gateway.start()
            try await fixture.eventually("a window more", withinSeconds: 90) {
                $0.balance.stored >= first.balance.stored + 12
            }
            await fixture.bluez.setSendsFrames(false)
            // The run's last window is complete once the run is over.
            await fixture.gateway.stop()
            try await fixture.gateway.start()
            let status = try await fixture.eventually("all delivered", withinSeconds: 90) {
                $0.balance.unsent == 0 && $0.balance.buffered == 0
            }
            #expect(status.balance.addsUp)
            await fixture.gateway.stop()

            let rows = try await rows(fixture)
            #expect(rows.count == status.balance.stored)
            let windows = Dictionary(grouping: rows) { row in
                Window(segment: row.segment, start: row.wall / 10_000_000 * 10)
            }
            let expected = try windows.map { window, rows in
                let mean = try rows.map { try bpm($0.frame) }.reduce(0, +) / Double(rows.count)
                return (start: window.start, tenths: Int((mean * 10).rounded()))
            }.sorted { ($0.start, $0.tenths) < ($1.start, $1.tenths) }
            let stored = try await fixture.exchange.stored.map { row in
                let text = try #require(row.effectiveTime)
                let format = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
                let date = try format.parse(text)
                let value = try #require(row.beatsPerMinute)
                return (
                    start: Int64(date.timeIntervalSince1970.rounded()),
                    tenths: Int((value * 10).rounded())
                )
            }.sorted { ($0.start, $0.tenths) < ($1.start, $1.tenths) }
            #expect(stored.map(\.start) == expected.map(\.start))
            for (one, other) in zip(stored, expected) {
                // A half may be rounded either way.
                #expect(abs(one.tenths - other.tenths) <= 1)
            }
            #expect(await fixture.exchange.duplicates.isEmpty)
            #expect(await fixture.exchange.orphans == 0)
        }
    }
}
