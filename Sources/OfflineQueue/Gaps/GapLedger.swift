import Basics

/// The times that one assignment was without data, and why: splits its time line into time that samples speak
/// for and gaps, each with one cause.
///
/// A value without I/O or clock: every call brings the uptime of one boot. It
/// keeps only what is not closed yet, so that a strap that sends costs nothing.
///
///     sample        sample                                   sample
///       ├──covered────┤──────────gap: cause──────┤──cause──────┤──covered──
///       └ ≤ 3 s apart ┘                          └ the cause changed
///
/// Uptimes that go back are taken as the latest known: what is explained is never opened again.
struct GapLedger: Sendable, Hashable {
    /// The longest silence that is no gap. Straps notify once a second; one or two lost
    /// notifications are the air's noise, and one row for each would wear the card.
    ///
    /// The beginning and the end of an assignment and of a run bound a silence as samples do. The
    /// same time bounds how long frames may be awaited without being called `silent`, and how long
    /// a frame without a measurement explains that none came.
    static let silenceMax = Duration.seconds(3)

    /// A range of uptime with one cause; `until` is nil while it goes on.
    struct Interval: Sendable, Hashable {
        /// Where it begins.
        var from: Uptime
        /// Where it ends; nil while it goes on.
        var until: Uptime?
        /// Its cause.
        var cause: GapCause
    }

    /// A suspension of the machine.
    struct Sleep: Sendable, Hashable {
        /// When the gateway was last known to be awake before it.
        var from: Uptime
        /// When the machine woke: the earliest and the latest possible time.
        var wakes: ClosedRange<Uptime>
    }

    /// Gaps and parts of gaps that are over, oldest first, until ``removeClosed()``.
    private(set) var closed: [Interval] = []
    /// The cause that the caller last noted; nil while frames are expected.
    private(set) var noted: GapCause?

    /// The longest silence of this strap that is no gap: ``silenceMax``, or more where it sends
    /// rarely.
    private(set) var patience = Self.silenceMax
    /// The report on the time since then is void: late samples came from it.
    private(set) var voidSince: Uptime?

    /// Where the present silence begins: at the last sample, or at the beginning. Gaps before it are final.
    private(set) var silenceFrom: Uptime
    /// The present silence up to `settled`: a part ends where the next one begins. Empty while no
    /// cause is found.
    private var parts: [Interval] = []
    private var settled: Uptime
    /// The cause of the silence from `settled` on; nil while a frame is expected.
    private var prevailing: GapCause?
    /// The last frame without a measurement, if `prevailing` is because of it.
    private var emptyFrame: Uptime?
    /// Oldest first. They are kept after they are settled, too: a frame from before may come late.
    private var sleeps: [Sleep] = []

    /// A ledger that begins at `uptime`.
    init(beginning uptime: Uptime) {
        silenceFrom = uptime
        settled = uptime
    }

    /// The ledger of whoever wears the strap from `uptime` on. It is the same strap: what is known of it goes on.
    func next(beginning uptime: Uptime) -> GapLedger {
        var next = GapLedger(beginning: uptime)
        (next.noted, next.prevailing, next.patience) = (noted, noted, patience)
        return next
    }

    /// A sample arrived.
    mutating func sample(at uptime: Uptime) {
        if uptime > silenceFrom {
            // A sample from before the present cause was known does not undo it, if it made a gap.
            let isLate =
                parts.last.map { uptime <= $0.from } ?? false
                && isGap(from: silenceFrom, until: settled)
            closeSilence(at: isLate ? settled : uptime)
        }
        prevailing = noted
        emptyFrame = nil
    }

    /// A sample arrived late that was sent at `uptime`: what was told of the time since is void. What was told of the
    /// silence before it holds, if that is long enough for a gap.
    mutating func lateSample(at uptime: Uptime) {
        guard uptime > silenceFrom else { return sample(at: uptime) }
        let void = isGap(from: silenceFrom, until: uptime) ? uptime : silenceFrom
        voidSince = min(voidSince ?? void, void)
        closed.removeAll { $0.from >= void }
        if let last = closed.indices.last {
            closed[last].until = closed[last].until.map { min($0, void) }
        }
        let wasTold = !parts.isEmpty
        parts.removeAll { $0.from >= void }
        // The gap that spans the sample is closed already, and was cut above.
        if wasTold, parts.isEmpty { silenceFrom = uptime }
        closeSilence(at: uptime)
        prevailing = noted
        emptyFrame = nil
    }

