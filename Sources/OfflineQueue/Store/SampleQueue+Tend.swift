import Basics

extension SampleQueue {
    /// From one call of ``tend()`` to the next, at most; or a little less than a group commit may wait, if that is
    /// shorter.
    static let tendPause = Duration.seconds(5)
    /// While somebody waits for frames, those that came before a call are handed over as much later. They would be
    /// too old at the next one and cost a commit of their own, if that were not so much earlier.
    static let handOverTime = Duration.milliseconds(500)
    /// The same while the store takes nothing, is salvaged or is broken.
    static let troubledTendPause = Duration.seconds(1)
    /// The work that is due within this is done at once: a wake-up less each time. With more there would be more commits, and
    /// each writes to the card.
    static let tendSlack = Duration.milliseconds(500)

    /// Does what is due, commits, the clock and a look at the next rows, and says how the store does and
    /// when to call again. One call, because each is a change of thread.
    public func tend() -> (health: StoreFacts, next: Uptime) {
        let reading = clock.read()
        // Tried again the next time. Before the commit, which goes by what the clock has come to.
        try? noteClock(reading)
        commitIfDue(within: Self.tendSlack)
        checkNextRows()
        let facts = health()
        let isTroubled = facts.fault != nil || facts.isAbsent || repair.damage != nil
        let age = settings.commitAgeMax - Self.handOverTime
        let pause = isTroubled ? Self.troubledTendPause : min(Self.tendPause, age)
        var next = reading.uptime + max(pause, Self.tendSlack)
        if let deadline = nextCommitDeadline {
            next = min(next, max(deadline, reading.uptime + Self.tendSlack))
        }
        nextTend = next
        return (facts, next)
    }
}
