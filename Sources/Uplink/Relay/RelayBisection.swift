/// Finds the requests for which a bundle fails as a whole: halves it, by request, until those that go through
/// are through and each that fails has failed by itself.
struct RelayBisection<Request: Sendable>: Sendable {
    /// Parts that are still to be sent, the next one last.
    private var parts: [[Request]]

    /// Begins with everything in one bundle.
    init(_ requests: [Request]) { parts = requests.isEmpty ? [] : [requests] }

    /// The points to send next; nil when all are done.
    var next: [Request]? { parts.last }

    /// The last request was answered.
    ///
    /// - Parameter isToBeHalved: it failed as a whole, and nothing of it is under way.
    /// - Returns: the requests that have their answer now.
    mutating func answered(isToBeHalved: Bool) -> [Request] {
        guard let part = parts.popLast() else { return [] }
        guard isToBeHalved, part.count > 1 else { return part }
        let middle = part.count / 2
        parts.append(Array(part[middle...]))
        parts.append(Array(part[..<middle]))
        return []
    }

    /// Takes requests out that must not be sent any more.
    ///
    /// - Returns: those that were still to be sent.
    mutating func drop(_ isLate: (Request) -> Bool) -> [Request] {
        let late = parts.reversed().flatMap { $0.filter(isLate) }
        parts = parts.map { $0.filter { !isLate($0) } }.filter { !$0.isEmpty }
        return late
    }
}
