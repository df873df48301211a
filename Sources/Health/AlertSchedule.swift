import Basics

/// The messages of one alert about health items, and their times. A value without I/O: each look tells it which items
/// hold; it gives one message at a time, which stays until it is said to be sent.
///
/// An item is said when it has lasted, and once more when it is over. Items that are due at about the same time share
/// a message, and so do all that come while messages are held back: an hour has few of them.
public struct AlertSchedule: Sendable, Equatable {
    /// How long an item must last before it is sent.
    public struct Patience: Sendable, Hashable {
        /// Of an item that costs data.
        public var errors: Duration
        /// Of one that will.
        public var warnings: Duration

        /// The standard: five minutes, and an hour.
        public init(errors: Duration = .seconds(300), warnings: Duration = .seconds(3_600)) {
            self.errors = errors
            self.warnings = warnings
        }

        func wait(_ name: HealthName) -> Duration {
            name.severity == .error ? errors : warnings
        }
    }

    /// An item that holds at a look.
    public struct Seen: Sendable, Hashable {
        /// The health item.
        public var name: HealthName
        /// The subject that tells it from others of its name.
        public var subject: String
        /// The strap that it is about.
        public var strap: Int64?
        /// Since when it has held, as far as this run of the daemon knows.
        public var began: Uptime

        /// An item with its beginning.
        public init(name: HealthName, subject: String, strap: Int64?, began: Uptime) {
            self.name = name
            self.subject = subject
            self.strap = strap
            self.began = began
        }
    }

    /// All that outlives a restart.
    public struct State: Sendable, Equatable, Codable {
        fileprivate var items: [Item] = []
        /// The message that waits until it is sent.
        public fileprivate(set) var outgoing: AlertNews?
        /// How often it could not be sent.
        public fileprivate(set) var failures = 0
        fileprivate var nextTry: Uptime?
        fileprivate var sent: [Uptime] = []
        fileprivate var number: Int64 = 0

        /// Nothing was said yet.
        public init() {}

        /// Moves all instants that lie before `end`.
        public mutating func shift(by time: Duration, before end: Uptime) {
            let move = { (instant: Uptime) in instant < end ? instant + time : instant }
            for index in items.indices { items[index].shift(move) }
            outgoing?.shift(move)
            nextTry = nextTry.map(move)
            sent = sent.map(move)
        }
    }

    /// One item, from its first moment until a day after somebody was told that it is over.
    fileprivate struct Item: Sendable, Equatable, Codable {
        let key: Key
        var strap: Int64?
        var began: Uptime
        /// The time at which the item ended; nil while it holds.
        var ended: Uptime?
        /// The time from which the end counts: until then the item may come back.
        var endsAt: Uptime?
        /// The time from which the item has lasted long enough for a message.
        var due: Uptime?
        /// The time of the last message about the item.
        var said: Uptime?
        /// The time of the message that it is over.
        var closed: Uptime?
        /// How often it came back within a day.
        var returns = 0

        init(_ seen: Seen) {
            key = Key(seen)
            strap = seen.strap
            began = seen.began
        }

        var name: HealthName { key.name }

        /// The items that have lasted, or were said, and have ended.
        func isOver(at now: Uptime) -> Bool {
            due != nil && closed == nil && (endsAt.map { $0 <= now } ?? false)
        }

        mutating func shift(_ move: (Uptime) -> Uptime) {
            began = move(began)
            ended = ended.map(move)
            endsAt = endsAt.map(move)
            due = due.map(move)
            said = said.map(move)
            closed = closed.map(move)
        }
    }

    /// An item by what tells it from others. Of its subject, which may be what a person called an enrollment, a file
    /// keeps nothing that can be read.
    fileprivate struct Key: Hashable, Sendable, Codable {
        let name: HealthName
        let mark: UInt64

        init(_ seen: Seen) { self.init(seen.name, seen.subject) }

        init(_ name: HealthName, _ subject: String) {
            self.name = name
            // FNV-1a: the same in every run.
            mark = subject.utf8.reduce(0xcbf2_9ce4_8422_2325) {
                ($0 ^ UInt64($1)) &* 0x100_0000_01b3
            }
        }
    }

