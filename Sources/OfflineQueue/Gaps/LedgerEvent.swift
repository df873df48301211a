import Basics

/// An event for a gap ledger besides frames, while frames before it are not durable yet.
///
/// Ledgers follow what is in the store: a frame that waits in memory may still find no room there, or
/// be lost with the power.
struct LedgerEvent: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        case note(GapCause?)
        /// The strap sends a frame about so often.
        case cadence(Duration)
        /// Frames that memory could not take, the last of them at this uptime.
        case refused(through: Uptime)
    }

    /// The most that wait, a strap that comes and goes for days before a full disk: what comes after
    /// is not told, so that causes are coarser.
    static let waitingMax = 4096

    /// How many of the buffered frames come before it.
    var frames: Int
    var sensor: Int64
    var uptime: Uptime
    var kind: Kind
}

extension [Int64: KeptLedger] {
    /// Tells the ledgers of frames in order of arrival, the last `unstored` of which found no room, and
    /// of the events between and after them.
    mutating func tell(
        _ arrivals: ArraySlice<Arrival>, of owners: [Int64?], unstored: Int = 0,
        _ events: some Sequence<LedgerEvent>, _ wearing: inout Wearing
    ) throws {
        var events = events.makeIterator()
        var next = events.next()
        let storedCount = arrivals.count - unstored
        for (index, (arrival, owner)) in zip(arrivals, owners).enumerated() {
            while let event = next, event.frames <= index {
                try tell(event, &wearing)
                next = events.next()
            }
            guard let owner else { continue }
            let uptime = arrival.uptime
            let lacking = arrival.faultStored != nil ? GapCause.undecodable : arrival.lacking
            if let cause = index >= storedCount ? .queueFull : lacking {
                self[owner]?.ledger.frame(without: cause, at: uptime)
            } else if arrival.isRebuilt {
                self[owner]?.ledger.lateSample(at: uptime)
            } else {
                self[owner]?.ledger.sample(at: uptime)
            }
        }
        while let event = next {
            try tell(event, &wearing)
            next = events.next()
        }
    }

    private mutating func tell(_ event: LedgerEvent, _ wearing: inout Wearing) throws {
        guard let id = try wearing.assignment(of: event.sensor, at: event.uptime) else { return }
        switch event.kind {
        case .note(let cause): self[id]?.ledger.note(cause, at: event.uptime)
        case .cadence(let cadence): self[id]?.ledger.note(cadence: cadence)
        case .refused(let last):
            var uptime = event.uptime
            while uptime < last {
                self[id]?.ledger.frame(without: .queueFull, at: uptime)
                uptime = last - uptime > GapLedger.silenceMax ? uptime + GapLedger.silenceMax : last
            }
            self[id]?.ledger.frame(without: .queueFull, at: last)
        }
    }
}
