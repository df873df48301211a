import Basics
import GATTHeartRate
import OfflineQueue
import Testing

@testable import BlueZ
@testable import Recording

@Suite struct SilenceCauseTests {
    private var silence = SilenceCause()

    private mutating func follow(_ state: LinkState, _ reason: LinkReason) -> GapCause? {
        _ = silence.follow(
            LinkChange(
                address: "C0:00:00:00:00:01", state: state, reason: reason,
                uptime: .zero))
        return silence.cause
    }

    @Test mutating func aLinkWithoutAnyEventWaitsForBluetoothd() {
        #expect(silence.cause == .daemonGone)
        #expect(follow(.suspended(.adapter), .adapterOff) == .adapterDown)
        #expect(follow(.absent, .progress) == .outOfRange)
        #expect(follow(.seen, .heard) == .connecting)
        #expect(follow(.streaming(lastFrameAt: .zero), .progress) == nil)
    }

    @Test mutating func aLostStrapIsLostUntilItIsHeardAgain() {
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        #expect(follow(.seen, .linkLost) == .linkLost)
        #expect(follow(.connecting, .progress) == .linkLost, "tried for at once, not heard")
        #expect(follow(.seen, .connectTimeout) == .linkLost)
        #expect(follow(.suspended(.outOfRange), .connectTimeout) == .outOfRange)
        #expect(follow(.seen, .heard) == .connecting)
    }

    @Test mutating func aLinkThatIsLostBeforeAFrameCameWasNone() {
        _ = follow(.seen, .heard)
        for _ in 0..<5 {
            #expect(follow(.connecting, .progress) == .connecting)
            #expect(follow(.resolving, .progress) == .connecting)
            #expect(follow(.seen, .linkLost) == .connecting)
        }
    }

    @Test mutating func aMuteStrapWhoseLinkIsMadeAnewIsNotOutOfRange() {
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        #expect(follow(.absent, .noFirstFrame) == .connecting)
        #expect(follow(.absent, .removed) == .outOfRange, "until it is heard again")
    }

    @Test mutating func aStrapThatIsHeardAndCannotBeConnectedIsConnectingAllThatTime() {
        func change(_ state: LinkState, _ reason: LinkReason) -> LinkChange {
            LinkChange(
                address: "C0:00:00:00:00:01", state: state, reason: reason,
                isUnreachable: true, uptime: .zero)
        }
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        _ = follow(.seen, .linkLost)
        for _ in 0..<5 {
            for (state, reason) in [
                (LinkState.seen, LinkReason.heard), (.connecting, .progress),
                (.seen, .error(.transientRadio)), (.connecting, .progress),
                (.suspended(.outOfRange), .connectTimeout),
            ] {
                _ = silence.follow(change(state, reason))
                #expect(silence.cause == .connecting)
            }
        }
        #expect(follow(.suspended(.outOfRange), .connectTimeout) == .outOfRange)
    }

    @Test mutating func aHungBluetoothdExplainsAnySilence() {
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        let begins = silence.follow(isHung: true)
        #expect(begins && silence.cause == .daemonGone)
        let ends = silence.follow(isHung: false)
        #expect(ends && silence.cause == nil)
    }

    @Test mutating func aReconnectedStrapIsNotLostAnyMore() {
        _ = follow(.seen, .linkLost)
        _ = follow(.connecting, .progress)
        #expect(follow(.resolving, .progress) == .connecting)
    }

    @Test mutating func offTheSkinExplainsTheSilenceOfALinkThatIsUp() {
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        let changed = silence.follow(contact: .notDetected)
        #expect(changed && silence.cause == .noContact)
        let again = silence.follow(contact: .notDetected)
        #expect(!again)
        #expect(follow(.seen, .linkLost) == .linkLost)
        #expect(follow(.streaming(lastFrameAt: .zero), .progress) == .noContact)
        _ = silence.follow(contact: .detected)
        #expect(silence.cause == nil)
    }

    @Test mutating func aFullAdapterIsTheCauseWhileAStrapWaitsForAPlace() {
        #expect(follow(.suspended(.adapterFull), .error(.slots)) == .adapterFull)
        #expect(follow(.seen, .heard) == .connecting)
    }

    @Test mutating func aStrapWhoseObjectVanishedUnderItsLinkIsLost() {
        _ = follow(.streaming(lastFrameAt: .zero), .progress)
        #expect(follow(.absent, .removed) == .linkLost)
    }
}