    /// An item that is due so soon shares the message that is due now.
    static let together = Duration.seconds(60)
    /// An item that lasts is said once more.
    static let reminder = Duration.seconds(86_400)
    /// An item that is gone for less is not over.
    static let endWait = Duration.seconds(300)
    /// The same of one that comes back again and again: it doubles up to this.
    static let endWaitMax = Duration.seconds(6 * 3_600)
    /// An item that has not lasted yet, and is gone for less, has not ended.
    static let blink = Duration.seconds(60)
    /// Looks after a start that know nothing yet.
    static let startWindow = Duration.seconds(60)
    /// After a start the rules need a while to find an item again: a strap that comes and goes shows in a quarter
    /// of an hour.
    static let errorFoundAgain = Duration.seconds(20 * 60)
    /// A backlog that grows shows in an hour.
    static let warningFoundAgain = Duration.seconds(75 * 60)
    /// Messages in an hour; what else comes waits and shares the next one.
    static let messagesMax = 6
    static let messagesTime = Duration.seconds(3_600)
    /// Items that are followed: a message with more helps nobody.
    static let itemsMax = 128
    /// A message that is sent so much later than it was due says so.
    static let lateAfter = Duration.seconds(120)
    /// A message that waits so long is a health item itself.
    static let undeliveredAfter = Duration.seconds(300)
    private static let retries = Backoff(first: .seconds(30), longest: .seconds(900))
    /// The longest that a server may ask to wait.
    private static let retryAfterMax = Duration.seconds(3_600)

    /// How long items must last.
    public var patience: Patience
    /// The part that outlives a restart.
    public private(set) var state: State
    private var firstLook: Uptime?

    /// A schedule that goes on where an earlier run stopped.
    ///
    /// - Parameters:
    ///   - patience: how long items must last.
    ///   - state: what an earlier run left.
    public init(_ patience: Patience, state: State = State()) {
        self.patience = patience
        self.state = state
    }

    /// It has become known how long the machine was off before this run: all that was before lies so much further back.
    public mutating func backdate(by time: Duration, before start: Uptime) {
        state.shift(by: .zero - max(time, .zero), before: start)
    }

    // MARK: - Looking

    /// Takes over the items that hold at a look. Those in `unjudged` neither go on nor end.
    public mutating func look(
        _ present: [Seen], unjudged: Unjudged = Unjudged(), at now: Uptime
    ) {
        let isStart = now - (firstLook ?? now) < Self.startWindow
        firstLook = firstLook ?? now
        var holding: [Key: Seen] = [:]
        for seen in present where holding[Key(seen)] == nil { holding[Key(seen)] = seen }
        let unjudgedItems = Set(unjudged.items.map { Key($0.name, $0.subject) })
        for index in state.items.indices {
            let key = state.items[index].key
            if let seen = holding.removeValue(forKey: key) {
                goOn(index, seen)
            } else if state.items[index].due != nil,
                unjudged.names.contains(key.name) || unjudgedItems.contains(key)
            {
                pause(index, at: now)
            } else {
                stop(index, at: now, isStart: isStart)
            }
        }
        // In the order in which a person handles them.
        var full: Set<HealthName> = []
        for seen in present where holding.removeValue(forKey: Key(seen)) != nil {
            // Of thousands, the others of its name find no room either.
            guard !full.contains(seen.name) else { continue }
            if makeRoom(for: seen.name) {
                state.items.append(Item(seen))
            } else {
                full.insert(seen.name)
            }
        }
        for index in state.items.indices where state.items[index].isWaiting {
            let wait = patience.wait(state.items[index].name)
            if now - state.items[index].began >= wait { state.items[index].due = now }
        }
        state.items.removeAll { item in
            if let closed = item.closed { return now - closed >= Self.reminder }
            // It never lasted.
            return item.due == nil && (item.endsAt.map { $0 <= now } ?? false)
                && item.returns == 0
        }
    }

