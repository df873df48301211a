import Basics

/// What people do and what goes wrong in one world, and when: all of it from a seed.
struct Script {
    /// One thing that happens, with what it needs to be the same in a shortened script.
    struct Event {
        /// µs since the world began.
        var at: Int64
        var seed: UInt64
        var what: What
    }

    enum What {
        case command(Command)
        case fault(Fault)
    }

    static let straps = 3
    static let patients = 4
    private static let second: Int64 = 1_000_000

    let seed: UInt64
    var events: [Event]
    /// When all causes are removed, µs.
    let calmAt: Int64

    init(seed: UInt64) {
        self.seed = seed
        var random = SeededRandom(seed: seed)
        // Some things are said only of what has lasted for minutes.
        let isLong = Int.random(in: 0..<10, using: &random) == 0
        let length = Int64.random(in: isLong ? 500...900 : 120...420, using: &random) * Self.second
        calmAt = length
        var events: [Event] = []
        func add(_ at: Int64, _ what: What, _ random: inout SeededRandom) {
            events.append(
                Event(at: at, seed: UInt64.random(in: 0 ... .max, using: &random), what: what))
        }
        // Some worlds begin without an enrollment, and some with those that there will be.
        if Int.random(in: 0..<4, using: &random) > 0 {
            for patient in 0..<Self.patients where Int.random(in: 0..<5, using: &random) > 0 {
                add(1_000_000, .command(.enroll(patient: patient)), &random)
            }
            if Int.random(in: 0..<4, using: &random) > 0 {
                add(1_500_000, .command(.enrollKey), &random)
            }
        }
        for strap in 0..<Self.straps where Int.random(in: 0..<4, using: &random) > 0 {
            add(
                5_000_000 + Int64.random(in: 0..<4_000_000, using: &random),
                .command(.pair(strap: strap, Command.wearer(&random))), &random)
        }
        if isLong { Self.addLasting(&random, add) }
        // How dense it is, and how much goes wrong.
        let isSparse = isLong || Int.random(in: 0..<5, using: &random) == 0
        let pause = Int64.random(in: isSparse ? 30...90 : 2...15, using: &random)
        let faultsIn100 = [0, 20, 40, 60].randomElement(using: &random) ?? 0
        let kindsOfFault = Fault.Kind.allCases.filter { _ in
            Int.random(in: 0..<3, using: &random) > 0
        }
        var at: Int64 = 10 * Self.second
        while at < length {
            at += Int64.random(in: 100_000...2 * pause * Self.second, using: &random)
            if !kindsOfFault.isEmpty, Int.random(in: 0..<100, using: &random) < faultsIn100 {
                let isKill =
                    kindsOfFault.contains(.kill) && Int.random(in: 0..<3, using: &random) == 0
                let kind = isKill ? .kill : kindsOfFault.randomElement(using: &random) ?? .linkLost
                var fault = Fault(kind, &random)
                fault.turn = Int(seed % 1_000_000) * 7 + events.count
                add(at, .fault(fault), &random)
                // The frames that bluetoothd still has are those of whoever wore the strap before.
                if kind == .hung, Bool.random(using: &random) {
                    let command: Command =
                        Bool.random(using: &random)
                        ? .forget(strap: fault.strap)
                        : .pair(strap: fault.strap, Command.wearer(&random))
                    add(
                        at + .random(in: 0..<fault.length, using: &random), .command(command),
                        &random)
                }
                // A slow exchange goes on with a request whose connection is cut.
                if kind == .exchangeSlow, Bool.random(using: &random) {
                    let cut = at + .random(in: 0..<fault.length, using: &random)
                    add(cut, .fault(Fault(.connectionsReset, &random)), &random)
                    add(
                        cut + .random(in: 0..<8 * Self.second, using: &random),
                        .command(.pairAgain(strap: fault.strap)), &random)
                }
            }
            if Int.random(in: 0..<8, using: &random) == 0 {
                // Close enough for the steps of one to fall between those of the other.
                for command in Command.conflict(&random) {
                    let offset = Int64.random(in: 0...100_000, using: &random)
                    add(at + offset, .command(command), &random)
                }
            }
            // One to three people at once.
            let people = [1, 1, 1, 2, 2, 3].randomElement(using: &random) ?? 1
            let subject = Int.random(in: 0..<Self.straps, using: &random)
            for _ in 0..<people {
                let offset = Int64.random(in: 0...1_500_000, using: &random)
                let isAboutOne = Bool.random(using: &random)
                add(
                    at + offset,
                    .command(Command(about: isAboutOne ? subject : nil, &random)), &random)
            }
        }
        self.events = events.filter { $0.at < length }.sorted { $0.at < $1.at }
    }

