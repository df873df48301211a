/// Whose samples of a delivery are meant: a practitioner's enrollment serves many patients.
///
/// The patient is the assignment's; samples of an assignment without one are the enrollment's own
/// patient's, and only ``only(_:)`` leaves them out.
public enum PatientFilter: Sendable, Hashable {
    /// Everybody's.
    case all
    /// Everybody's but these patients'.
    case except(Set<String>)
    /// This patient's.
    case only(String)

    func admits(_ patient: String?) -> Bool {
        switch self {
        case .all: true
        case .except(let others): patient.map { !others.contains($0) } ?? true
        case .only(let one): patient == one
        }
    }
}
