/// One setting of a kind of destination, as a person gives it.
public struct SettingField: Sendable, Hashable {
    /// Whether it may be left out.
    public enum Need: Sendable, Hashable {
        /// It has to be given.
        case required
        /// It may be left out.
        case optional
        /// The gateway makes it, once, when it is left out.
        case made
        /// This is taken when it is left out.
        case standard(String)
    }

    /// Its name, in lower case.
    public let name: String
    /// Whether it may be left out.
    public let need: Need
    /// Whether it is kept in a file of mode 0600 and shown nowhere.
    public let isSecret: Bool
    /// Whether a destination has one value of it for good: with another one it would leave behind what it shows.
    public let isFixed: Bool
    /// A description, one line.
    public let help: String

    init(
        _ name: String, _ need: Need, isSecret: Bool = false, isFixed: Bool = false,
        _ help: String
    ) {
        self.name = name
        self.need = need
        self.isSecret = isSecret
        self.isFixed = isFixed
        self.help = help
    }

    /// Its value among those given, or what is taken when it is left out; nil if there is neither.
    public func value(in given: [String: String]) -> String? {
        if let value = given[name], !value.isEmpty { return value }
        if case .standard(let value) = need { return value }
        return nil
    }

    /// One that has to be given.
    init(_ name: String, isSecret: Bool = false, _ help: String) {
        self.init(name, .required, isSecret: isSecret, help)
    }

    /// The setting that every kind has which can do without the patient.
    static let patient = SettingField(
        "patient", .standard(PatientIdentity.none.rawValue),
        "what names the patient there: none, or id (the patient's identifier at the exchange)")

    /// The setting of every kind that can hold the gap ledger.
    static let gaps = SettingField(
        "gaps", .standard("yes"),
        "deliver why samples are missing, and each day's coverage, as well: yes or no")
}

/// The values of a setting that is on or off.
enum YesOrNo: String, Sendable, CaseIterable { case yes, no }

/// The part of the patient's identity that leaves the machine.
public enum PatientIdentity: String, Sendable, Hashable, CaseIterable {
    /// Nothing: only the number of the sensor.
    case none
    /// The identifier by which the gateway knows the patient.
    case id
}

/// Why a destination cannot be added, or does not work: what happened and what to do. Holds no secret.
public struct DestinationProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The event.
    public var message: String
    /// The remedy, for a person.
    public var advice: String

    init(_ message: String, _ advice: String) {
        self.message = message
        self.advice = advice
    }

    /// Both in one line.
    public var description: String { "\(message); \(advice)" }
}

/// The settings of one destination, by name, with nothing missing and nothing unknown.
public struct SettingValues: Sendable {
    private let values: [String: String]

    /// Longest value, in bytes. A JSON web token has about 1,000.
    static let bytesMax = 4096

    /// Takes what a person gave, or what was stored of it, secrets included.
    public init(
        _ given: [String: String], for fields: [SettingField]
    ) throws(DestinationProblem) {
        var values = given
        for (name, value) in given.sorted(by: { $0.key < $1.key }) {
            guard fields.contains(where: { $0.name == name }) else {
                throw DestinationProblem(
                    "this kind has no setting \(Self.shown(name))",
                    "its settings are \(fields.map(\.name).joined(separator: ", "))")
            }
            let isPlain = value.unicodeScalars.allSatisfy {
                $0.properties.generalCategory != .control
            }
            guard isPlain, value.utf8.count <= Self.bytesMax else {
                throw DestinationProblem(
                    "\(name) is too long or holds control characters",
                    "give it in one line of at most \(Self.bytesMax) bytes")
            }
            if value.isEmpty { values[name] = nil }
        }
        for field in fields where values[field.name] == nil {
            switch field.need {
            case .required: throw DestinationProblem("\(field.name) is missing", field.help)
            case .optional, .made: break
            case .standard(let value): values[field.name] = value
            }
        }
        self.values = values
    }

    /// A value as it is; nil if it was left out.
    func text(_ name: String) -> String? { values[name] }

    /// A secret; nil if it was left out.
    func secret(_ name: String) -> Secret? { values[name].map { Secret($0) } }

    /// A name with the password of the setting `password`; nil if both were left out.
    ///
    /// - Parameter problem: what is thrown if one of them is missing.
    func login(
        _ name: String, or problem: DestinationProblem
    ) throws(DestinationProblem) -> Login? {
        switch (text(name), secret("password")) {
        case (let name?, let password?): return Login(name: name, password: password)
        case (nil, nil): return nil
        default: throw problem
        }
    }

    /// A value that is one of a few words.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, _ type: Choice.Type = Choice.self
    ) throws(DestinationProblem) -> Choice {
        guard let choice = Choice(rawValue: values[name] ?? "") else {
            let words = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw DestinationProblem("\(name) has an unknown value", "use one of \(words)")
        }
        return choice
    }

    /// A value of letters, digits and some more characters, as names of tables have.
    func name(
        _ name: String, and more: String = "_", lengthMax: Int = 63
    ) throws(DestinationProblem) -> String {
        let value = values[name] ?? ""
        let isName = value.unicodeScalars.allSatisfy {
            $0.isASCII && ($0.properties.isAlphabetic || $0.properties.numericType != nil)
                || more.unicodeScalars.contains($0)
        }
        guard value.utf8.count <= lengthMax else {
            throw DestinationProblem(
                "\(name) has \(value.utf8.count) characters", "use \(lengthMax) at most")
        }
        guard isName, !value.isEmpty else {
            throw DestinationProblem(
                "\(name) is not a name",
                "use letters, digits and \(more.map { "'\($0)'" }.joined(separator: " ")) only")
        }
        return value
    }

    /// An `http` or `https` address without a query.
    func url(_ name: String) throws(DestinationProblem) -> BaseURL {
        let text = values[name] ?? ""
        guard !text.contains("@"), !text.contains("?"), !text.contains("#") else {
            throw DestinationProblem(
                "\(name) holds more than an address",
                "give the address without user, query and fragment; keys have settings of their own"
            )
        }
        guard let url = BaseURL(text) else {
            throw DestinationProblem(
                "\(name) is not an address", "such as https://host.example/path")
        }
        return url
    }

    private static func shown(_ name: String) -> String {
        "'"
            + name.unicodeScalars.prefix(32).map { $0.isASCII && $0.value > 0x20 ? "\($0)" : "?" }
            .joined() + "'"
    }
}

/// An address below which a server has what is asked of it.
struct BaseURL: Sendable, Hashable {
    let origin: Origin
    /// The path without a slash at its end; empty for the root.
    let path: String

    init?(_ text: String) {
        guard let origin = Origin(text) else { return nil }
        let path = text.dropFirst(origin.scheme.rawValue.count + 3).drop { $0 != "/" }
        guard path.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else { return nil }
        self.origin = origin
        self.path = String(path.reversed().drop { $0 == "/" }.reversed())
    }
}

/// A name at another system, and its password.
struct Login: Sendable {
    let name: String
    let password: Secret
}
