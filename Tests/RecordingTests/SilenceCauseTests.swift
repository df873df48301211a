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
                address: "C0:00:00:00:00:01", state: state, reason: reason, linkGeneration: 1,
                uptimeMicroseconds: 0))
        return silence.cause
    }

    @Test mutating func aLinkThatNobodyHasToldOfWaitsForBluetoothd() {
        #expect(silence.cause == .daemonGone)
        #expect(follow(.suspended(.adapter), .adapterOff) == .adapterDown)
        #expect(follow(.absent, .progress) == .outOfRange)
        #expect(follow(.seen, .heard) == .connecting)
        #expect(follow(.streaming(lastFrameAt: 0), .progress) == nil)
    }

    @Test mutating func aLostStrapIsLostUntilItIsHeardAgain() {
        _ = follow(.streaming(lastFrameAt: 0), .progress)
        #expect(follow(.seen, .linkLost) == .linkLost)
        #expect(follow(.connecting, .progress) == .linkLost, "tried for at once, not heard")
        #expect(follow(.seen, .connectTimeout) == .linkLost)
        #expect(follow(.suspended(.outOfRange), .connectTimeout) == .outOfRange)
        #expect(follow(.seen, .heard) == .connecting)
    }

    @Test mutating func aReconnectedStrapIsNotLostAnyMore() {
        _ = follow(.seen, .linkLost)
        _ = follow(.connecting, .progress)
        #expect(follow(.resolving, .progress) == .connecting)
    }

    @Test mutating func offTheSkinExplainsTheSilenceOfALinkThatIsUp() {
        _ = follow(.streaming(lastFrameAt: 0), .progress)
        let changed = silence.follow(contact: .notDetected)
        #expect(changed && silence.cause == .noContact)
        let again = silence.follow(contact: .notDetected)
        #expect(!again)
        #expect(follow(.seen, .linkLost) == .linkLost)
        #expect(follow(.streaming(lastFrameAt: 0), .progress) == .noContact)
        _ = silence.follow(contact: .detected)
        #expect(silence.cause == nil)
    }

    @Test mutating func aFullAdapterIsTheCauseWhileAStrapWaitsForAPlace() {
        #expect(follow(.suspended(.adapterFull), .error(.slots)) == .adapterFull)
        #expect(follow(.seen, .heard) == .connecting)
    }

    @Test mutating func aStrapWhoseObjectVanishedUnderItsLinkIsLost() {
        _ = follow(.streaming(lastFrameAt: 0), .progress)
        #expect(follow(.absent, .removed) == .linkLost)
    }
}