    /// The strap sends a frame about so often: its silences are judged by that.
    mutating func note(cadence: Duration) {
        let (longest, overflow) = cadence.microseconds.multipliedReportingOverflow(by: 3)
        patience = overflow ? Self.silenceMax : max(Self.silenceMax, .microseconds(longest))
    }

    /// A frame came that says nothing of the heart: it could not be decoded or stored, or has no rate.
    mutating func frame(without cause: GapCause, at uptime: Uptime) {
        settle(to: uptime)
        prevailing = cause
        emptyFrame = max(uptime, settled)
        settled = max(uptime, settled)
    }

    /// The cause of a silence from now on; nil while frames are expected.
    mutating func note(_ cause: GapCause?, at uptime: Uptime) {
        guard cause != noted else { return }
        settle(to: uptime)
        noted = cause
        prevailing = cause
        emptyFrame = nil
        settled = max(uptime, settled)
    }

    /// The machine was suspended.
    mutating func note(_ sleep: Sleep) {
        sleeps.removeAll { $0.wakes.upperBound <= settled }
        sleeps.append(sleep)
    }

    /// The assignment or the run ends: what is open ends here.
    mutating func end(at uptime: Uptime) {
        closeSilence(at: max(uptime, settled))
    }

    /// The gap that is open at `uptime`, with the parts before its last moved to ``closed``; nil
    /// while the silence is still short.
    mutating func open(at uptime: Uptime) -> Interval? {
        let uptime = max(uptime, settled)
        guard isGap(from: silenceFrom, until: uptime) else { return nil }
        explain(until: uptime)
        close(parts.count - 1, until: uptime)
        return parts.first
    }

    /// Writes the present silence anew: it is not known whether it was written.
    mutating func doubt() {
        let since = parts.first?.from ?? silenceFrom
        voidSince = min(voidSince ?? since, since)
    }

    /// Since when nothing of it is written, after ``doubt()``.
    var unwrittenSince: Uptime {
        min(closed.first?.from ?? silenceFrom, voidSince ?? silenceFrom)
    }

    /// Forgets what is over: it is stored.
    mutating func removeClosed() {
        closed.removeAll(keepingCapacity: true)
        voidSince = nil
    }

    /// Whether no data between these instants is a gap.
    static func isGap(from: Uptime, until: Uptime) -> Bool {
        until - from > silenceMax
    }

    private func isGap(from: Uptime, until: Uptime) -> Bool {
        until - from > patience
    }

    private mutating func closeSilence(at uptime: Uptime) {
        if isGap(from: silenceFrom, until: uptime) {
            explain(until: uptime)
            close(parts.count, until: uptime)
        }
        parts.removeAll(keepingCapacity: true)
        silenceFrom = uptime
        settled = uptime
    }

    /// Finds the causes up to `uptime`; a time without a noted cause is `silent`.
    private mutating func explain(until uptime: Uptime) {
        settle(to: uptime)
        if parts.isEmpty { addPart(.silent) }
    }

    private mutating func close(_ count: Int, until uptime: Uptime) {
        for index in 0..<max(0, count) {
            var part = parts[index]
            part.until = index + 1 < parts.count ? parts[index + 1].from : uptime
            closed.append(part)
        }
        parts.removeFirst(max(0, count))
    }

    /// Gives the time from `settled` to `uptime` its cause; that of a suspension is the gateway's own.
    private mutating func settle(to uptime: Uptime) {
        for sleep in sleeps where sleep.from < uptime && sleep.wakes.lowerBound > settled {
            settleAwake(to: sleep.from)
            addPart(.gatewayOff)
            settled = min(max(uptime, sleep.wakes.lowerBound), sleep.wakes.upperBound)
            prevailing = noted
            emptyFrame = nil
        }
        settleAwake(to: uptime)
    }

    /// Gives a time in which the machine was not suspended its cause.
    ///
    /// Frames expected for a moment only, after a cause or before one, belong to that cause: the
    /// second between "connected" and the first frame is not `silent`.
    private mutating func settleAwake(to uptime: Uptime) {
        if let frame = emptyFrame, let cause = prevailing, isGap(from: frame, until: uptime) {
            addPart(cause)
            settled = frame + patience
            prevailing = noted
            emptyFrame = nil
        }
        guard uptime > settled else { return }
        if let prevailing {
            addPart(prevailing)
            settled = uptime
        } else if isGap(from: settled, until: uptime) {
            addPart(.silent)
            settled = uptime
        }
    }

    private mutating func addPart(_ cause: GapCause) {
        guard parts.last?.cause != cause else { return }
        parts.append(
            Interval(from: parts.isEmpty ? silenceFrom : settled, until: nil, cause: cause))
    }
}