    /// Adds a strap that is worn, and what lasts until somebody must be told.
    private static func addLasting(
        _ random: inout SeededRandom, _ add: (Int64, What, inout SeededRandom) -> Void
    ) {
        let strap = Int.random(in: 0..<Self.straps, using: &random)
        add(1_000_000, .command(.enroll(patient: strap)), &random)
        add(6_000_000, .command(.pair(strap: strap, .invited(strap))), &random)
        let kinds: [Fault.Kind] = [.comesAndGoes, .offTheSkin, .outOfRange]
        let kind = kinds.randomElement(using: &random) ?? .offTheSkin
        // A deaf adapter is noticed where no strap sends.
        for other in 0..<Self.straps where other == strap || kind == .outOfRange {
            var fault = Fault(kind, &random)
            fault.strap = other
            fault.length = 450 * Self.second
            add(30_000_000, .fault(fault), &random)
        }
        if kind == .outOfRange { add(31_000_000, .fault(Fault(.adapterDeaf, &random)), &random) }
    }
}

/// Who is to wear a strap, and by which enrollment.
enum Wearer: Hashable {
    /// By the patient's own enrollment.
    case invited(Int)
    /// By the practitioner's.
    case ofWard(Int)
    /// Without one, of a patient whose samples a person gives to an enrollment later.
    case unenrolled(Int)

    var patient: Int {
        switch self {
        case .invited(let patient), .ofWard(let patient), .unenrolled(let patient): patient
        }
    }
}

/// What a person does at the command line.
enum Command: Hashable {
    case enroll(patient: Int)
    case enrollKey
    case pair(strap: Int, Wearer)
    /// Again, and naming nothing, as `status` advises for a lost bond: a strap stays with whoever wears it. One that
    /// nobody wears is recorded for nobody.
    case pairAgain(strap: Int)
    case forget(strap: Int)
    /// A patient's own enrollment, or a patient of the practitioner's.
    case erase(patient: Int, ofWard: Bool, givesUp: Bool)
    /// Samples without an enrollment, to their patient's, or to the further destination.
    case assign(further: Bool)
    case addDestination(everyStrap: Bool, kept: Bool)
    case addStraps(strap: Int, kept: Bool)
    case removeStraps(strap: Int)
    case pause
    case resume
    case removeDestination(givesUp: Bool)
    case status
    case straps
    case queue
    case redeliver(patient: Int)
    case purge

    /// How often each is chosen.
    private static let weights: [(Int, @Sendable (Int, inout SeededRandom) -> Command)] = [
        (30, { .pair(strap: $0, wearer(&$1)) }),
        (8, { strap, _ in .pairAgain(strap: strap) }),
        (10, { strap, _ in .forget(strap: strap) }),
        (12, { _, random in .enroll(patient: .random(in: 0..<Script.patients, using: &random)) }),
        (3, { _, _ in .enrollKey }),
        (
            5,
            { _, random in
                .erase(
                    patient: .random(in: 0..<Script.patients, using: &random),
                    ofWard: .random(using: &random), givesUp: .random(using: &random))
            }
        ),
        (8, { _, random in .assign(further: .random(in: 0..<3, using: &random) == 0) }),
        (
            4,
            { _, random in
                .addDestination(everyStrap: .random(using: &random), kept: .random(using: &random))
            }
        ),
        (4, { .addStraps(strap: $0, kept: .random(using: &$1)) }),
        (3, { strap, _ in .removeStraps(strap: strap) }),
        (2, { _, _ in .pause }),
        (3, { _, _ in .resume }),
        (3, { _, random in .removeDestination(givesUp: .random(using: &random)) }),
        (3, { _, _ in .status }),
        (1, { _, _ in .straps }),
        (1, { _, _ in .queue }),
        (2, { _, random in .redeliver(patient: .random(in: 0..<Script.patients, using: &random)) }),
        (1, { _, _ in .purge }),
    ]

    static func wearer(_ random: inout SeededRandom) -> Wearer {
        let patient = Int.random(in: 0..<Script.patients, using: &random)
        return switch Int.random(in: 0..<5, using: &random) {
        case 0: .unenrolled(patient)
        case 1, 2: .ofWard(patient)
        default: .invited(patient)
        }
    }

