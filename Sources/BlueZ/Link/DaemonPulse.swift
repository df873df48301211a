import Basics

/// Notices a bluetoothd that is on the bus and does nothing: a value that decides when to ask it.
///
/// While frames and adverts come it is not asked at all.
struct DaemonPulse: Sendable, Hashable {
    /// Nothing was heard for so long although straps stream: bluetoothd is asked. Above the time in which frames
    /// gather, and the second until the first of them comes. It is asked in any case before a silent link is ended.
    static let quiet = Duration.seconds(6)
    /// The same while no strap streams.
    static let idle = Duration.seconds(20)
    /// How long the answer may take.
    static let answerPatience = Duration.seconds(5)

    /// When something came from bluetoothd last.
    private(set) var heardAt: Uptime
    private var isAsking = false
    /// Whether straps stream, whose frames would be heard.
    var expectsFrames = false
    /// Since when nothing was heard, if a question was not answered either.
    private(set) var hungSince: Uptime?

    init(at now: Uptime) { heardAt = now }

    /// It may hang: nothing was heard, and a question is open.
    var isInDoubt: Bool { isAsking || hungSince != nil }

    /// When a `tick` is due, if ever.
    var nextDeadline: Uptime? {
        isAsking
            ? nil : heardAt + (expectsFrames ? Self.quiet : Self.idle)
    }

    /// Something came from bluetoothd; true if that ends a hang.
    mutating func hear(at now: Uptime) -> Bool {
        heardAt = max(heardAt, now)
        defer { hungSince = nil }
        return hungSince != nil
    }

    /// Looks at the time; true if bluetoothd is to be asked now.
    mutating func tick(at now: Uptime) -> Bool {
        guard let nextDeadline, nextDeadline <= now else { return false }
        return ask()
    }

    /// True if bluetoothd is to be asked now; false if it is being asked.
    mutating func ask() -> Bool {
        defer { isAsking = true }
        return !isAsking
    }

    /// The question was answered or not; true if that begins a hang.
    mutating func noteAnswer(_ isAnswered: Bool, askedAt: Uptime) -> Bool {
        isAsking = false
        // Something came after the question was asked.
        guard !isAnswered, heardAt <= askedAt else { return false }
        defer { hungSince = hungSince ?? heardAt }
        return hungSince == nil
    }
}
