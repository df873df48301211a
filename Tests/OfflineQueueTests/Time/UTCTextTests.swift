import Basics
import Testing

@testable import OfflineQueue

@Suite("Times in files")
struct UTCTextTests {
    @Test func timesAreReadBackAsWritten() {
        for microseconds in [
            0, 1, 951_782_399_999_999, 951_782_400_000_000, 1_709_164_800_000_000,
            4_107_542_399_000_001, UTCText.latest.microseconds,
        ] {
            let time = UTC(microseconds: microseconds)
            #expect(UTCText.text(time).flatMap(UTCText.time) == time)
        }
        #expect(UTCText.text(.epoch + .seconds(951_782_400)) == "2000-02-29T00:00:00.000000Z")
        #expect(UTCText.text(.epoch - .microseconds(1)) == nil)
        #expect(UTCText.text(UTC(microseconds: .max)) == nil)
        #expect(UTCText.time("2026-13-01T00:00:00.000000Z") == nil)
    }
}
