import Basics
import Testbed

/// What goes wrong in a chaos run, and when; the same for the same seed.
struct ChaosScript {
    enum Kind: String, CaseIterable {
        /// The exchange's port refuses, and what was under way breaks.
        case networkCut
        /// The exchange answers in one of ``faults``.
        case exchangeFault
        /// The patient withdraws, and consents again.
        case consentWithdrawn
        /// 401 for the token, and the answer of the renewal may be lost.
        case tokenExpired, refreshLost
        /// `kill -9`, and the next start.
        case kill
        /// The same as a power cut of the whole machine: another boot, whose clock is wrong at first.
        case reboot
        /// The file system of the state directory has no room.
        case diskFull
        /// The clock moves by less than ``ChaosScript/stepMax`` and is still called right.
        case clockStep
        /// The clock is far off and not trusted.
        case clockWrong
        case strapAway, linkLost
        /// The last strap is given to the other patient.
        case handOver
        case bluetoothdRestart, busRestart
    }

    struct Trouble {
        var kind: Kind
        /// Seconds of the world.
        var begin: Double
        var end: Double
        /// Chooses whatever there is to choose.
        var choice: UInt64
    }

    /// How far a clock that is called right may be off, µs.
    static let stepMax = Duration.milliseconds(900)
    /// The first of it is for enrolling and pairing, the last for mending, in seconds.
    static let quiet = 120.0

    /// In order of their begin.
    let troubles: [Trouble]

    init(seed: UInt64, hours: Double) {
        var random = SeededRandom(seed: seed)
        var troubles: [Trouble] = []
        let length = hours * 3600 - 2 * Self.quiet
        for kind in Kind.allCases {
            let count = max(1, Int(Double(Self.perDay(kind)) * hours / 24))
            // One of a kind at a time: each has a slot of its own.
            let slot = length / Double(count)
            for index in 0..<count {
                let longest = min(Self.longestSeconds(kind), slot * 0.5)
                let lasting = Double.random(in: longest * 0.1...longest, using: &random)
                let begin =
                    Self.quiet + Double(index) * slot
                    + Double.random(in: 0...slot - lasting, using: &random)
                troubles.append(
                    Trouble(
                        kind: kind, begin: begin, end: begin + lasting,
                        choice: UInt64.random(in: 0 ... .max, using: &random)))
            }
        }
        self.troubles = troubles.sorted { $0.begin < $1.begin }
    }

    private static func perDay(_ kind: Kind) -> Int {
        switch kind {
        case .exchangeFault: 120
        case .kill, .clockStep: 48
        case .networkCut, .strapAway, .linkLost: 30
        case .tokenExpired, .handOver, .clockWrong: 12
        case .consentWithdrawn, .diskFull, .reboot: 8
        case .refreshLost, .bluetoothdRestart, .busRestart: 4
        }
    }

    private static func longestSeconds(_ kind: Kind) -> Double {
        switch kind {
        case .networkCut, .strapAway: 1200
        case .consentWithdrawn, .clockWrong: 900
        // The store's log, which has its length from the start, takes half an hour of samples on a full disk.
        case .diskFull: 3600
        case .reboot: 600
        case .exchangeFault: 300
        case .bluetoothdRestart, .busRestart: 60
        default: 1
        }
    }

    /// Ways for the exchange to go wrong. `count` is a small number from the seed.
    static func fault(choice: UInt64) -> (fault: ExchangeFault, isLasting: Bool) {
        let count = Int(choice >> 32 % 7)
        let faults: [(ExchangeFault, Bool)] = [
            (.status(500), true), (.status(502), false), (.status(503), true),
            (.status(429, retryAfterSeconds: 40), false), (.status(504), false), (.hangUp, true),
            (.slow(.seconds(15)), true), (.slowAnswer(.seconds(70)), false), (.silence, false),
            (.lostAnswer, false), (.cutAnswer, false), (.truncatedAnswer, false),
            (.notJSONAnswer, true), (.miscountedAnswer(by: 1), false),
            (.miscountedAnswer(by: -1), false), (.databaseDown, true),
            (.databaseLost(afterEntries: count), false),
            (.workerKilled(afterEntries: count), false),
            (.workerKilled(afterEntries: count, answers: false), false),
        ]
        return faults[Int(choice % UInt64(faults.count))]
    }
}
