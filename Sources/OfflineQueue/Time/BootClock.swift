import Basics

/// A step of the wall clock within a boot: two trusted readings that disagree.
public struct ClockStep: Sendable, Hashable {
    /// The last trusted reading before it.
    public let after: Uptime
    /// The first trusted reading behind it.
    public let at: Uptime
    /// How far UTC was ahead of the uptime before, and is since.
    let before: WallOffset
    let offset: WallOffset

    /// By how much the wall clock moved; negative: back.
    public var size: Duration { offset.duration - before.duration }

    /// Its size whichever way it went.
    var magnitude: Duration { size < .zero ? .zero - size : size }

    /// Whether the wall clock moved somewhere around `uptime`.
    func surrounds(_ uptime: Uptime) -> Bool { after < uptime && uptime < at }
}

/// The verdict of one boot's trusted readings on its instants: the wall time of an uptime and how far that may be
/// wrong, or that it is not known yet.
///
/// `CLOCK_BOOTTIME` and the wall clock are disciplined together, so that their difference changes only where
/// somebody sets the wall clock. The newest trusted difference therefore counts until a trusted reading disagrees.
struct BootClock: Sendable, Hashable {
    /// The time of an instant.
    struct Answer: Sendable, Hashable {
        var offset: WallOffset
        /// How far the time may be wrong; nil: nobody says.
        var error: Duration?
    }

    /// The part of a reading that has to be remembered.
    enum Fact: Sendable, Hashable {
        /// Instants of the boot that had no time have one now.
        case found
        /// The wall clock was set. If it is back from a jump, every instant since that has a time again.
        case stepped(ClockStep)
        /// The wall clock disagrees by more than any correction: nothing after this instant has a time.
        case jumped(after: Uptime)
        /// The offset is confirmed up to here.
        case confirmed

        /// Whether instants have a time that had none.
        var givesTimes: Bool {
            switch self {
            case .found, .stepped: true
            case .jumped, .confirmed: false
            }
        }
    }

    /// A smaller difference is the reading's own inaccuracy, and less than a frame is under way.
    static let stepMin = Duration.milliseconds(100)
    /// A wrong time zone makes half a day; a greater difference is another date, and one of the two is wrong.
    static let stepMax = Duration.seconds(86_400)
    /// How often a confirmation is remembered: not with each commit, since that would write a page more.
    static let confirmationPause = Duration.seconds(600)
    /// The kernel's own assumption of how fast an oscillator goes wrong that nothing corrects: 500 in a million.
    private static let driftPerMillion: Int64 = 500
    /// Steps that are remembered for answers about instants before them.
    static let stepsMax = 8

    /// Of the newest trusted reading.
    private(set) var offset: WallOffset?
    /// Its first trusted reading, and the newest one.
    private(set) var first: Uptime = .zero
    private(set) var newest: Uptime = .zero
    /// How far the wall clock may have been wrong at the newest one.
    private(set) var error: Duration?
    /// The last reading before a jump; nil without one.
    private(set) var jumpedAfter: Uptime?
    /// Oldest first.
    private(set) var steps: [ClockStep] = []
    /// The subject of the newest remembered confirmation.
    private var confirmed: Uptime = .zero
    private var wasTrusted = false

    /// The clock of a boot of which nothing is known.
    init() {}

    /// The clock of a boot as the store has it.
    init(
        offset: WallOffset?, first: Uptime?, newest: Uptime?, error: Duration?,
        jumpedAfter: Uptime?,
        steps: [ClockStep] = []
    ) {
        self.offset = offset
        self.first = first ?? .zero
        self.newest = newest ?? .zero
        self.error = error
        self.jumpedAfter = jumpedAfter
        self.steps = steps.suffix(Self.stepsMax)
        confirmed = self.newest
    }

    /// Whether instants from now on have a time.
    var isKnown: Bool { offset != nil && jumpedAfter == nil }

