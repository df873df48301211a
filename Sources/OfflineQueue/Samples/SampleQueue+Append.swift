import Basics
import Foundation
import GRDB

extension SampleQueue {
    /// Takes over frames in order of arrival, and commits if a group is full or nearly old enough, or would be too
    /// old at the next ``tend()``.
    ///
    /// The commit says whose they are; what was sent while nobody wore its strap is not stored. A failing disk is no
    /// error here: the samples wait in memory and ``health()`` tells of it. Throws `closed` after ``close()``.
    public func append(contentsOf arrivals: some Sequence<Arrival>) throws(QueueError) {
        guard !store.isClosed else { throw QueueError(.closed, "append samples", "it is closed") }
        noteSuspension()
        var latest: Uptime?
        for arrival in arrivals {
            latest = arrival.uptime
            if buffer.take(arrival, max: settings.bufferedSamplesMax) {
                FaultPoint.append.reach()
            } else {
                ledgers.tellRefusal(
                    of: arrival.sensorID, at: arrival.uptime, behind: buffer.arrivals.count)
            }
        }
        if let latest, buffer.isDue(uptime: latest + Self.tendSlack) || isDueBeforeNextTend {
            try? commitBuffer(uptime: latest)
        }
    }

    /// Whether what waits is older than ``tend()`` could know: frames are kept back while they may be copies.
    private var isDueBeforeNextTend: Bool {
        guard let deadline = buffer.deadline, let nextTend else { return false }
        return deadline < nextTend
    }

    /// Counts copies of a sensor's frames, as `doubled`: bluetoothd signals each frame once for every program that
    /// listens. The count is written with the next commit.
    public func note(copies count: Int, of sensor: Int64) {
        guard count > 0 else { return }
        buffer.note(copies: count, of: sensor)
    }

    /// Commits if the oldest buffered sample is old enough by the clock, or will be within `slack`; call
    /// at ``nextCommitDeadline`` or about once a second. Failures show in ``health()``. A store
    /// that some call found broken is set aside first.
    public func commitIfDue(within slack: Duration = .zero) {
        let uptime = clock.read().uptime
        noteSuspension()
        replaceIfDamaged()
        returnToStoreIfDue(uptime: uptime)
        carryOverIfMissing(uptime: uptime)
        keepSidecar()
        saveIfDue(uptime: uptime)
        if buffer.isDue(uptime: uptime + slack) {
            try? commitBuffer(uptime: uptime)
        } else {
            keepLedgersIfDue(uptime: uptime)
        }
        // Where nothing is recorded, no commit takes them along.
        if let since = deliveries.unwrittenSince,
            uptime - since >= settings.commitAgeMax - slack
        {
            try? write("settle samples") { _ in }
        }
    }

    /// Writes everything buffered, now: at a disconnect, before a batch, at shutdown.
    ///
    /// If it throws, all that could not be written still waits in memory.
    public func flush() throws(QueueError) {
        noteSuspension()
        guard !buffer.hasNothingToWrite else {
            if deliveries.hasUnwritten { try write("settle samples") { _ in } }
            return
        }
        try commitBuffer(uptime: clock.read().uptime)
    }

    /// The same for a delivery that is about to fetch, unless a commit is due within `moment` anyway: then does
    /// nothing.
    ///
    /// - Returns: when that commit is due; nil if nothing waits any more.
    public func flush(unlessWithin moment: Duration) throws(QueueError) -> Uptime? {
        if let deadline = buffer.deadline, moment > .zero {
            let uptime = clock.read().uptime
            if deadline > uptime, deadline - uptime <= moment { return deadline }
        }
        try flush()
        return nil
    }

    /// Has `handler` called after each commit of samples, on the store's thread; it must not wait for the store.
    /// Replaces an earlier one.
    public func onCommit(_ handler: (@Sendable () -> Void)?) {
        commitHandler = handler
    }

    /// When ``commitIfDue(within:)`` has something to do; nil while nothing waits.
    public var nextCommitDeadline: Uptime? { buffer.deadline }

    private func commitBuffer(uptime: Uptime) throws(QueueError) {
        do {
            repeat { try commitChunk(uptime: uptime) } while !buffer.isEmpty
        } catch {
            note(error, rowsOnly: true)
            commits.fault = error
            buffer.commitFailed(uptime: uptime)
            throw error
        }
        commits.fault = nil
        commitHandler?()
    }

    /// One transaction: the oldest buffered frames, their segments' counters, the gaps up to the last
    /// of them, and refusals to date.
    private func commitChunk(uptime: Uptime) throws(QueueError) {
        let chunk = buffer.chunk(Self.commitRowsMax)
        var bootClock = run.clock
        let facts = chunk.arrivals.compactMap { bootClock.note($0.reading) }
        let plan = Commit(run: run.id, segments, bootClock, at: uptime)
        // Where a frame is, all that came before it are.
        let latest = chunk.arrivals.last?.uptime
        let told = max(chunk.isLast ? known(at: uptime) : .zero, latest ?? .zero)
        var kept = ledgers
        let done = try write("commit samples") { [run, settings, bootClock] db -> Commit in
            FaultPoint.commitBegun.reach()
            var commit = plan
            var wearing = Wearing(db, boot: run.boot)
            try commit.insert(chunk.arrivals, settings, &wearing, db)
            FaultPoint.commitRows.reach()
            for (sensor, count) in chunk.refusals.sorted(by: { $0.key < $1.key }) {
                guard let owner = try wearing.assignment(of: sensor, at: uptime) else { continue }
                try commit.refuse(count, assignment: owner, .storeUnwritable, db)
            }
            for (sensor, count) in chunk.copies.sorted(by: { $0.key < $1.key }) {
                guard let owner = try wearing.assignment(of: sensor, at: uptime) else { continue }
                try commit.double(count, assignment: owner, db)
            }
            try commit.updateSegments(db)
            FaultPoint.commitBooks.reach()
            try bootClock.write(facts, boot: run.boot, source: "clock", db)
            try kept.commit(chunk, commit, &wearing, until: told, db, run)
            FaultPoint.commitGaps.reach()
            return commit
        }
        FaultPoint.committed.reach()
        segments.advance(done)
        ledgers = kept
        run.adopt(bootClock)
        deliveries.lent.drop(done.dropped)
        buffer.committed(chunk, unstored: done.unstored)
        commits.isFull = done.isFull
    }
}
