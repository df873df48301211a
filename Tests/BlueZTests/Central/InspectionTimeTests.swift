import Basics
import Testing

@testable import BlueZ

/// What an inspection may take, in simulated time.
@Suite("The time of an inspection")
struct InspectionTimeTests {
    @Test("45 s to the answer, of which the last 5 are kept for undoing")
    func bound() {
        let time = InspectionTime(begun: .seconds(100))
        #expect(time.end == .seconds(145))
        #expect(time.searchEnd == .seconds(140))
    }

    @Test("a call gets its own deadline, and never more than what is left")
    func left() {
        let time = InspectionTime(begun: .zero)
        #expect(time.left(at: .seconds(10), atMost: .seconds(20)) == .seconds(20))
        #expect(time.left(at: .seconds(40), atMost: .seconds(20)) == .seconds(5))
        #expect(time.left(at: .seconds(50), atMost: .seconds(20)) == .zero)
    }

    @Test("the time that a person takes to answer is added, up to 100 s in all")
    func person() {
        var time = InspectionTime(begun: .zero)
        time.open(.enterPasskey, at: .seconds(10))
        #expect(time.end == .seconds(100), "as long as the question is open")
        time.close(at: .seconds(30))
        #expect(time.end == .seconds(65))
        time.open(.enterPasskey, at: .seconds(30))
        time.open(.confirmPasskey(1), at: .seconds(40))
        time.close(at: .seconds(50))
        #expect(time.end == .seconds(100), "one is still open")
        time.close(at: .seconds(90))
        #expect(time.end == .seconds(100))
    }

    @Test("a code that was given beforehand costs no time")
    func answeredAtOnce() {
        var time = InspectionTime(begun: .zero)
        time.open(.enterPasskey, at: .seconds(10))
        time.close(at: .seconds(10))
        #expect(time.end == .seconds(45))
        time.close(at: .seconds(20))
        #expect(time.end == .seconds(45), "an answer too many changes nothing")
    }

    @Test("a code to be typed into the sensor leaves the person all the time there is")
    func typed() {
        var time = InspectionTime(begun: .zero)
        time.open(.typePasskey(7042), at: .seconds(10))
        time.close(at: .seconds(10))
        #expect(time.end == .seconds(100))
    }

    @Test("a deadline that the caller sets is not extended")
    func fixed() {
        var time = InspectionTime(begun: .zero, limit: .seconds(4))
        time.open(.enterPasskey, at: .seconds(1))
        #expect(time.end == .seconds(4))
        #expect(time.searchEnd == .seconds(2))
    }
}
