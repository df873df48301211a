/// Notices links that the other side ends again and again at the same age.
///
/// That is how a strap leaves whose request for other connection parameters the kernel refuses: 30,
/// 60, 100 or 150 s after the connect, every time.
struct LinkAges: Sendable {
    /// Endings that are remembered, and how many of them must agree.
    static let endingsKept = 5
    static let endingsAlike = 3
    /// How far ages that agree may be from their median.
    static let toleranceMicroseconds: Int64 = 2_000_000
    /// Ages that can be such a signature: a shorter link is a bad radio link, a longer one a walk.
    static let signatureMicroseconds: ClosedRange<Int64> = 10_000_000...240_000_000

    private var ages: [Int64] = []

    /// A link was lost that had lasted so long.
    mutating func note(age: Int64) {
        ages.append(age)
        if ages.count > Self.endingsKept { ages.removeFirst() }
    }

    /// The age in µs at which links end, if they do.
    ///
    /// - Parameter current: the age of the present link, if there is one: one that has outlived the
    ///   others ends the suspicion.
    func fixedAge(current: Int64?) -> Int64? {
        for candidate in ages.reversed() where Self.signatureMicroseconds.contains(candidate) {
            let alike = ages.filter { abs($0 - candidate) <= Self.toleranceMicroseconds }
            guard alike.count >= Self.endingsAlike else { continue }
            let median = alike.sorted()[alike.count / 2]
            if let current, current > median + 2 * Self.toleranceMicroseconds { return nil }
            return median
        }
        return nil
    }
}
