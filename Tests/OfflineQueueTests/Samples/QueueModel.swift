@testable import OfflineQueue

/// What the queue must do, said as simply as possible: one array in memory, searched from the start.
struct QueueModel {
    enum State: Hashable {
        case buffered, pending, requeued, delivered, dead
        case dropped(String)
        case undecodable
    }

    struct Frame {
        var id: Int64 = 0
        var assignment: Int64
        var boot: String
        var uptime: Int64
        var wall: Int64?
        /// Of its boot, once that is known; then it stays.
        var offset: Int64?
        var frame: [UInt8]
        var state: State
        var isDecodable: Bool
        var uuid: String?
        /// What became of it at further destinations.
        var further: [Int64: State] = [:]
        /// Pruning has passed its row; the row is gone.
        var isPassed = false
        var isDeleted = false

        var states: [State] { [state] + further.values }
        var isLetter: Bool { states.contains(.dead) || states.contains(.requeued) }
        var isDone: Bool { !isLetter && !states.contains(.pending) }
    }

    var frames: [Frame] = []
    /// Frames before this one are out of the buffer.
    private var committed = 0
    var nextID: Int64 = 1
    /// The highest number when something was erased.
    var erasedUntil: Int64 = 0
    /// The offsets of each boot that was trusted, and until when.
    private var offsets: [String: [(until: Int64, offset: Int64)]] = [:]
    /// Delivery by assignment; none is "not-enrolled".
    var deliveries: [Int64: Int64] = [:]
    var holds: [Int64: String] = [:]
    /// Further destinations by assignment: now, and ever.
    var further: [Int64: Set<Int64>] = [:]
    var everFurther: [Int64: Set<Int64>] = [:]

    mutating func append(_ frame: Frame) {
        frames.append(frame)
        let buffered = frames[committed...]
        if let oldest = buffered.first,
            buffered.count >= 50 || frame.uptime - oldest.uptime >= 4_500_000
        {
            commit()
        }
    }

    mutating func commit() {
        for index in committed..<frames.count {
            if let wall = frames[index].wall {
                note(
                    boot: frames[index].boot, uptime: frames[index].uptime,
                    offset: wall - frames[index].uptime)
            }
        }
        for index in committed..<frames.count {
            frames[index].offset = offset(of: frames[index])
            if frames[index].isDecodable {
                frames[index].id = nextID
                frames[index].state = .pending
                for destination in further[frames[index].assignment] ?? [] {
                    frames[index].further[destination] = .pending
                }
                nextID += 1
            } else {
                frames[index].state = .undecodable
            }
        }
        committed = frames.count
    }

    /// The clock of a boot was trusted.
    mutating func note(boot: String, uptime: Int64, offset: Int64) {
        guard var known = offsets[boot], let last = known.popLast() else {
            offsets[boot] = [(uptime, offset)]
            for index in frames.indices where frames[index].boot == boot && index < committed {
                frames[index].offset = offset
            }
            return
        }
        if abs(last.offset - offset) < 100_000 {
            known.append((max(last.until, uptime), last.offset))
        } else {
            known += [last, (uptime, offset)]
        }
        offsets[boot] = known
    }

    /// The newest that was trusted, but for what was before the last time of the one before.
    private func offset(of frame: Frame) -> Int64? {
        guard let known = offsets[frame.boot], var found = known.first else { return nil }
        for (before, next) in zip(known, known.dropFirst()) where before.until < frame.uptime {
            found = next
        }
        return found.offset
    }

    mutating func loseBuffer() { frames.removeSubrange(committed...) }

    mutating func erase(_ delivery: Int64) {
        commit()
        erasedUntil = max(frames.map(\.id).max() ?? 0, erasedUntil)
        frames.removeAll { deliveries[$0.assignment] == delivery }
        committed = frames.count
        for assignment in deliveries.filter({ $0.value == delivery }).keys {
            further[assignment] = nil
            everFurther[assignment] = nil
        }
        deliveries = deliveries.filter { $0.value != delivery }
        holds[delivery] = nil
        for assignment in Array(further.keys) { remove(delivery, from: assignment) }
        for index in frames.indices { frames[index].further[delivery] = nil }
        for assignment in Array(everFurther.keys) { everFurther[assignment]?.remove(delivery) }
    }

    // MARK: - Further destinations

    mutating func add(_ destination: Int64, to assignment: Int64, isKept: Bool) {
        commit()
        guard further[assignment, default: []].insert(destination).inserted else { return }
        everFurther[assignment, default: []].insert(destination)
        guard isKept else { return }
        for index in frames.indices
        where frames[index].assignment == assignment && frames[index].isDecodable
            && !frames[index].isPassed && !frames[index].isDeleted
            && frames[index].further[destination] == nil
        {
            frames[index].further[destination] = .pending
        }
    }

    mutating func remove(_ destination: Int64, from assignment: Int64) {
        commit()
        guard further[assignment]?.remove(destination) != nil else { return }
        for index in frames.indices where frames[index].assignment == assignment {
            switch frames[index].further[destination] {
            case .pending: frames[index].further[destination] = .dropped("destination-removed")
            case .requeued, .dead: giveUp(index, destination, "destination-removed")
            default: break
            }
        }
    }

