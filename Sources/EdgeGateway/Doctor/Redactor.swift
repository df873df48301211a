import Foundation

/// Takes out of a text what must not leave a gateway: addresses, patients, and whatever may be a secret.
///
/// It goes by shape, so that it also finds what nobody thought of: an address by its colons, a secret by
/// its length. What it takes away by mistake is missed less than what it leaves.
struct Redactor {
    /// Words of letters, digits, `-` and `_` from this length on are taken for secrets: the exchange's
    /// tokens have 30 and 32.
    static let secretLengthMin = 24
    /// Patient numbers shorter than this would take away half of the figures in a report.
    private static let patientLengthMin = 3

    private let patients: [String]

    init(patients: [String]) {
        self.patients = Array(Set(patients)).filter { $0.count >= Self.patientLengthMin }
            .sorted { $0.count > $1.count }
    }

    func redact(_ text: String) -> String {
        var words: [Substring] = []
        var result = ""
        func flush() {
            guard !words.isEmpty else { return }
            result += redact(word: String(words.joined()))
            words = []
        }
        for character in text {
            if Self.isPartOfWord(character) {
                words.append(Substring(String(character)))
            } else {
                flush()
                result.append(character)
            }
        }
        flush()
        return result
    }

    private static func isPartOfWord(_ character: Character) -> Bool {
        character.isASCII
            && (character.isLetter || character.isNumber || "-_:+%~".contains(character))
    }

    private func redact(word: String) -> String {
        if let masked = Self.maskedAddress(word) { return masked }
        // `Patient/40001`, `"patient":"40001"`: the number is a word by itself in both.
        if patients.contains(word) { return "<patient>" }
        let plain = word.filter { $0 != ":" && $0 != "+" && $0 != "%" }
        let isTime = word.first?.isNumber == true && word.contains(":")
        guard plain.count >= Self.secretLengthMin, !isTime, !Self.isPlainWord(word) else {
            return word
        }
        return "<secret>"
    }

    /// Names of ours such as `storage.keep_delivered_hours` are words joined by `-` or `_`, all lower case
    /// and without digits; a secret of this length is not.
    private static func isPlainWord(_ word: String) -> Bool {
        let parts = word.split { "-_:".contains($0) }
        return parts.allSatisfy { $0.count < 16 && $0.allSatisfy { $0.isLowercase } }
    }

    /// An address, also where `_` stands for `:` as in object paths, down to its last two octets.
    private static func maskedAddress(_ word: String) -> String? {
        let octets = word.split(omittingEmptySubsequences: false) { ":_-".contains($0) }
        guard octets.count >= 6 else { return nil }
        let last = octets.suffix(6)
        guard last.allSatisfy({ $0.count == 2 && $0.allSatisfy(\.isHexDigit) }) else { return nil }
        return "…" + last.suffix(2).joined(separator: ":")
    }
}
