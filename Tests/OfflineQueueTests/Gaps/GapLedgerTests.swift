import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("The ledger of one time line")
struct GapLedgerTests {
    private static func seconds(_ uptime: Uptime) -> Int64 { uptime.microseconds / 1_000_000 }

    /// What the ledger says in the end, as "from–until cause" in seconds.
    private func history(
        until end: Int64, _ events: (inout GapLedger) -> Void
    ) -> [String] {
        var ledger = GapLedger(beginning: .zero)
        events(&ledger)
        ledger.end(at: .seconds(end))
        return ledger.closed.map {
            "\(Self.seconds($0.from))–\($0.until.map(Self.seconds) ?? -1) \($0.cause.rawValue)"
        }
    }

    @Test func oneOrTwoLostNotificationsAreNoGap() {
        let gaps = history(until: 13) { ledger in
            for second in [1, 2, 5, 8, 10] as [Int64] { ledger.sample(at: .seconds(second)) }
        }
        #expect(gaps.isEmpty)
    }

    @Test func aLongerSilenceRunsFromSampleToSample() {
        let gaps = history(until: 20) { ledger in
            for second in [1, 2, 6, 7] as [Int64] { ledger.sample(at: .seconds(second)) }
        }
        #expect(gaps == ["2–6 silent", "7–20 silent"])
    }

    @Test func samplesThatComeLateMakeDataOfWhatWasTakenForASilence() {
        let gaps = history(until: 101) { ledger in
            for second in Int64(1)...10 { ledger.sample(at: .seconds(second)) }
            // Read meanwhile, its parts are found one by one.
            _ = ledger.open(at: .seconds(20))
            ledger.note(.daemonGone, at: .seconds(22))
            _ = ledger.open(at: .seconds(50))
            ledger.note(nil, at: .seconds(100))
            for second in Int64(11)...60 { ledger.lateSample(at: .seconds(second)) }
            for second in Int64(80)...100 { ledger.lateSample(at: .seconds(second)) }
        }
        #expect(gaps == ["60–80 silent"])
    }

    /// A night was told as eight hours without contact, its last cause.
    @Test(
        arguments: [
            (28_890, ["1–60 link-lost", "60–28860 adapter-down", "28860–28890 no-contact"]),
            (5_000, ["1–60 link-lost", "60–5000 adapter-down"]), (30, ["1–30 link-lost"]), (3, []),
        ] as [(Int64, [String])])
    func whatWasToldOfTheTimeBeforeALateSampleWasSentHolds(sent: Int64, told: [String]) {
        for isRead in [false, true] {
            let gaps = history(until: 30_000) { ledger in
                ledger.sample(at: .seconds(1))
                ledger.note(.linkLost, at: .seconds(2))
                ledger.note(.adapterDown, at: .seconds(60))
                ledger.note(.noContact, at: .seconds(28_860))
                // Read meanwhile, its parts are closed.
                if isRead { _ = ledger.open(at: .seconds(28_880)) }
                ledger.lateSample(at: .seconds(sent))
            }
            #expect(gaps == told + ["\(sent)–30000 no-contact"], "\(isRead)")
        }
    }

    @Test func aStrapThatSendsRarelyHasGapsByItsOwnCadence() {
        let gaps = history(until: 400) { ledger in
            ledger.note(cadence: .seconds(20))
            for second in [10, 30, 50, 90, 110, 200, 220] as [Int64] {
                ledger.sample(at: .seconds(second))
            }
        }
        #expect(gaps == ["110–200 silent", "220–400 silent"])
    }

