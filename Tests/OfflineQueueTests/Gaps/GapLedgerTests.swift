import Testing

@testable import OfflineQueue

@Suite("The ledger of one time line")
struct GapLedgerTests {
    private static let second: Int64 = 1_000_000

    /// What the ledger says in the end, as "from–until cause" in seconds.
    private func history(
        until end: Int64, _ events: (inout GapLedger) -> Void
    ) -> [String] {
        var ledger = GapLedger(beginning: 0)
        events(&ledger)
        ledger.end(at: end * Self.second)
        return ledger.closed.map {
            "\($0.from / Self.second)–\(($0.until ?? -1) / Self.second) \($0.cause.rawValue)"
        }
    }

    @Test func oneOrTwoLostNotificationsAreNoGap() {
        let gaps = history(until: 13) { ledger in
            for second in [1, 2, 5, 8, 10] as [Int64] { ledger.sample(at: second * Self.second) }
        }
        #expect(gaps.isEmpty)
    }

    @Test func aLongerSilenceRunsFromSampleToSample() {
        let gaps = history(until: 20) { ledger in
            for second in [1, 2, 6, 7] as [Int64] { ledger.sample(at: second * Self.second) }
        }
        #expect(gaps == ["2–6 silent", "7–20 silent"])
    }

    @Test func samplesThatComeLateMakeDataOfWhatWasTakenForASilence() {
        let gaps = history(until: 101) { ledger in
            for second in Int64(1)...10 { ledger.sample(at: second * Self.second) }
            // Read meanwhile, its parts are found one by one.
            _ = ledger.open(at: 20 * Self.second)
            ledger.note(.daemonGone, at: 22 * Self.second)
            _ = ledger.open(at: 50 * Self.second)
            ledger.note(nil, at: 100 * Self.second)
            for second in Int64(11)...60 { ledger.lateSample(at: second * Self.second) }
            for second in Int64(80)...100 { ledger.lateSample(at: second * Self.second) }
        }
        #expect(gaps == ["60–80 silent"])
    }

    @Test func aStrapThatSendsRarelyHasGapsByItsOwnCadence() {
        let gaps = history(until: 400) { ledger in
            ledger.note(cadence: 20 * Self.second)
            for second in [10, 30, 50, 90, 110, 200, 220] as [Int64] {
                ledger.sample(at: second * Self.second)
            }
        }
        #expect(gaps == ["110–200 silent", "220–400 silent"])
    }

    @Test func aSilenceIsSplitWhereItsCauseChanges() {
        let gaps = history(until: 31) { ledger in
            ledger.sample(at: 1 * Self.second)
            ledger.note(.linkLost, at: 3 * Self.second)
            ledger.note(.outOfRange, at: 10 * Self.second)
            ledger.note(.connecting, at: 20 * Self.second)
            ledger.note(nil, at: 28 * Self.second)
            ledger.sample(at: 29 * Self.second)
        }
        // Neither the moment before the cause was found nor the one before the first frame is a
        // gap of its own.
        #expect(gaps == ["1–10 link-lost", "10–20 out-of-range", "20–29 connecting"])
    }

    /// It arrived before the link came and went, and was told of after that.
    @Test func theSilenceAfterALateSampleBeginsWithItsArrival() {
        let gaps = history(until: 6) { ledger in
            ledger.sample(at: 1 * Self.second)
            ledger.note(.linkLost, at: 1_900_000)
            ledger.note(.connecting, at: 2_100_000)
            ledger.note(nil, at: 3_500_000)
            ledger.sample(at: 2 * Self.second)
            ledger.sample(at: 6 * Self.second)
        }
        #expect(gaps == ["2–6 silent"])
    }

    @Test func aLinkThatIsUpAndStaysSilentIsSaidSo() {
        let gaps = history(until: 30) { ledger in
            ledger.sample(at: 1 * Self.second)
            ledger.note(.connecting, at: 2 * Self.second)
            ledger.note(nil, at: 10 * Self.second)
            ledger.note(.linkLost, at: 20 * Self.second)
        }
        #expect(gaps == ["1–10 connecting", "10–20 silent", "20–30 link-lost"])
    }

    @Test func framesWithoutAMeasurementExplainTheTimeTheyCame() {
        let gaps = history(until: 40) { ledger in
            ledger.sample(at: 1 * Self.second)
            for second in 2...9 as ClosedRange<Int64> {
                ledger.frame(without: .undecodable, at: second * Self.second)
            }
            ledger.sample(at: 10 * Self.second)
            ledger.frame(without: .queueFull, at: 11 * Self.second)
        }
        #expect(gaps == ["1–10 undecodable", "10–14 queue-full", "14–40 silent"])
    }

    @Test func aCauseThatWasNotedOutlivesSamples() {
        let gaps = history(until: 20) { ledger in
            ledger.note(.noContact, at: 1 * Self.second)
            for second in 1...8 as ClosedRange<Int64> { ledger.sample(at: second * Self.second) }
        }
        #expect(gaps == ["8–20 no-contact"])
    }

    @Test func lookingChangesNothing() {
        var looked = GapLedger(beginning: 0)
        var unseen = looked
        for step in 1...400 as ClosedRange<Int64> {
            let at = step * Self.second
            _ = looked.open(at: at - 500_000)
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
        looked.end(at: 500 * Self.second)
        unseen.end(at: 500 * Self.second)
        #expect(looked.closed == unseen.closed && !looked.closed.isEmpty)
    }

    @Test func whatIsOpenIsSeenOnceItIsAGap() {
        var ledger = GapLedger(beginning: 0)
        ledger.note(.outOfRange, at: Self.second)
        #expect(ledger.open(at: 3 * Self.second) == nil)
        #expect(ledger.open(at: 3 * Self.second + 1)?.from == 0)
        ledger.note(.connecting, at: 60 * Self.second)
        #expect(ledger.open(at: 61 * Self.second)?.cause == .connecting)
        #expect(ledger.closed.map(\.cause) == [.outOfRange])
        ledger.removeClosed()
        #expect(ledger.closed.isEmpty)
    }

    @Test func uptimesThatGoBackOrAreAbsurdDoNotTrap() {
        var ledger = GapLedger(beginning: 5)
        for uptime in [.min, .max, 0, .max - 1, .min + 1, 7] as [Int64] {
            ledger.sample(at: uptime)
            ledger.note(.silent, at: uptime)
            ledger.frame(without: .undecodable, at: uptime)
            ledger.note(nil, at: uptime)
            _ = ledger.open(at: uptime)
        }
        ledger.end(at: .min)
        for gap in ledger.closed { #expect(gap.from < gap.until ?? .min) }
    }
}
