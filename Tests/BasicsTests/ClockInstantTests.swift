import Basics
import Testing

@Suite("Instants and lengths of time")
struct ClockInstantTests {
    @Test func whatLiesBetweenTwoInstantsIsADuration() {
        let earlier = UTC(microseconds: 1_795_285_548_585_999)
        let later = earlier + .milliseconds(1_500)
        #expect(later.microseconds == 1_795_285_550_085_999)
        #expect(later - earlier == .milliseconds(1_500))
        #expect(earlier - later == .milliseconds(-1_500))
        #expect(later - .milliseconds(1_500) == earlier)
        #expect(earlier.duration(to: later) == later - earlier)
        #expect(earlier < later)
    }

    @Test func instantsAreCutToTheMicrosecond() {
        #expect(Uptime.zero + .nanoseconds(1_999) == Uptime(microseconds: 1))
        #expect(Uptime.zero + .nanoseconds(-1_999) == Uptime(microseconds: -1))
    }

    @Test func arithmeticSaturatesAtTheEnds() {
        let first = Uptime(microseconds: .min)
        let last = Uptime(microseconds: .max)
        #expect(last + .microseconds(1) == last)
        #expect(last - .microseconds(-1) == last)
        #expect(first - .microseconds(1) == first)
        #expect(first + .seconds(Int64.min) == first)
        #expect(first + (last - first) == Uptime(microseconds: -1), "the longest step is Int64.max")
    }

    @Test func aDayStartsWhereADayStartsAndNoneBeforeTheClocksZero() {
        let day = Duration.seconds(86_400)
        let start = UTC(microseconds: 1_796_083_200_000_000)
        #expect(start.start(ofEach: day) == start)
        #expect((start + day - .microseconds(1)).start(ofEach: day) == start)
        #expect(UTC(microseconds: -1).start(ofEach: day) == UTC.epoch)
        #expect(start.start(ofEach: .zero) == start)
    }

    @Test func daysAreCountedFrom1970AndNegativeBefore() {
        let midnight = UTC(microseconds: 1_796_083_200_000_000)
        #expect(midnight.day == 20_788 && UTC(day: 20_788) == midnight)
        #expect((midnight - .microseconds(1)).day == 20_787)
        #expect(UTC.epoch.day == 0 && (UTC.epoch - .microseconds(1)).day == -1)
        #expect(UTC(day: .max) == UTC(microseconds: .max))
        #expect(UTC(day: .min) == UTC(microseconds: .min))
    }

    @Test func durationsBecomeNumbersOfMicrosecondsWithoutWrapping() {
        for number in [Int64.min, -1, 0, 1, .max] {
            #expect(Duration.microseconds(number).microseconds == number)
        }
        #expect((Duration.microseconds(Int64.max) + .microseconds(1)).microseconds == .max)
        #expect((Duration.microseconds(Int64.min) - .microseconds(1)).microseconds == .min)
        #expect(Duration.seconds(Int64.max).microseconds == .max)
        #expect(Duration.microseconds(1_500_001).inSeconds == 1.500001)
    }

    @Test func theMachinesClocksAreRead() {
        let (uptime, utc) = (Uptime.now(), UTC.now())
        #expect(uptime > .zero)
        #expect(
            utc - UTC.epoch > uptime - Uptime.zero, "the machine is younger than 1970")
        #expect(Uptime.now() >= uptime)
    }
}
