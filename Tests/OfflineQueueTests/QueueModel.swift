import OfflineQueue

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
        var frame: [UInt8]
        var state: State
        var isDecodable: Bool
        var uuid: String?
        var isPruned = false
    }

    var frames: [Frame] = []
    /// Frames before this one are out of the buffer.
    private var committed = 0
    var nextID: Int64 = 1
    var offsets: [String: Int64] = [:]
    /// Delivery by assignment; none is "not-enrolled".
    var deliveries: [Int64: Int64] = [:]
    var holds: [Int64: String] = [:]

    mutating func append(_ frame: Frame) {
        frames.append(frame)
        let buffered = frames[committed...]
        if let oldest = buffered.first,
            buffered.count >= 50 || frame.uptime - oldest.uptime >= 5_000_000
        {
            commit()
        }
    }

    mutating func commit() {
        for index in committed..<frames.count {
            if let wall = frames[index].wall, offsets[frames[index].boot] == nil {
                offsets[frames[index].boot] = wall - frames[index].uptime
            }
            if frames[index].isDecodable {
                frames[index].id = nextID
                frames[index].state = .pending
                nextID += 1
            } else {
                frames[index].state = .undecodable
            }
        }
        committed = frames.count
    }

    mutating func loseBuffer() { frames.removeSubrange(committed...) }

    mutating func erase(_ delivery: Int64) {
        commit()
        frames.removeAll { deliveries[$0.assignment] == delivery }
        committed = frames.count
        deliveries = deliveries.filter { $0.value != delivery }
        holds[delivery] = nil
    }

    /// A run begins behind the last number that is remembered.
    mutating func begin() { nextID = (frames.map(\.id).max() ?? 0) + 1 }

    func time(_ frame: Frame) -> Int64? {
        frame.wall ?? offsets[frame.boot].map { frame.uptime + $0 }
    }

    /// Indexes of what the delivery is to send, in the order in which it must come.
    func batch(_ delivery: Int64, _ limit: Int) -> [Int] {
        let waiting = frames.indices.filter {
            deliveries[frames[$0].assignment] == delivery && time(frames[$0]) != nil
        }
        let requeued = waiting.filter { frames[$0].state == .requeued }
            .sorted { frames[$0].id < frames[$1].id }
        return Array(
            (requeued + waiting.filter { frames[$0].state == .pending }).prefix(limit))
    }

    mutating func prune(before horizon: Int64) {
        for index in frames.indices where !frames[index].isPruned {
            switch frames[index].state {
            case .delivered, .dropped:
                if let time = time(frames[index]), time < horizon { frames[index].isPruned = true }
            default: break
            }
        }
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
            switch frame.state {
            case .buffered: break
            case .undecodable: balance.undecodable += 1
            case .delivered: balance.delivered += 1
            case .dead: balance.dead += 1
            case .dropped(let reason): balance.dropped[reason, default: 0] += 1
            case .pending, .requeued:
                if let reason = holdReason(frame) {
                    balance.held[reason, default: 0] += 1
                } else {
                    balance.pending += 1
                }
            }
        }
        return balance
    }

    private func holdReason(_ frame: Frame) -> String? {
        guard let delivery = deliveries[frame.assignment] else { return "not-enrolled" }
        return time(frame) == nil ? "clock-unknown" : holds[delivery]
    }
}
