import Basics

/// How much of what a strap should have sent lately is missing: a value that adds up its interruptions.
///
/// A strap that comes and goes ends each silence before it is long enough to be called one. What is longer is
/// said as long as it lasts, so that only its first minute counts here, and no time passes after that: a night
/// without the strap says nothing of it. A strap that has just come is given the whole time as sent.
struct Interruptions: Sendable {
    /// The time that is judged, a quarter of an hour: so many of ``part``.
    static let parts = 15
    /// The time that is forgotten at once.
    static let part = Duration.seconds(60)
    /// So much of a silence counts: a longer one is said by itself from then on.
    static let silenceMax = Duration.seconds(60)
    /// More of that time is missing: a quarter. Four silences of a minute or more, or one of 15 s each minute;
    /// who goes to the next room and comes back, or wets the electrodes, takes less.
    static let missingMax = Duration.seconds(225)
    /// It comes and goes until no more than a tenth is missing: a single silence does not bring the item back.
    static let missingMin = Duration.seconds(90)
    /// A strap that was away for so long has been taken off, and what it did before says nothing of it now.
    static let absenceMin = Duration.seconds(900)

    /// Whether it comes and goes.
    private(set) var isMany = false
    /// The missing time of each part, the newest last; that one has begun.
    private var missingOfParts = [Duration.zero]
    /// How much of the newest part is over.
    private var begun = Duration.zero
    private var latest: Uptime?
    private var isExcused = false

    /// The missing part of the time that is judged.
    var missing: Duration { missingOfParts.reduce(.zero, +) }

    /// The silence that goes on, or begins now, is the gateway's own: it does not count.
    mutating func excuse() { isExcused = true }

    /// Data came that were sent at `uptime`; more than `pauseMax` since those before is an interruption.
    mutating func dataCame(at uptime: Uptime, pauseMax: Duration) {
        guard let latest else { return latest = uptime }
        let pause = uptime - latest
        guard pause > .zero else { return }
        let wasExcused = isExcused
        isExcused = false
        if pause >= Self.absenceMin { self = Self() }
        self.latest = uptime
        if pause <= pauseMax {
            pass(pause, isMissing: false)
        } else if !wasExcused, pause < Self.absenceMin {
            pass(min(pause, Self.silenceMax), isMissing: true)
        }
        isMany = missing > (isMany ? Self.missingMin : Self.missingMax)
    }

    private mutating func pass(_ time: Duration, isMissing: Bool) {
        var left = time
        while left > .zero {
            let step = min(left, Self.part - begun)
            begun += step
            left -= step
            if isMissing { missingOfParts[missingOfParts.count - 1] += step }
            guard begun == Self.part else { continue }
            begun = .zero
            missingOfParts.append(.zero)
            if missingOfParts.count > Self.parts { missingOfParts.removeFirst() }
        }
    }
}