    /// Makes room for an item of this name, and returns whether there is any. An item that is over for good goes first.
    /// If there is none, the most frequent name gives one up to a rarer name.
    private mutating func makeRoom(for name: HealthName) -> Bool {
        guard state.items.count >= Self.itemsMax else { return true }
        let over = state.items.indices.filter { state.items[$0].closed != nil }
        let oldest = over.min {
            state.items[$0].closed ?? .zero < state.items[$1].closed ?? .zero
        }
        if let oldest {
            state.items.remove(at: oldest)
            return true
        }
        let groups = Dictionary(grouping: state.items.indices) { state.items[$0].name }
        // One more makes them equal at most: no item comes and goes with each look.
        guard let most = groups.values.max(by: { ($0.count, $0[0]) < ($1.count, $1[0]) }),
            most.count > groups[name, default: []].count + 1,
            // Of one that was sent, its end is expected.
            let least = most.last(where: { state.items[$0].said == nil }) ?? most.last
        else { return false }
        state.items.remove(at: least)
        return true
    }

    private mutating func goOn(_ index: Int, _ seen: Seen) {
        if state.items[index].closed != nil {
            let returns = state.items[index].returns + 1
            state.items[index] = Item(seen)
            state.items[index].returns = returns
        } else {
            state.items[index].ended = nil
            state.items[index].endsAt = nil
            state.items[index].strap = seen.strap
        }
    }

    /// Nobody looked for the item: what counts as its end begins when somebody does.
    private mutating func pause(_ index: Int, at now: Uptime) {
        let item = state.items[index]
        guard item.closed == nil, !item.isOver(at: now) else { return }
        state.items[index].ended = nil
        state.items[index].endsAt = nil
    }

    private mutating func stop(_ index: Int, at now: Uptime, isStart: Bool) {
        let item = state.items[index]
        guard item.closed == nil else { return }
        if item.ended == nil {
            state.items[index].ended = now
            state.items[index].endsAt = now + endWait(of: item, isStart: isStart)
        } else if item.due == nil, item.returns > 0, item.endsAt.map({ $0 <= now }) ?? false {
            // It came back for a moment: as if it had not, but for the count.
            state.items[index].closed = now
        }
    }

    private func endWait(of item: Item, isStart: Bool) -> Duration {
        let wait =
            item.due == nil
            ? Self.blink
            : Backoff(first: Self.endWait, longest: Self.endWaitMax).pause(after: item.returns + 1)
        guard isStart else { return wait }
        return max(
            wait, item.name.severity == .error ? Self.errorFoundAgain : Self.warningFoundAgain)
    }

    // MARK: - Saying

    /// The message to send now, if there is one. The same one comes again until ``sent(at:)``.
    public mutating func next(at now: Uptime) -> AlertNews? {
        if state.outgoing == nil { compose(at: now) }
        if let nextTry = state.nextTry, nextTry > now { return nil }
        return state.outgoing
    }

    private mutating func compose(at now: Uptime) {
        state.sent.removeAll { now - $0 >= Self.messagesTime }
        let isReminderDue = state.items.contains { $0.wantsReminder(at: now) }
        let isDue = state.items.contains { $0.isNew(at: now) || $0.isOver(at: now) }
        guard isReminderDue || isDue, state.sent.count < Self.messagesMax else { return }
        let soon = now + Self.together
        var news = AlertNews(number: state.number + 1, due: now)
        for index in state.items.indices {
            if state.items[index].isWaiting {
                let wait = patience.wait(state.items[index].name)
                if soon - state.items[index].began >= wait { state.items[index].due = now }
            }
            let item = state.items[index]
            if item.isOver(at: soon) {
                news.over.append(AlertNews.Line(item))
                state.items[index].closed = now
            } else if item.isNew(at: now) {
                news.raised.append(AlertNews.Line(item))
                state.items[index].said = now
            } else if isReminderDue, item.said != nil, item.ended == nil, item.closed == nil {
                news.still.append(AlertNews.Line(item))
                state.items[index].said = now
            }
        }
        state.number += 1
        state.outgoing = news
    }

