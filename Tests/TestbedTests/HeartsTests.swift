import Testbed
import Testing

@Suite struct HeartsTests {
    @Test func theRecordedHeartsAreComplete() throws {
        let short = try RecordedHeart.fiveMinutes()
        let long = try RecordedHeart.oneHour()
        #expect(short.intervals.count == 337)
        #expect(long.intervals.count == 4684)
        #expect(short.intervals.prefix(3) == [859, 867, 883])
        #expect(abs(short.intervals.reduce(0, +) - 300_000) < 2000)
        #expect(abs(long.intervals.reduce(0, +) - 3_600_000) < 2000)
    }

    @Test(arguments: [
        ("", RecordedHeart.Fault.empty),
        ("# only words\n", .empty),
        ("800\n199\n", .badInterval(line: 2)),
        ("# a\n\n3001", .badInterval(line: 3)),
        ("800\n80O\n", .badInterval(line: 2)),
        ("800.5", .badInterval(line: 1)),
        ("99999999999999999999", .badInterval(line: 1)),
    ])
    func aFileThatIsNoHeartIsRefused(text: String, fault: RecordedHeart.Fault) {
        #expect(throws: fault) { try RecordedHeart(text: text) }
    }

    @Test func aSeriesHasABound() {
        let text = String(repeating: "800\n", count: RecordedHeart.intervalCountMax + 1)
        #expect(throws: RecordedHeart.Fault.tooLong) { try RecordedHeart(text: text) }
    }

    @Test func anUnknownNameIsRefused() {
        #expect(throws: RecordedHeart.Fault.unknown("nobody")) {
            try RecordedHeart(named: "nobody")
        }
    }

    @Test func ticksAreRounded() {
        #expect(RecordedHeart.ticks(milliseconds: 1000) == 1024)
        #expect(RecordedHeart.ticks(milliseconds: 859) == 880)
        #expect(RecordedHeart.ticks(milliseconds: 3000) == 3072)
    }
}
