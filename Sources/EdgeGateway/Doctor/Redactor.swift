import Foundation

/// Removes from a text what must not leave a gateway: addresses, patients, names that people gave, and whatever
/// may be a secret.
///
/// It recognises them by their form, so that it also finds what no list contains: an address by its colons, a
/// secret by its length. Known names are replaced by labels. To remove too much is better than too little.
struct Redactor {
    /// Words of letters, digits, `-` and `_` of at least this length count as secrets: the exchange's
    /// tokens have 30 and 32.
    static let secretLengthMin = 24
    /// Removing shorter patient numbers would remove half of the figures in a report.
    private static let patientLengthMin = 3

    private let patients: [String]
    /// The longest first: a name may be part of another.
    private let names: [(name: String, label: String)]

    /// - Parameter names: names of straps and enrollments, each with its label.
    init(patients: [String], names: [String: String] = [:]) {
        self.patients = Array(Set(patients)).filter { $0.count >= Self.patientLengthMin }
            .sorted { $0.count > $1.count }
        self.names = names.filter { !$0.key.isEmpty }
            .map { (Printable.line($0.key), $0.value) }
            .sorted { ($0.name.count, $1.name) > ($1.name.count, $0.name) }
    }

    /// A labelled name for everything that people named in these reports. The names that enrollments get by
    /// themselves (`e1`) name no person and stay.
    static func labels(
        sensors: [SensorReport], enrollments: [EnrollmentReport]
    ) -> [String: String] {
        var labels: [String: String] = [:]
        for sensor in sensors { labels[sensor.name] = "strap-\(sensor.id)" }
        for (index, enrollment) in enrollments.enumerated()
        where enrollment.name.wholeMatch(of: #/e[0-9]+/#) == nil {
            labels[enrollment.name] = "enrollment-\(index + 1)"
        }
        return labels
    }

    /// A text with labels instead of names. A name is found in any case, and not inside of a word.
    func hideNames(_ text: String) -> String {
        var text = Printable.lines(text)
        for (name, label) in names {
            var rest = text[...]
            var result = ""
            while let found = rest.range(of: name, options: .caseInsensitive) {
                let before =
                    found.lowerBound > text.startIndex
                    ? text[text.index(before: found.lowerBound)] : " "
                let after = found.upperBound < text.endIndex ? text[found.upperBound] : " "
                let isWhole = !Self.isInWord(before, name.first) && !Self.isInWord(after, name.last)
                result += rest[..<found.lowerBound] + (isWhole ? label : String(rest[found]))
                rest = rest[found.upperBound...]
            }
            text = result + rest
        }
        // Names that the gateway no longer knows: of enrollments that were erased or renamed.
        return text.replacing(#/enrollment=(.*?)(?=\ [a-z_]+=|\ \[|\n|$)/#) { match in
            match.output.1.wholeMatch(of: #/e[0-9]+|enrollment-[0-9]+/#) == nil
                ? "enrollment=<name>" : String(match.output.0)
        }
    }

    /// Whether a character beside the end of a name goes on with its word.
    private static func isInWord(_ character: Character, _ end: Character?) -> Bool {
        func isWord(_ character: Character) -> Bool { character.isLetter || character.isNumber }
        return isWord(character) && (end.map(isWord) ?? false)
    }

    func redact(_ text: String) -> String {
        redactWords(hideNames(text))
    }

    private func redactWords(_ text: String) -> String {
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
