import Basics

/// How long a gateway waits for a relay, and how long a request may wait there.
///
/// The same samples must never be worked on twice at a time: a second request makes permanent duplicates at
/// the exchange. A relay cannot see another one's requests, so time keeps them apart. A request that has not
/// begun at the exchange ``beginMax`` after it came is dropped; one that has begun is over ``workMax`` later;
/// and no gateway sends the same samples again sooner than ``resendPause`` after it sent them, also when it
/// was killed and restarted meanwhile.
enum RelayPatience {
    /// How long a gateway waits for an answer.
    static let answer = Duration.seconds(60)
    /// The patience that a gateway may ask for instead.
    static let answerRange = Duration.seconds(1)...Duration.seconds(600)
    /// The longest time from when a request leaves the NATS server to its beginning at the exchange.
    static let beginMax = Duration.seconds(15)
    /// The part of a gateway's patience that a request may wait: the rest is for the exchange.
    static let beginPart = 4
    /// After so long the exchange kills its own worker (docs/develop/exchange.md).
    static let workMax = Duration.seconds(30)
    /// Before the same samples are sent again when their fate is unknown.
    static let resendPause = beginMax + workMax

    /// The latest time at which a request that left the NATS server at `departure` may begin at the exchange.
    static func latestBegin(_ departure: Uptime, patience: Duration) -> Uptime {
        let patience = min(max(patience, answerRange.lowerBound), answerRange.upperBound)
        return departure + min(beginMax, patience / beginPart)
    }
}