    /// A further destination becomes the own one: of what it has it says what became of it.
    mutating func makeOwn(_ destination: Int64, of assignment: Int64) {
        for index in frames.indices where frames[index].assignment == assignment {
            if let state = frames[index].further.removeValue(forKey: destination) {
                frames[index].state = state
            }
        }
        further[assignment]?.remove(destination)
        everFurther[assignment]?.remove(destination)
    }

    /// What became of a frame at a destination.
    func state(_ index: Int, _ destination: Int64) -> State? {
        deliveries[frames[index].assignment] == destination
            ? frames[index].state : frames[index].further[destination]
    }

    mutating func set(_ index: Int, _ destination: Int64, _ state: State) {
        if deliveries[frames[index].assignment] == destination {
            frames[index].state = state
        } else {
            frames[index].further[destination] = state
        }
        if frames[index].isPassed, frames[index].isDone { frames[index].isDeleted = true }
    }

    mutating func giveUp(_ index: Int, _ destination: Int64, _ reason: String) {
        set(index, destination, .dropped(reason))
        if frames[index].isDone { frames[index].isDeleted = true }
    }

    /// What waits and has no destination of its own.
    var unbound: [Int] {
        frames.indices.filter {
            frames[$0].state == .pending && deliveries[frames[$0].assignment] == nil
        }
    }

    /// Gives up those of an assignment; gives how many.
    mutating func discard(_ assignment: Int64) -> Int {
        let given = unbound.filter { frames[$0].assignment == assignment }
        for index in given { frames[index].state = .dropped("discarded") }
        return given.count
    }

    /// The dead letters, oldest sample first.
    var letters: [(index: Int, destination: Int64)] {
        frames.indices.flatMap { index in
            let own = deliveries[frames[index].assignment] ?? 0
            return (frames[index].state == .dead ? [(index, own)] : [])
                + frames[index].further.sorted { $0.key < $1.key }
                .filter { $0.value == .dead }.map { (index, $0.key) }
        }
    }

    /// A run begins behind the last number that is remembered.
    mutating func begin() { nextID = max(frames.map(\.id).max() ?? 0, erasedUntil) + 1 }

    func time(_ frame: Frame) -> Int64? {
        frame.offset.map { frame.uptime + $0 }
    }

    /// Indexes of what the delivery is to send, in the order in which it must come.
    func batch(_ delivery: Int64, _ limit: Int) -> [Int] {
        let waiting = frames.indices.filter {
            state($0, delivery) != nil && time(frames[$0]) != nil
        }
        func isOwn(_ index: Int) -> Bool { deliveries[frames[index].assignment] == delivery }
        let requeued = waiting.filter { state($0, delivery) == .requeued }
            .sorted { frames[$0].id < frames[$1].id }
        let pending = waiting.filter { state($0, delivery) == .pending }
        return Array(
            (requeued.filter(isOwn) + requeued.filter { !isOwn($0) } + pending).prefix(limit))
    }

    mutating func prune(before horizon: Int64) {
        for index in frames.indices
        where !frames[index].isPassed && frames[index].isDecodable
            && frames[index].state != .buffered
        {
            // What was discarded without a known time is settled, and nothing says that it is young.
            guard !frames[index].states.contains(.pending), time(frames[index]) ?? .min < horizon
            else { continue }
            frames[index].isPassed = true
            if frames[index].isDone { frames[index].isDeleted = true }
        }
    }

    /// The books of a destination, without what says nothing of samples.
    func balance(of destination: Int64) -> Balance {
        var balance = Balance()
        for index in frames.indices {
            guard let state = state(index, destination) else { continue }
            add(state, of: frames[index], delivery: destination, to: &balance)
        }
        return balance
    }

    var balance: Balance {
        var balance = Balance()
        for frame in frames {
            guard frame.state != .buffered else {
                balance.buffered += 1
                continue
            }
            balance.received += 1
            if frame.isDecodable { balance.stored += 1 }
            add(frame.state, of: frame, delivery: deliveries[frame.assignment], to: &balance)
        }
        return balance
    }

    private func add(
        _ state: State, of frame: Frame, delivery: Int64?, to balance: inout Balance
    ) {
        switch state {
        case .buffered: break
        case .undecodable: balance.undecodable += 1
        case .delivered: balance.delivered += 1
        case .dead: balance.dead += 1
        case .dropped(let reason): balance.dropped[reason, default: 0] += 1
        case .pending, .requeued:
            if let reason = holdReason(frame, delivery) {
                balance.held[reason, default: 0] += 1
            } else {
                balance.pending += 1
            }
        }
    }

    private func holdReason(_ frame: Frame, _ delivery: Int64?) -> String? {
        guard let delivery else { return "not-enrolled" }
        return time(frame) == nil ? "clock-unknown" : holds[delivery]
    }
}
