import Basics
import Testbed

/// What goes wrong in a day: every field problem that bluetoothd, its radio, its straps or the
/// machine can have, at random times from a seed.
struct DayScript {
    /// One thing that goes wrong, from begin to end, µs.
    struct Trouble {
        var kind: Kind
        /// The strap or the adapter, where it is about one.
        var subject: String?
        var begin: Int64
        var end: Int64
    }

    enum Kind: String, CaseIterable {
        /// `Connect` or `StartDiscovery` is "in progress" already.
        case busy
        /// Connects are aborted, some of them though they connected.
        case aborted
        case bluetoothdRestart
        case busRestart
        /// The strap leaves 150 s after each connect.
        case fixedAge
        /// Every frame twice.
        case doubled
        /// Connected, subscribed, and silent.
        case mute
        /// The adapter scans and hears nothing.
        case deaf
        /// `ServicesResolved` comes before the services.
        case resolvedEarly
        case emptyFrames
        case malformedFrames
        case connectedElsewhere
        /// The adapter is pulled out, and comes back as another index.
        case unplugged
        case linkLosses
        case noContact
        /// bluetoothd does not answer.
        case hung
        /// bluetoothd is stopped and goes on: what the straps sent meanwhile comes at once.
        case stopped
        case poweredOff
        case outOfRange
        /// Objects vanish without a word.
        case vanishing
        case wallClockWrong
        case gatewayOff
    }

    static let hour: Int64 = 3_600_000_000
    static let minute: Int64 = 60_000_000

    /// In order of their begin.
    let troubles: [Trouble]

    init(seed: UInt64, hours: Int64, straps: [String], adapters: [String]) {
        var random = SeededRandom(seed: seed)
        var troubles: [Trouble] = []
        // Each kind some times; what belongs to a strap, for several straps.
        for kind in Kind.allCases {
            let count = max(1, hours * Self.perDay(kind) / 24)
            for _ in 0..<count {
                // The first minutes are for the first connects.
                let begin = Int64.random(
                    in: 5 * Self.minute...hours * Self.hour - 20 * Self.minute, using: &random)
                let length = Int64.random(in: Self.length(of: kind), using: &random)
                let subject: String? =
                    switch kind {
                    case .deaf, .unplugged, .poweredOff: adapters.randomElement(using: &random)
                    case .busy, .aborted, .fixedAge, .doubled, .mute, .emptyFrames,
                        .malformedFrames, .connectedElsewhere, .linkLosses, .noContact, .outOfRange:
                        straps.randomElement(using: &random)
                    default: nil
                    }
                troubles.append(
                    Trouble(kind: kind, subject: subject, begin: begin, end: begin + length))
            }
        }
        self.troubles = troubles.sorted { $0.begin < $1.begin }
    }

    /// How often in a day.
    private static func perDay(_ kind: Kind) -> Int64 {
        switch kind {
        case .linkLosses, .outOfRange, .noContact: 24
        case .aborted, .busy, .mute, .connectedElsewhere: 12
        case .bluetoothdRestart, .malformedFrames, .emptyFrames, .doubled: 8
        default: 4
        }
    }

    private static func length(of kind: Kind) -> ClosedRange<Int64> {
        switch kind {
        case .bluetoothdRestart, .busRestart: 1_000_000...20_000_000
        case .hung: 5_000_000...60_000_000
        case .stopped: 20_000_000...150_000_000
        case .fixedAge: 12 * minute...15 * minute
        case .deaf: 5 * minute...10 * minute
        case .outOfRange, .connectedElsewhere: 30_000_000...30 * minute
        default: 10_000_000...5 * minute
        }
    }
}