    @Test func aSilenceIsSplitWhereItsCauseChanges() {
        let gaps = history(until: 31) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(.linkLost, at: .seconds(3))
            ledger.note(.outOfRange, at: .seconds(10))
            ledger.note(.connecting, at: .seconds(20))
            ledger.note(nil, at: .seconds(28))
            ledger.sample(at: .seconds(29))
        }
        // Neither the moment before the cause was found nor the one before the first frame is a
        // gap of its own.
        #expect(gaps == ["1–10 link-lost", "10–20 out-of-range", "20–29 connecting"])
    }

    /// It arrived before the link came and went, and was told of after that.
    @Test func theSilenceAfterALateSampleBeginsWithItsArrival() {
        let gaps = history(until: 6) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(.linkLost, at: .microseconds(1_900_000))
            ledger.note(.connecting, at: .microseconds(2_100_000))
            ledger.note(nil, at: .microseconds(3_500_000))
            ledger.sample(at: .seconds(2))
            ledger.sample(at: .seconds(6))
        }
        #expect(gaps == ["2–6 silent"])
    }

    @Test func aLinkThatIsUpAndStaysSilentIsSaidSo() {
        let gaps = history(until: 30) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(.connecting, at: .seconds(2))
            ledger.note(nil, at: .seconds(10))
            ledger.note(.linkLost, at: .seconds(20))
        }
        #expect(gaps == ["1–10 connecting", "10–20 silent", "20–30 link-lost"])
    }

    @Test func framesWithoutAMeasurementExplainTheTimeTheyCame() {
        let gaps = history(until: 40) { ledger in
            ledger.sample(at: .seconds(1))
            for second in 2...9 as ClosedRange<Int64> {
                ledger.frame(without: .undecodable, at: .seconds(second))
            }
            ledger.sample(at: .seconds(10))
            ledger.frame(without: .queueFull, at: .seconds(11))
        }
        #expect(gaps == ["1–10 undecodable", "10–14 queue-full", "14–40 silent"])
    }

    /// It was said to be the strap's silence.
    @Test func theTimeOfASuspensionIsTheGatewaysOwn() {
        let gaps = history(until: 3_620) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(Self.sleep(from: 4, 3_605...3_612))
            ledger.note(.linkLost, at: .seconds(3_610))
        }
        #expect(gaps == ["1–3610 gateway-off", "3610–3620 link-lost"])
    }

    @Test func aCauseFromBeforeASuspensionHoldsBeforeItAndAfterIt() {
        let gaps = history(until: 3_620) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(.outOfRange, at: .seconds(2))
            ledger.note(Self.sleep(from: 15, 3_605...3_612))
        }
        #expect(gaps == ["1–15 out-of-range", "15–3612 gateway-off", "3612–3620 out-of-range"])
    }

    @Test func framesFromBeforeASuspensionThatAreStoredAfterItShortenItsGap() {
        let gaps = history(until: 3_620) { ledger in
            ledger.sample(at: .seconds(1))
            ledger.note(Self.sleep(from: 2, 3_601...3_604))
            // Read before they came.
            _ = ledger.open(at: .seconds(3_599))
            for second in [2, 3, 4, 3_602, 3_603, 3_615, 3_618] as [Int64] {
                ledger.sample(at: .seconds(second))
            }
        }
        #expect(gaps == ["4–3602 gateway-off", "3603–3615 silent"])
    }

    private static func sleep(from: Int64, _ wakes: ClosedRange<Int64>) -> GapLedger.Sleep {
        GapLedger.Sleep(
            from: .seconds(from), wakes: .seconds(wakes.lowerBound) ... .seconds(wakes.upperBound))
    }

    @Test func aCauseThatWasNotedOutlivesSamples() {
        let gaps = history(until: 20) { ledger in
            ledger.note(.noContact, at: .seconds(1))
            for second in 1...8 as ClosedRange<Int64> { ledger.sample(at: .seconds(second)) }
        }
        #expect(gaps == ["8–20 no-contact"])
    }

    @Test func lookingChangesNothing() {
        var looked = GapLedger(beginning: .zero)
        var unseen = looked
        for step in 1...400 as ClosedRange<Int64> {
            let at = Uptime.seconds(step)
            _ = looked.open(at: at - .milliseconds(500))
            func tell(_ ledger: inout GapLedger) {
                switch step * 7919 % 23 {
                case 0...6: ledger.sample(at: at)
                case 7: ledger.note(.linkLost, at: at)
                case 8: ledger.note(nil, at: at)
                case 9: ledger.frame(without: .undecodable, at: at)
                default: break
                }
            }
            tell(&looked)
            tell(&unseen)
        }
        looked.end(at: .seconds(500))
        unseen.end(at: .seconds(500))
        #expect(looked.closed == unseen.closed && !looked.closed.isEmpty)
    }

    @Test func whatIsOpenIsSeenOnceItIsAGap() {
        var ledger = GapLedger(beginning: .zero)
        ledger.note(.outOfRange, at: .seconds(1))
        #expect(ledger.open(at: .seconds(3)) == nil)
        #expect(ledger.open(at: .seconds(3) + Duration.microseconds(1))?.from == .zero)
        ledger.note(.connecting, at: .seconds(60))
        #expect(ledger.open(at: .seconds(61))?.cause == .connecting)
        #expect(ledger.closed.map(\.cause) == [.outOfRange])
        ledger.removeClosed()
        #expect(ledger.closed.isEmpty)
    }

    @Test func uptimesThatGoBackOrAreAbsurdDoNotTrap() {
        var ledger = GapLedger(beginning: .microseconds(5))
        for microseconds in [.min, .max, 0, .max - 1, .min + 1, 7] as [Int64] {
            let uptime = Uptime(microseconds: microseconds)
            ledger.sample(at: uptime)
            ledger.note(.silent, at: uptime)
            ledger.frame(without: .undecodable, at: uptime)
            ledger.note(nil, at: uptime)
            _ = ledger.open(at: uptime)
        }
        ledger.end(at: .microseconds(.min))
        for gap in ledger.closed { #expect(gap.from < gap.until ?? gap.from) }
    }
}
