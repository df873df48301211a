/// The account behind a patient's token, and with it the person whom the exchange's number of the patient means.
///
/// A number can come to mean somebody else: an exchange whose database was made anew gives the same numbers again.
/// Nothing of the account is printed or stored but its fingerprint.
public struct PatientAccount: Sendable {
    /// The patient's identifier at the exchange.
    public let patient: String
    /// What tells one person from another.
    private let traits: Secret

    /// Nil when the account is no patient's.
    init?(_ profile: ProfileDocument) {
        guard let patient = profile.patient else { return nil }
        self.patient = patient.id.text
        // A birth date stays; an address changes, and stands in only where there is no birth date.
        let born = patient.birthDate ?? profile.email?.lowercased() ?? ""
        traits = Secret([patient.id.text, profile.id?.text ?? "", born].joined(separator: "\n"))
    }

    /// A new fingerprint of the person, made with a salt of its own: a salt and a hash, both hexadecimal.
    public func fingerprint() -> String {
        fingerprint(salt: Digests.hex((0..<Self.saltBytes).map { _ in UInt8.random(in: 0...255) }))
    }

    /// Whether this is the person of whom a fingerprint was made.
    public func matches(_ fingerprint: String) -> Bool {
        let salt = fingerprint.prefix { $0 != ":" }
        return fingerprint == self.fingerprint(salt: String(salt))
    }

    private static let saltBytes = 16

    private func fingerprint(salt: String) -> String {
        let hash = Digests.hmacSHA256(key: [UInt8](salt.utf8), [UInt8](traits.revealed.utf8))
        return salt + ":" + Digests.hex(hash)
    }
}
