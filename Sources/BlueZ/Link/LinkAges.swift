/// Notices links that the other side ends again and again at the same age.
///
/// That is how a strap leaves whose request for other connection parameters the kernel refuses: 30,
/// 60, 100 or 150 s after the connect, every time. Straps do not leave together: whoever ends several links at once is
/// another program, or the radio.
struct LinkAges: Sendable {
    /// Endings that are remembered, and how many of them must agree.
    static let endingsKept = 5
    static let endingsAlike = 3
    /// How far ages that agree may be from their median.
    static let tolerance = Duration.seconds(2)
    /// Ages that can be such a signature: a shorter link is a bad radio link, a longer one a walk.
    static let signature = Duration.seconds(10) ... .seconds(240)

    private var ages: [Duration] = []

    /// A link was lost that had lasted so long.
    mutating func note(age: Duration) {
        ages.append(age)
        if ages.count > Self.endingsKept { ages.removeFirst() }
    }

    /// The last ending was none of the sensor's own.
    mutating func takeBack() {
        if !ages.isEmpty { ages.removeLast() }
    }

    /// The age at which links end, if they do.
    ///
    /// - Parameter current: the age of the present link, if there is one: one that has outlived the
    ///   others ends the suspicion.
    func fixedAge(current: Duration?) -> Duration? {
        for candidate in ages.reversed() where Self.signature.contains(candidate) {
            let alike = ages.filter { max($0 - candidate, candidate - $0) <= Self.tolerance }
            guard alike.count >= Self.endingsAlike else { continue }
            let median = alike.sorted()[alike.count / 2]
            if let current, current > median + Self.tolerance * 2 { return nil }
            return median
        }
        return nil
    }
}
