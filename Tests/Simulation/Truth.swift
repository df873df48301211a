/// Who wore which strap: by the order in which the commands were answered, and either way where that leaves it open.
struct Truth {
    private struct Change {
        /// nil: nobody.
        var patient: Int?
        var begin: Int64
        var end: Int64
        /// It may not have been made.
        var isSure: Bool
    }

    private struct Erasure {
        var patient: Int
        var until: Int64
    }

    /// µs from and until which frames may be lost, and of which strap; nil: of each.
    struct Loss {
        var from: Int64
        var until: Int64
        var strap: Int?
    }

    private var changes: [[Change]]
    private var erasures: [Erasure] = []
    var losses: [Loss] = []

    init(_ given: [GivenCommand], losses: [Loss]) {
        self.losses = losses
        changes = Array(
            repeating: [Change(patient: nil, begin: .min, end: .min + 1, isSure: true)],
            count: Script.straps)
        for one in given {
            let isSure: Bool
            switch one.outcome {
            case .done: isSure = true
            case .unknown, .open, .broken: isSure = false
            // A disk that fails at the last bytes of a commit cannot say whether they count when the store is opened
            // again.
            case .refused("input-output"), .refused("disk-full"): isSure = false
            case .refused:
                // What an erasure was stopped at is said in its words, and some of it is gone.
                if case .erase(let patient, _, true) = one.command {
                    erasures.append(Erasure(patient: patient, until: one.end ?? .max))
                }
                continue
            }
            let end = one.end ?? .max
            switch one.command {
            case .pair(let strap, let wearer):
                changes[strap].append(
                    Change(patient: wearer.patient, begin: one.begin, end: end, isSure: isSure))
            case .forget(let strap):
                changes[strap].append(
                    Change(patient: nil, begin: one.begin, end: end, isSure: isSure))
            // Without leave to give up what waits, only what has arrived may go.
            case .erase(let patient, _, true):
                erasures.append(Erasure(patient: patient, until: end))
            default: break
            }
        }
        for one in given { addPairedAgain(one) }
    }

    /// A strap that nobody wears and that is paired again without a name may get the only enrollment that there is. If
    /// there is none, its samples are those of whoever is named next.
    private mutating func addPairedAgain(_ one: GivenCommand) {
        guard case .pairAgain(let strap) = one.command else { return }
        let end = one.end ?? .max
        guard [one.begin, end].contains(where: { wearers(of: strap, at: $0).contains(nil) }) else {
            return
        }
        let all = 0..<Script.patients
        let patients: [Int]
        switch one.outcome {
        case .done where one.words == People.noEnrollment: patients = Array(all)
        case .done: patients = all.filter { People.enrollment($0) == one.words }
        case .refused("input-output"), .refused("disk-full"), .unknown, .open, .broken:
            patients = Array(all)
        case .refused: patients = []
        }
        changes[strap] += patients.map {
            Change(patient: $0, begin: one.begin, end: end, isSure: false)
        }
    }

    /// Whose a frame may be that was sent then; nil is nobody.
    func wearers(of strap: Int, at time: Int64) -> Set<Int?> {
        let all = changes[strap]
        var wearers: Set<Int?> = []
        for (index, change) in all.enumerated() where change.begin <= time {
            // Commands of one instant took place in their order.
            let isOver = all.enumerated().contains { other, later in
                later.isSure && later.end < time
                    && (later.begin > change.end || later.begin == change.end && other > index)
            }
            if !isOver { wearers.insert(change.patient) }
        }
        return wearers
    }

    /// Whether the strap was with one person, or nobody, all the time.
    func isSettled(_ strap: Int, from: Int64, until: Int64) -> Bool {
        wearers(of: strap, at: from).count == 1 && wearers(of: strap, at: until).count == 1
            && !changes[strap].contains { $0.begin <= until && $0.end >= from }
    }

    func mayBeErased(_ patient: Int, sentAt time: Int64) -> Bool {
        erasures.contains { $0.patient == patient && time <= $0.until }
    }

    func mayBeLost(_ strap: Int, at time: Int64) -> Bool {
        losses.contains {
            $0.from <= time && time <= $0.until && ($0.strap == nil || $0.strap == strap)
        }
    }
}
