import GATTHeartRate

/// What was stored of worlds: what is wrong with it, and how uncertain the times are.
struct FrameTally {
    /// How a frame came.
    enum Kind: String, CaseIterable {
        case live = "one by one"
        case batch = "in batches"
        case shortHang = "after a hang below 93 s"
        case longHang = "after a longer hang"
        case copied = "while others listened"
    }

    /// What is not known of a frame whose time is less certain than half a second and a cadence.
    enum Lost: String, CaseIterable {
        case rhythm = "the rhythm: the first frames of a strap"
        case frames = "frames of a hang"
        case after = "the rhythm: just after a hang"
        case batch = "how much of a batch a hang has cut off"
        case copies = "which frames are copies"
        case same = "which are, of a strap whose frames are always the same"
        case afterDoubt = "the rhythm: just after frames that may be copies"
        case jitter = "the beat of a strap that has none"
        case other = "something else"
    }

    private(set) var faults: [String] = []
    /// Worlds in which something was wrong.
    private(set) var broken = 0
    /// The uncertainty in seconds, and in cadences, or in quarters of a second where the cadence is shorter.
    private(set) var seconds: [Kind: [Double]] = [:]
    private(set) var cadences: [Kind: [Double]] = [:]
    private(set) var marked: [Kind: Int] = [:]
    private(set) var lost: [Lost: [Double]] = [:]

    init(_ worlds: some Sequence<FrameWorld>) {
        for world in worlds {
            var world = world
            world.run()
            let (faults, pairs) = world.judge(world.stored())
            self.faults += faults.map { "\(world): \($0)" }
            if !faults.isEmpty { broken += 1 }
            var doubted = Int64.min
            for pair in pairs {
                if pair.stored.mayBeCopy { doubted = pair.arrival }
                add(pair, world, doubted)
            }
        }
    }

    /// `doubted` is when the last frame arrived that may be a copy.
    private mutating func add(_ pair: FrameWorld.Pair, _ world: FrameWorld, _ doubted: Int64) {
        let uncertainty = Double(pair.stored.uncertaintyMicroseconds)
        let cadence = max(world.cadence, FrameIntake.wayMicrosecondsMax)
        let hang = world.hangs.first { pair.sent.at < $0.end && $0.end <= pair.arrival }
        var kinds = [
            hang.map { $0.end - $0.begin < 93 * FrameWorld.second ? Kind.shortHang : .longHang }
                ?? (world.batch > 1 ? .batch : .live)
        ]
        if world.listeners.last(where: { $0.since <= pair.arrival })?.count ?? 1 > 1 {
            kinds.append(.copied)
        }
        for kind in kinds {
            seconds[kind, default: []].append(uncertainty / 1e6)
            cadences[kind, default: []].append(uncertainty / Double(cadence))
            if pair.stored.mayBeCopy { marked[kind, default: 0] += 1 }
        }
        guard uncertainty > Double(max(world.cadence, 500_000)) else { return }
        lost[cause(of: pair, world, hang, doubted), default: []].append(uncertainty / 1e6)
    }

    private func cause(
        of pair: FrameWorld.Pair, _ world: FrameWorld, _ hang: FrameWorld.Hang?, _ doubted: Int64
    ) -> Lost {
        let several = Int64(world.batch) * world.cadence
        if pair.stored.mayBeCopy { return world.content == .steady ? .same : .copies }
        if pair.arrival < world.linkedAt + max(5 * several, 8 * FrameWorld.second) {
            return .rhythm
        }
        if let hang {
            if case .all = hang.kept {
                return world.batch > 1 ? .batch : world.isRegular ? .other : .jitter
            }
            return .frames
        }
        if world.hangs.contains(where: {
            (0...max(4 * several, 4 * FrameWorld.second)).contains(pair.arrival - $0.end)
        }) {
            return .after
        }
        if doubted > pair.arrival - max(8 * several, 8 * FrameWorld.second) { return .afterDoubt }
        return world.isRegular ? .other : .jitter
    }

    static func quantile(_ part: Double, of values: [Double]?) -> Double {
        guard let values, !values.isEmpty else { return 0 }
        return values.sorted()[Int(part * Double(values.count - 1))]
    }

    /// The figures as two tables.
    var table: String {
        func text(_ number: Double) -> String { "\((number * 100).rounded() / 100)" }
        var lines = [
            "| frames | number | median, s | p99, s | most, s | median, cadences | marked |"
        ]
        lines.append("|---|---|---|---|---|---|---|")
        for kind in Kind.allCases {
            let (all, marked) = (seconds[kind] ?? [], marked[kind] ?? 0)
            let figures = [0.5, 0.99, 1].map { text(Self.quantile($0, of: all)) }
            let share = text(100 * Double(marked) / Double(max(1, all.count)))
            lines.append(
                "| \(kind.rawValue) | \(all.count) | \(figures.joined(separator: " | ")) | "
                    + "\(text(Self.quantile(0.5, of: cadences[kind]))) | \(share) % |")
        }
        lines += ["", "| not known | frames | median, s | most, s |", "|---|---|---|---|"]
        for one in Lost.allCases {
            let figures = [0.5, 1].map { text(Self.quantile($0, of: lost[one])) }
            lines.append(
                "| \(one.rawValue) | \(lost[one]?.count ?? 0) | \(figures.joined(separator: " | ")) |"
            )
        }
        return lines.joined(separator: "\n")
    }
}
