import Testing

@testable import OfflineQueue

@Suite("Times in files")
struct UTCTextTests {
    @Test func timesAreReadBackAsWritten() {
        for time: Int64 in [
            0, 1, 951_782_399_999_999, 951_782_400_000_000, 1_709_164_800_000_000,
            4_107_542_399_000_001, UTCText.microsecondsMax,
        ] {
            #expect(UTCText.text(time).flatMap(UTCText.microseconds) == time)
        }
        #expect(UTCText.text(951_782_400_000_000) == "2000-02-29T00:00:00.000000Z")
        #expect(UTCText.text(-1) == nil && UTCText.text(.max) == nil)
        #expect(UTCText.microseconds("2026-13-01T00:00:00.000000Z") == nil)
    }
}