    /// The message is with its receiver.
    public mutating func sent(at now: Uptime) {
        state.outgoing = nil
        state.failures = 0
        state.nextTry = nil
        state.sent.append(now)
    }

    /// The message could not be sent.
    ///
    /// - Parameters:
    ///   - now: when it failed.
    ///   - retryAfter: how long the receiver asks to wait.
    public mutating func failed(at now: Uptime, retryAfter: Duration? = nil) {
        state.failures = min(state.failures + 1, 1_000)
        let asked = min(max(retryAfter ?? .zero, .zero), Self.retryAfterMax)
        state.nextTry = now + max(Self.retries.pause(after: state.failures), asked)
    }

    /// The part that a file keeps. A new item is not worth a write: a strap may come and go all day.
    public func kept(at now: Uptime) -> State {
        var kept = state
        kept.items.removeAll { item in
            item.due == nil && item.closed == nil && item.returns == 0
                && now - item.began < Self.blink
        }
        return kept
    }

    /// How long a message has waited that could not be sent; nil while there is none that should have arrived.
    public func undeliveredTime(at now: Uptime) -> Duration? {
        guard let outgoing = state.outgoing, state.failures > 0 else { return nil }
        let time = now - outgoing.due
        return time >= Self.undeliveredAfter ? time : nil
    }
}

extension AlertSchedule.Item {
    /// It holds, and has not lasted yet.
    fileprivate var isWaiting: Bool { due == nil && ended == nil && closed == nil }

    /// It has lasted, and nobody was told; one that has ended for good meanwhile is told as over.
    fileprivate func isNew(at now: Uptime) -> Bool {
        due != nil && said == nil && closed == nil && !isOver(at: now)
    }

    fileprivate func wantsReminder(at now: Uptime) -> Bool {
        guard let said, closed == nil, ended == nil else { return false }
        return now - said >= AlertSchedule.reminder
    }
}

/// The content of one message: items by name, and nothing that was measured.
public struct AlertNews: Sendable, Hashable, Codable {
    /// One item.
    public struct Line: Sendable, Hashable, Codable {
        /// The health item.
        public var name: HealthName
        /// The strap that it is about.
        public var strap: Int64?
        /// Since when it holds or held.
        public var since: Uptime
        /// Until when it held.
        public var until: Uptime?

        fileprivate init(_ item: AlertSchedule.Item) {
            name = item.name
            strap = item.strap
            since = item.began
            until = item.ended
        }
    }

    /// The number of the message, from 1 on.
    public var number: Int64
    /// The time at which the message was due.
    public var due: Uptime
    /// Items that have lasted.
    public var raised: [Line] = []
    /// Items that are over.
    public var over: [Line] = []
    /// Items that were said before and still last.
    public var still: [Line] = []

    /// A message about nothing yet.
    public init(number: Int64, due: Uptime) {
        self.number = number
        self.due = due
    }

    /// How late it is, if that is worth a word.
    public func lateTime(at now: Uptime) -> Duration? {
        now - due >= AlertSchedule.lateAfter ? now - due : nil
    }

    fileprivate mutating func shift(_ move: (Uptime) -> Uptime) {
        due = move(due)
        for path in [\AlertNews.raised, \.over, \.still] {
            for index in self[keyPath: path].indices {
                let line = self[keyPath: path][index]
                self[keyPath: path][index].since = move(line.since)
                self[keyPath: path][index].until = line.until.map(move)
            }
        }
    }
}
