/// The samples a delivery is busy with, by their positions, and what is left to do for them.
struct DeliveryBatch: Sendable {
    /// A destination's words when it did not take a sample, as a dead letter has it.
    struct Complaint: Sendable, Hashable {
        /// `refused-` and the status, or `refused-without-reason`.
        var reason = "refused-without-reason"
        /// The destination's own words, or what can be said of its answer.
        var text: String

        init(_ word: String) { text = word }

        init(_ answer: EntryAnswer) {
            reason = "refused-\(answer.status)"
            text = answer.diagnostics
        }
    }

    private struct Work {
        var indices: [Int]
        /// A bundle of exactly these is known to fail.
        var isKnownBad = false
        /// The half before these comes from the same failed bundle: if that one is fine, these are
        /// what fails.
        var isSecondHalf = false
    }

    private var work: [Work]
    private(set) var isHalving = false
    /// Failures of the batch as a whole, in a row.
    private(set) var failures = 0
    /// Failures of the halving since the destination last stored a sample.
    private(set) var failuresHalving = 0
    /// Samples that fail even alone, time and again, and what was said of them last.
    private(set) var suspects: [Int: Complaint] = [:]
    /// Suspects that are tried once more, when the others have gone through but for one.
    private var untried: Set<Int> = []
    /// The suspect that has its last attempt now.
    private var lastAttempt: Int?
    /// Whether a suspect has its last attempt now.
    var isLastAttempt: Bool { lastAttempt != nil }
    /// Samples that were not taken in an answer that took one behind them.
    private var witnessed: Set<Int> = []
    /// The sample that is failing alone now, and how often it has.
    private var failingAlone: (index: Int, failures: Int, silences: Int, complaint: Complaint)?
    /// Whether the destination has stored a sample since the last failure. That it has one from before
    /// proves nothing: it may be able to read and unable to write.
    private(set) var hasProof = false
    var wantsHealthCheck = false
    /// To be fetched anew, with what has come since.
    var isStale = false
    var throttled = 0

    init(_ indices: [Int]) {
        work = [Work(indices: indices)]
    }

    var isDone: Bool { work.isEmpty && untried.isEmpty }

    /// The next samples to send, in order; while halving, a last one goes alone.
    ///
    /// Before a suspect is given up it is tried once more, and behind it another sample: only if that one
    /// is stored was it not the destination that failed.
    mutating func take(atMost size: Int) -> (indices: [Int], alone: Bool)? {
        if let suspect = untried.min(), work.reduce(0, { $0 + $1.indices.count }) <= 1 {
            untried.remove(suspect)
            lastAttempt = suspect
            return ([suspect], true)
        }
        guard !work.isEmpty else { return nil }
        // A batch that is known to fail need not be tried again: it is taken apart first.
        while isHalving, work[0].isKnownBad, work[0].indices.count > 1 {
            split(work.removeFirst().indices)
        }
        let first = work.removeFirst()
        let isRest = work.isEmpty && !untried.isEmpty && first.indices.count > 1
        let size = isRest ? min(size, first.indices.count - 1) : size
        if first.indices.count > size {
            putBack(Array(first.indices[size...]))
        }
        let indices = Array(first.indices.prefix(size))
        return (indices, isHalving && indices.count == 1)
    }

    /// Puts samples back as they were taken.
    mutating func putBack(_ indices: [Int]) {
        if let suspect = lastAttempt, indices == [suspect] {
            lastAttempt = nil
            untried.insert(suspect)
            return
        }
        work.insert(Work(indices: indices), at: 0)
    }

    /// Leaves out what is not to be sent now.
    mutating func drop(_ isOut: (Int) -> Bool) {
        for position in work.indices { work[position].indices.removeAll(where: isOut) }
        work.removeAll { $0.indices.isEmpty }
        for index in suspects.keys.filter(isOut) { suspects[index] = nil }
        untried = untried.filter { !isOut($0) }
    }

