import OfflineQueue

/// The person whom the exchange's number of a patient means, as far as the exchange tells.
///
/// A number can come to mean somebody else: an exchange whose database was made anew gives the same numbers again.
/// Nothing of the account is printed or stored but its fingerprint.
public struct PatientAccount: Sendable, Hashable {
    /// The patient's identifier at the exchange.
    public let patient: String
    /// The facts that tell one person from another; nil where the exchange does not say.
    private let account: Secret?
    private let birthDate: Secret?
    private let address: Secret?

    /// The answer about the patient's consents has the person. The profile, which only a patient's own token can read, has
    /// numbers only on the servers in the field.
    init(patient: String, _ consents: ConsentsDocument, _ profile: ProfileDocument? = nil) {
        let person = consents.patient
        self.patient = patient
        account = (profile?.id ?? person?.jheUserId).map { Secret($0.text) }
        birthDate = (person?.birthDate ?? profile?.patient?.birthDate).map { Secret($0) }
        address = (person?.telecomEmail ?? profile?.email).map { Secret($0.lowercased()) }
    }

    /// A new fingerprint of the person: a salt of its own, and a hash of each thing that is known, hexadecimal, with
    /// colons between them.
    public func fingerprint() -> String {
        let salt = (0..<Self.saltBytes).map { _ in UInt8.random(in: 0...255) }
        return fingerprint(salt: Digests.hex(salt)).joined(separator: ":")
    }

    /// Whether the fingerprint can be of this person. Only traits that both have are compared, since an updated server may
    /// tell more of its accounts, or less. An address may change, and is compared only if a birth date is unknown.
    public func matches(_ fingerprint: String) -> Bool { isSame(as: fingerprint) ?? true }

    /// Whether the fingerprint is of this person; nil if nothing of the person tells. The account's number alone does not:
    /// an exchange that was made anew gives those again, too.
    fileprivate func isSame(as fingerprint: String) -> Bool? {
        let before = fingerprint.split(separator: ":", omittingEmptySubsequences: false)
            .map(String.init)
        guard before.count == 4 else { return false }
        let now = self.fingerprint(salt: before[0])
        func isSame(_ part: Int) -> Bool? {
            before[part].isEmpty || now[part].isEmpty ? nil : before[part] == now[part]
        }
        return isSame(1) == false ? false : isSame(2) ?? isSame(3)
    }

    private static let saltBytes = 16

    private func fingerprint(salt: String) -> [String] {
        /// Of a trait that could be guessed only a few digits are kept: enough to tell two people apart, and too few to
        /// confirm a guess.
        func hash(_ trait: Secret?, digits: Int) -> String {
            guard let trait else { return "" }
            let hash = Digests.hmacSHA256(key: [UInt8](salt.utf8), [UInt8](trait.revealed.utf8))
            return String(Digests.hex(hash).prefix(digits))
        }
        return [
            salt, hash(account, digits: 16), hash(birthDate, digits: 3), hash(address, digits: 4),
        ]
    }
}

extension EnrollmentTerms {
    /// Whether the patient's number meant this person before, as far as one can tell; nil if the number is new.
    public func knows(_ person: PatientAccount) -> Bool? {
        patientFingerprints[person.patient].map(person.matches)
    }

    /// Whether the patient's number meant this person before, and nobody else as far as one can tell.
    public func knowsForCertain(_ person: PatientAccount) -> Bool {
        patientFingerprints[person.patient].flatMap(person.isSame) ?? false
    }
}
