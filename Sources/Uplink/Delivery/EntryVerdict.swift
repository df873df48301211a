/// The meaning of a destination's word on one entry for the sample.
public enum EntryVerdict: Hashable, Sendable {
    /// Stored now.
    case stored
    /// Stored by an earlier attempt: no other gateway can own the identifier.
    case storedBefore
    /// Not taken for a reason a person can mend, which concerns the whole delivery.
    case held(HoldReason)
    /// Refused for good: sending the same bytes again cannot help.
    case refused
    /// Not taken, and not to be offered: RR intervals, which the patient has not consented to or whose code the
    /// exchange does not know.
    case notWanted(HoldReason)
    /// Says nothing about the sample; send it again, later.
    case unclear
}

extension EntryVerdict {
    /// Whether a person can mend the reason.
    var isHeld: Bool { if case .held = self { true } else { false } }
    /// Whether the data point is not to be offered.
    var isNotWanted: Bool { if case .notWanted = self { true } else { false } }
}

/// A destination's word on one entry.
public struct EntryAnswer: Hashable, Sendable {
    /// The meaning.
    public var verdict: EntryVerdict
    /// The status of the entry in the destination's own numbers, 0 if there was none.
    public var status: Int
    /// The destination's words, at most ``diagnosticsLengthMax`` characters. They may quote the
    /// measurement: for the dead letters only, never for a log.
    public var diagnostics: String

    /// Old exchanges send 5 KB for each refusal.
    public static let diagnosticsLengthMax = 200

    /// An answer whose meaning is known; of `diagnostics` the beginning is kept.
    public init(_ verdict: EntryVerdict, status: Int = 0, diagnostics: String = "") {
        self.verdict = verdict
        self.status = status
        self.diagnostics = String(diagnostics.prefix(Self.diagnosticsLengthMax))
    }
}