    /// The destination has stored a sample now.
    mutating func stored() {
        hasProof = true
        failuresHalving = 0
    }

    /// These were not taken, and one behind them in the same request was.
    mutating func witness(_ indices: [Int]) { witnessed.formUnion(indices) }

    /// Every sample of a request was resolved; `isBad` if it was one alone, and refused.
    mutating func succeeded(_ indices: [Int], isBad: Bool) {
        guard isHalving else { return }
        if let suspect = lastAttempt {
            lastAttempt = nil
            if indices == [suspect] { return suspects[suspect] = nil }
        }
        if isBad {
            regroup()
        } else if !work.isEmpty, work[0].isSecondHalf {
            work[0].isKnownBad = true
        }
    }

    /// These samples failed together, or one of them alone. `isSilence`: no answer came at all.
    mutating func fail(
        _ indices: [Int], alone: Bool, _ complaint: Complaint, isSilence: Bool = false,
        _ settings: DeliverySettings
    ) {
        hasProof = false
        guard isHalving else {
            failures += 1
            putBack(indices)
            wantsHealthCheck = failures >= settings.failuresMax
            return
        }
        if let suspect = lastAttempt {
            lastAttempt = nil
            failuresHalving += 1
            suspects[suspect] = complaint
            // A lost answer is no verdict on a sample.
            if isSilence { untried.insert(suspect) }
            return
        }
        work.insert(Work(indices: indices, isKnownBad: true), at: 0)
        guard alone, let index = indices.first else {
            failuresHalving += 1
            return
        }
        // Once may be the network's doing: a lost answer is no verdict on a sample.
        if failingAlone?.index != index {
            failingAlone = (index, 0, 0, complaint)
            failuresHalving += 1
        }
        guard var failing = failingAlone else { return }
        failing.complaint = complaint
        if isSilence { failing.silences += 1 } else { failing.failures += 1 }
        failingAlone = failing
        wantsHealthCheck =
            failing.failures >= settings.failuresMax || failing.silences >= settings.silencesMax
    }

    /// All of several samples were refused one by one, and none for a reason of its own: it is the
    /// destination that fails, and taking the batch apart would tell nothing.
    mutating func failTogether(_ indices: [Int]) {
        hasProof = false
        failures += 1
        putBack(indices)
    }

    /// Everything else being well, the sample that fails alone is what is wrong.
    mutating func singleOut() {
        guard let failing = failingAlone, work.first?.indices == [failing.index] else { return }
        failingAlone = nil
        work.removeFirst()
        suspects[failing.index] = failing.complaint
        untried.insert(failing.index)
        regroup()
    }

    /// The suspects that may be given up, when the batch is done: the destination stored another sample
    /// right after their last attempt, or behind them in the same request.
    var convicted: [(index: Int, complaint: Complaint)] {
        suspects.filter { hasProof || witnessed.contains($0.key) }
            .sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    mutating func startHalving() {
        guard !isHalving else { return }
        isHalving = true
        wantsHealthCheck = false
        // The newest is kept for the end: it shows whether the destination stores anything
        // (``take(atMost:)``). One that failed before is among the oldest.
        if work.reduce(0, { $0 + $1.indices.count }) > 2, let last = work.indices.last,
            let kept = work[last].indices.popLast()
        {
            work.append(Work(indices: [kept]))
            work.removeAll { $0.indices.isEmpty }
        }
        if !work.isEmpty { work[0].isKnownBad = true }
    }

    private mutating func split(_ indices: [Int]) {
        let middle = (indices.count + 1) / 2
        work.insert(Work(indices: Array(indices[middle...]), isSecondHalf: true), at: 0)
        work.insert(Work(indices: Array(indices[..<middle])), at: 0)
    }

    /// A sample was singled out: the others are probably fine, so they go together again.
    private mutating func regroup() {
        let rest = work.flatMap(\.indices).sorted()
        work = rest.isEmpty ? [] : [Work(indices: rest)]
    }
}