    /// Takes a reading; returns what has to be remembered of it.
    mutating func note(_ reading: ClockReading) -> Fact? {
        guard reading.isTrusted else {
            defer { wasTrusted = false }
            guard wasTrusted, confirmed < newest else { return nil }
            confirmed = newest
            return .confirmed
        }
        let found = WallOffset(utc: reading.wall, uptime: reading.uptime)
        guard let offset else {
            return set(found, at: reading)
        }
        let difference = (found.duration - offset.duration)
        let size = difference < .zero ? .zero - difference : difference
        guard size <= Self.stepMax else {
            guard jumpedAfter == nil else { return nil }
            jumpedAfter = newest
            return .jumped(after: newest)
        }
        // The wall clock is back from a jump: it was right before.
        if jumpedAfter != nil, size < Self.stepMin { return set(offset, at: reading) }
        guard size >= Self.stepMin else {
            confirm(reading, off: size)
            guard reading.uptime - confirmed >= Self.confirmationPause else { return nil }
            confirmed = reading.uptime
            return .confirmed
        }
        // A frame that came late has the reading of its arrival at the instant at which it was sent.
        let after = jumpedAfter ?? newest
        let at = max(reading.uptime, after)
        let step = ClockStep(after: after, at: at, before: offset, offset: found)
        steps = (steps + [step]).suffix(Self.stepsMax)
        self.offset = found
        jumpedAfter = nil
        confirm(reading)
        confirmed = newest
        return .stepped(step)
    }

    /// A person states the offset.
    ///
    /// - Returns: the step of the wall clock that it makes, if the boot had another offset.
    mutating func set(_ offset: WallOffset, at uptime: Uptime) -> ClockStep? {
        var step: ClockStep?
        if let before = self.offset, let jumpedAfter {
            let jump = ClockStep(
                after: jumpedAfter, at: jumpedAfter, before: before, offset: offset)
            steps = (steps + [jump]).suffix(Self.stepsMax)
            step = jump
        } else {
            first = uptime
        }
        self.offset = offset
        newest = max(newest, uptime)
        confirmed = newest
        error = nil
        jumpedAfter = nil
        return step
    }

    private mutating func set(_ offset: WallOffset, at reading: ClockReading) -> Fact {
        if self.offset == nil { first = reading.uptime }
        self.offset = offset
        jumpedAfter = nil
        confirm(reading)
        confirmed = newest
        return .found
    }

    /// The offset stays, although the reading differs from it by `off`.
    private mutating func confirm(_ reading: ClockReading, off: Duration = .zero) {
        newest = max(newest, reading.uptime)
        error = reading.error.map { $0 + off }
        wasTrusted = true
    }

    /// The time of an instant of this boot; nil: not known yet.
    func answer(_ uptime: Uptime) -> Answer? {
        guard let offset else { return nil }
        if let jumpedAfter, uptime > jumpedAfter { return nil }
        let step = steps.last { $0.after < uptime }
        let counted = step?.offset ?? steps.first?.before ?? offset
        if let step, step.surrounds(uptime) {
            return Answer(offset: counted, error: step.magnitude + (error ?? .zero))
        }
        let distance = max(.zero, max(first - uptime, uptime - newest))
        return Answer(
            offset: counted,
            error: error.map {
                $0 + .microseconds(distance.microseconds / 1_000_000 * Self.driftPerMillion)
            })
    }

    /// How far the time of an instant may be wrong, by the reading taken at it; a step around it is not counted. Nil if that
    /// is not known, or not yet: of an instant without a time the reading says nothing, since the clock has jumped.
    func error(by reading: ClockReading) -> Duration? {
        guard let answer = answer(reading.uptime) else { return nil }
        guard reading.isTrusted else {
            let isSettled =
                reading.uptime >= first && !steps.contains { $0.surrounds(reading.uptime) }
            return isSettled ? answer.error : nil
        }
        // The older offset counts while a reading disagrees by less than a step.
        let own = WallOffset(utc: reading.wall, uptime: reading.uptime).duration
        let off = own - answer.offset.duration
        return reading.error.map { $0 + min(max(off, .zero - off), Self.stepMin) }
    }

    /// How far the time of a stored sample may be wrong, `stored` of which was known when it arrived.
    func error(at uptime: Uptime, stored: Duration?) -> Duration? {
        if let step = steps.last(where: { $0.surrounds(uptime) }) {
            return (stored ?? .zero) + step.magnitude
        }
        guard let stored, uptime >= first else {
            // The clock was not trusted yet.
            return answer(uptime)?.error.map { $0 + (stored ?? .zero) } ?? stored
        }
        return stored
    }
}