    /// Two that cannot both be done, or whose order matters.
    static func conflict(_ random: inout SeededRandom) -> [Command] {
        let strap = Int.random(in: 0..<Script.straps, using: &random)
        let patient = Int.random(in: 0..<Script.patients, using: &random)
        let givesUp = Bool.random(using: &random)
        let erase = Command.erase(
            patient: patient, ofWard: .random(using: &random), givesUp: givesUp)
        let remove = Command.removeDestination(givesUp: givesUp)
        let pair = Command.pair(strap: strap, wearer(&random))
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1, 2: return [.assign(further: true), remove]
        case 3: return [.assign(further: false), .assign(further: true)]
        case 4: return [.assign(further: false), erase]
        case 5: return [pair, .pair(strap: strap, wearer(&random))]
        case 6: return [pair, .forget(strap: strap)]
        case 7: return [.pair(strap: strap, .invited(patient)), erase]
        case 8: return [.enroll(patient: patient), erase]
        default: return [.addStraps(strap: strap, kept: .random(using: &random)), remove]
        }
    }

    init(about strap: Int?, _ random: inout SeededRandom) {
        let strap = strap ?? .random(in: 0..<Script.straps, using: &random)
        var left = Int.random(in: 0..<Self.weights.reduce(0) { $0 + $1.0 }, using: &random)
        for (weight, make) in Self.weights {
            left -= weight
            if left < 0 {
                self = make(strap, &random)
                return
            }
        }
        self = .status
    }

    /// For the counts of what was reached.
    var kind: String { "\(self)".prefix { $0 != "(" }.description }

    static let kinds: Set<String> = {
        var random = SeededRandom(seed: 0)
        return Set(weights.map { $1(0, &random).kind })
    }()
}

/// What goes wrong.
struct Fault: Hashable {
    enum Kind: String, CaseIterable {
        case kill, restart
        case linkLost, outOfRange, comesAndGoes, leaves, mute, takenByPhone, batteryLow
        case connectRefused, bondForgotten, otherAddress, offTheSkin, doubled
        case bluetoothdRestart, bluetoothdRefuses, hung, busGone
        case adapterOff, adapterUnplugged, adapterDeaf
        case networkCut, connectionsReset
        case exchangeFault, exchangeAnswerLost, exchangeSlow
        case consentWithdrawn, patientMoved, tokensRevoked, sampleRefused
        case diskFull, diskErrors, diskReadOnly
        case clockStep, reboot
    }

    var kind: Kind
    var strap: Int
    /// µs.
    var length: Int64
    /// For what the kind makes of it.
    var choice: Int
    /// For what takes its turn, from fault to fault and from world to world.
    var turn = 0

    init(_ kind: Kind, _ random: inout SeededRandom) {
        self.kind = kind
        strap = .random(in: 0..<Script.straps, using: &random)
        let isLong = Int.random(in: 0..<6, using: &random) == 0
        let seconds: ClosedRange<Int64> =
            switch kind {
            case .kill, .restart, .reboot: 1...15
            case .linkLost, .connectionsReset, .clockStep, .adapterDeaf, .bondForgotten,
                .tokensRevoked, .sampleRefused:
                1...1
            // Most pass before anybody is told; some last until somebody must be.
            case .outOfRange, .mute, .takenByPhone, .batteryLow: isLong ? 160...400 : 5...60
            case .adapterOff, .adapterUnplugged: isLong ? 90...160 : 2...40
            case .connectRefused, .otherAddress: isLong ? 160...300 : 5...60
            case .offTheSkin: isLong ? 330...420 : 5...60
            case .comesAndGoes: 300...500
            case .leaves: 60...120
            case .doubled, .bluetoothdRefuses: 20...90
            case .bluetoothdRestart, .busGone: 1...10
            case .hung: 3...40
            case .networkCut, .exchangeFault, .consentWithdrawn, .patientMoved:
                isLong ? 340...420 : 2...60
            case .exchangeAnswerLost, .exchangeSlow: 2...60
            case .diskFull, .diskErrors, .diskReadOnly: 2...40
            }
        length = .random(
            in: seconds.lowerBound * 1_000_000...seconds.upperBound * 1_000_000, using: &random)
        choice = .random(in: 0..<1_000_000, using: &random)
    }
}
