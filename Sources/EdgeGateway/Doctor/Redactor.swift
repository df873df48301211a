import Foundation
import Uplink

/// Removes from a text what must not leave a gateway: addresses, patients, names that people gave, places of
/// destinations, and whatever may be a secret.
///
/// It recognises them by their form, so that it also finds what no list contains: an address by its colons, a
/// secret by its length. Known names are replaced by labels. To remove too much is better than too little.
struct Redactor {
    /// Words of letters, digits, `-` and `_` of at least this length count as secrets: the exchange's
    /// tokens have 30 and 32.
    static let secretLengthMin = 24
    /// Removing shorter patient numbers, and shorter words about the gateway, would remove half of the figures in a
    /// report.
    private static let lengthMin = 3

    private let patients: [String]
    /// The longest first: a name may be part of another.
    private let names: [(name: String, label: String)]

    /// - Parameter names: what people typed, each with its label.
    init(patients: [String], names: [String: String] = [:]) {
        self.patients = Array(Set(patients)).filter { $0.count >= Self.lengthMin }
            .sorted { $0.count > $1.count }
        self.names = names.filter { !$0.key.isEmpty }
            .map { (Printable.line($0.key), $0.value) }
            .sorted { ($0.name.count, $1.name) > ($1.name.count, $0.name) }
    }

    /// Hides what people typed on this gateway: in its settings, and as far as the daemon knows it.
    ///
    /// - Parameters:
    ///   - status: what the daemon says; nil if it does not answer.
    ///   - sensors: its straps, those that were forgotten as well; nil: those of `status`.
    ///   - alerts: the alerts, whose names and places are removed.
    init(
        settings: Settings, status: StatusReport?, sensors: [SensorReport]?, alerts: [AlertReport]?
    ) {
        var labels = Self.labels(ofGateway: settings)
        for (index, alert) in (alerts ?? []).enumerated() {
            let label = "alert-\(index + 1)"
            if alert.name != alert.kind { labels[alert.name] = label }
            for form in Self.forms(ofPlace: String(alert.place.prefix { $0 != "," })) {
                labels[form] = label + "-place"
            }
        }
        if let status {
            labels.merge(
                Self.labels(
                    sensors: sensors ?? status.sensors, enrollments: status.enrollments,
                    destinations: status.destinations)
            ) { _, label in label }
        }
        let patients =
            (status?.enrollments.compactMap(\.patient) ?? [])
            + (sensors ?? status?.sensors ?? []).compactMap(\.patient)
        self.init(patients: patients, names: labels)
    }

    /// A labelled name for everything that people named in these reports, and a label for each place that they typed.
    /// Names that nobody gave stay: those that enrollments get by themselves (`e1`), and kinds of destinations.
    static func labels(
        sensors: [SensorReport], enrollments: [EnrollmentReport], destinations: [DestinationReport]
    ) -> [String: String] {
        var labels: [String: String] = [:]
        for sensor in sensors { labels[sensor.name] = "strap-\(sensor.id)" }
        for (index, enrollment) in enrollments.enumerated() {
            let label = "enrollment-\(index + 1)"
            if enrollment.name.wholeMatch(of: #/e[0-9]+/#) == nil {
                labels[enrollment.name] = label
            }
            // An exchange's address came with its invitation, and is what its operator wants to know.
            guard enrollment.exchange.hasPrefix(fileScheme) else { continue }
            for form in forms(ofPlace: enrollment.exchange) { labels[form] = label + "-place" }
        }
        for destination in destinations {
            let label = "destination-\(destination.id)"
            if destination.name != destination.kind { labels[destination.name] = label }
            for form in forms(ofPlace: destination.place) { labels[form] = label + "-place" }
        }
        return labels
    }

    private static let fileScheme = "file://"

    /// A place in each form in which texts may show it: whole, as a path, as host and port, as a host. This machine's
    /// own address names nobody.
    private static func forms(ofPlace place: String) -> [String] {
        // Of NATS servers there may be several.
        let addresses = place.hasPrefix(fileScheme) ? [] : place.split(separator: ",")
        guard !addresses.isEmpty else {
            let path = String(place.dropFirst(fileScheme.count))
            // Gaps and what was put aside are in files that are named after it.
            let stem = URL(filePath: path).deletingPathExtension().path
            return [place, path] + (stem == "/" ? [] : [stem])
        }
        return [place]
            + addresses.flatMap { address -> [String] in
                let start = address.firstRange(of: "://")?.upperBound ?? address.startIndex
                let authority = address[start...].prefix { $0 != "/" }
                let host = authority.replacing(#/:[0-9]+$/#, with: "")
                let isHere = ["localhost", "127.0.0.1", "[::1]"].contains(host)
                return [String(address), String(authority)] + (isHere ? [] : [String(host)])
            }
    }

    /// The texts that people typed about the gateway itself. A host name that stands in for a name is not in the reports.
    private static func labels(ofGateway settings: Settings) -> [String: String] {
        let labels = GatewayIdentity.labels(settings.gatewayLabels) ?? [:]
        let words = [settings.gatewayName, settings.gatewaySite, settings.gatewayLabels]
        return (words + labels.values).filter { $0.count >= lengthMin }
            .reduce(into: [:]) { $0[$1] = "<gateway>" }
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
        // Names that the gateway no longer knows: of enrollments that were erased, of what was removed.
        let kinds =
            DestinationRegistry.kinds.map { $0.name } + AlertRegistry.kinds.map { $0.name }
        return text.replacing(#/(enrollment|alert)=(.*?)(?=\ [a-z_]+=|\ \[|\n|$)/#) { match in
            let name = match.output.2
            let isLabel =
                name.wholeMatch(of: #/e[0-9]+|(enrollment|destination|alert)-[0-9]+/#) != nil
            return isLabel || kinds.contains(String(name))
                ? String(match.output.0) : "\(match.output.1)=<name>"
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
