/// The samples a lane is busy with, by their positions, and what is left to do for them.
struct LaneBatch: Sendable {
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
    /// Failures since the halving began.
    private(set) var failuresHalving = 0
    /// Samples that fail even alone, time and again, and in which way.
    private(set) var suspects: [Int: String] = [:]
    /// The sample that is failing alone now, and how often it has.
    private var failingAlone: (index: Int, failures: Int, silences: Int, word: String)?
    /// Whether the destination has taken any sample since this batch was fetched.
    var hasProof = false
    var wantsHealthCheck = false
    var throttled = 0

    init(_ indices: [Int]) {
        work = [Work(indices: indices)]
    }

    var isDone: Bool { work.isEmpty }

    /// The next samples to send, in order; while halving, a last one goes alone.
    mutating func take(atMost size: Int) -> (indices: [Int], alone: Bool)? {
        guard !work.isEmpty else { return nil }
        // What is known to fail need not be tried again: it is taken apart first.
        while isHalving, work[0].isKnownBad, work[0].indices.count > 1 {
            split(work.removeFirst().indices)
        }
        let first = work.removeFirst()
        if first.indices.count > size {
            putBack(Array(first.indices[size...]))
        }
        let indices = Array(first.indices.prefix(size))
        return (indices, isHalving && indices.count == 1)
    }

    /// Puts samples back as they were taken.
    mutating func putBack(_ indices: [Int]) {
        work.insert(Work(indices: indices), at: 0)
    }

    /// Leaves out what is not to be sent now.
    mutating func drop(_ isOut: (Int) -> Bool) {
        for position in work.indices { work[position].indices.removeAll(where: isOut) }
        work.removeAll { $0.indices.isEmpty }
        for index in suspects.keys.filter(isOut) { suspects[index] = nil }
    }

    /// Every sample of a request was resolved; `isBad` if it was one alone, and refused.
    mutating func succeeded(isBad: Bool) {
        guard isHalving else { return }
        if isBad {
            regroup()
        } else if !work.isEmpty, work[0].isSecondHalf {
            work[0].isKnownBad = true
        }
    }

    /// These samples failed together, or one of them alone.
    mutating func fail(
        _ indices: [Int], alone: Bool, _ word: String, isSilence: Bool = false,
        _ settings: LaneSettings
    ) {
        guard isHalving else {
            failures += 1
            putBack(indices)
            wantsHealthCheck = failures >= settings.failuresMax
            return
        }
        work.insert(Work(indices: indices, isKnownBad: true), at: 0)
        guard alone, let index = indices.first else {
            failuresHalving += 1
            return
        }
        // Once may be the network's doing: a lost answer is no verdict on a sample.
        if failingAlone?.index != index {
            failingAlone = (index, 0, 0, word)
            failuresHalving += 1
        }
        guard var failing = failingAlone else { return }
        failing.word = word
        if isSilence { failing.silences += 1 } else { failing.failures += 1 }
        failingAlone = failing
        wantsHealthCheck =
            failing.failures >= settings.failuresMax || failing.silences >= settings.silencesMax
    }

    /// Everything else being well, the sample that fails alone is what is wrong.
    mutating func singleOut() {
        guard let failing = failingAlone, work.first?.indices == [failing.index] else { return }
        failingAlone = nil
        work.removeFirst()
        suspects[failing.index] = failing.word
        regroup()
    }

    mutating func startHalving() {
        guard !isHalving else { return }
        isHalving = true
        wantsHealthCheck = false
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
