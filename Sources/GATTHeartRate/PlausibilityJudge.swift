/// Judges the measurements of one sensor, each beside those before it. A value without a clock.
public struct PlausibilityJudge: Hashable, Sendable {
    /// How many frames with RR intervals may hold the same ones: half a minute at one a second.
    ///
    /// The rate of a heart at rest may stay the same for minutes, its intervals do not. Even at hard
    /// work, where they vary least, two neighbours differ by some 2 ms, so that one pair in five is
    /// the same 1/1024 s: 30 in a row then have a chance of 10⁻²⁰. It also leaves room for sensors
    /// that count in steps of 8 ms. A pacemaker can reach it: the flag is a question, not a proof.
    public static let sameFramesMax = 30

    /// Largest believed change of the rate in beats per minute in one second.
    ///
    /// The fastest true change is a tachycardia that sets in from one beat to the next, say 80 to
    /// 200. A strap averages over about four beats, so that it shows 145 a second later: 65 more.
    /// The artifacts of a dry electrode or a shirt (70 to 230) are beyond it. Over two seconds, nothing is.
    public static let changePerSecondMax = 100

    /// After a silence this long, nothing that came before counts, microseconds: the sensor may have
    /// been taken off and put on another person.
    public static let silenceMicrosecondsMax: Int64 = 10_000_000

    /// Of the measurement before, µs.
    private var lastUptime: Int64?
    private struct Rate: Hashable {
        var bpm: UInt16
        var uptime: Int64
    }

    private var lastRate: Rate?
    private var intervals = RRIntervals()
    private var sameFrames = 0

    /// A judge who has seen nothing yet.
    public init() {}

    /// The flags of `measurement`, which arrived at this uptime; empty when it is plausible.
    ///
    /// Call it once a measurement, in order of arrival.
    public mutating func judge(
        _ measurement: HeartRateMeasurement, at uptimeMicroseconds: Int64
    ) -> Plausibility {
        if let lastUptime {
            let silence = uptimeMicroseconds.subtractingReportingOverflow(lastUptime)
            if silence.overflow || silence.partialValue > Self.silenceMicrosecondsMax {
                self = PlausibilityJudge()
            }
        }
        lastUptime = uptimeMicroseconds

        var findings = Plausibility.judge(measurement)
        // A sensor off the skin, or without a pulse, says nothing of a heart's rate.
        if findings.isDisjoint(with: [.contactLost, .zeroRate]) {
            if jumps(to: measurement.bpm, at: uptimeMicroseconds) {
                findings.insert(.impossibleJump)
            }
            lastRate = Rate(bpm: measurement.bpm, uptime: uptimeMicroseconds)
        }
        if isFrozen(measurement.rrIntervals) { findings.insert(.frozenRR) }
        return findings
    }

    private func jumps(to bpm: UInt16, at uptime: Int64) -> Bool {
        guard let lastRate else { return false }
        // Frames that waited somewhere arrive together; at least a second lies between the beats
        // that they tell of. Twice the silence is more than any change needs, and cannot overflow.
        let elapsed = uptime.subtractingReportingOverflow(lastRate.uptime)
        guard !elapsed.overflow, elapsed.partialValue < 2 * Self.silenceMicrosecondsMax else {
            return false
        }
        let microseconds = max(elapsed.partialValue, 1_000_000)
        let change = abs(Int64(bpm) - Int64(lastRate.bpm))
        return change * 1_000_000 > Int64(Self.changePerSecondMax) * microseconds
    }

    /// Frames without intervals neither count nor end a row: at low rates there are many. Some bands send zeros in
    /// their place.
    private mutating func isFrozen(_ found: RRIntervals) -> Bool {
        let found = RRIntervals(found.lazy.filter { $0 > 0 })
        guard let first = found.first else { return false }
        // A frame that says the same again, or another one made of the same single value.
        let isSame =
            found == intervals
            || (first == intervals.first && found.allSatisfy { $0 == first }
                && intervals.allSatisfy { $0 == first })
        sameFrames = isSame ? min(sameFrames + 1, Self.sameFramesMax + 1) : 1
        intervals = found
        return sameFrames > Self.sameFramesMax
    }
}
