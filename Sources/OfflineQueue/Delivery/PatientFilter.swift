/// Whose samples of a delivery are meant: a practitioner's enrollment serves many patients.
///
/// The patient is the assignment's; nil: it names none, and the samples are the enrollment's own patient's.
public enum PatientFilter: Sendable, Hashable {
    /// Everybody's.
    case all
    /// Everybody's but these patients'.
    case except(Set<String?>)
    /// This patient's.
    case only(String?)

    func admits(_ patient: String?) -> Bool {
        switch self {
        case .all: true
        case .except(let others): !others.contains(patient)
        case .only(let one): patient == one
        }
    }
}
