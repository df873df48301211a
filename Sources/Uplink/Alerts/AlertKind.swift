import Basics
import OfflineQueue

/// A way to send alerts. A value of it is one alert's settings, checked.
public protocol AlertKind: Sendable {
    /// Its name on the command line.
    static var name: String { get }
    /// A description, one line.
    static var summary: String { get }
    /// Its settings.
    static var fields: [SettingField] { get }

    /// Takes settings, or says what is wrong with them and what to do.
    init(_ values: SettingValues) throws(DestinationProblem)
    /// Where it leads, for a person: a server, and nothing of the address that would let somebody else write there.
    var place: String { get }
}

/// One that sends messages.
public protocol AlertSender: AlertKind {
    /// Sends a message once.
    func send(_ message: AlertMessage, _ parts: AlertParts) async throws(AlertFault)
}

/// The kinds of alerts there are.
public enum AlertRegistry {
    /// In the order in which a person sees them.
    public static let kinds: [any AlertKind.Type] = [
        MailAlert.self, WebhookAlert.self, NtfyAlert.self, SignOfLife.self,
    ]

    /// The kind of that name.
    public static func kind(_ name: String) throws(DestinationProblem) -> any AlertKind.Type {
        guard let kind = kinds.first(where: { $0.name == name }) else {
            throw DestinationProblem(
                "there is no such kind of alert"
                    + Nearest.guess(name, among: kinds.map { $0.name }),
                "the kinds are \(kinds.map { $0.name }.joined(separator: ", "))")
        }
        return kind
    }

    /// An alert of a kind, by settings that may be wrong.
    public static func alert(
        _ name: String, _ settings: [String: String]
    ) throws(DestinationProblem) -> any AlertKind {
        let kind = try kind(name)
        return try kind.init(SettingValues(settings, for: kind.fields))
    }
}

/// One message of an alert.
public struct AlertMessage: Sendable, Hashable {
    /// How much it matters.
    public enum Urgency: Sendable, Hashable {
        /// Data are lost, or do not arrive.
        case error
        /// Somebody acts before that is so.
        case warning
        /// Nothing is left to do.
        case over
    }

    /// The same at every attempt, and of no other message: letters, digits and dashes.
    public var id: String
    /// One line.
    public var title: String
    /// All of it, in lines.
    public var text: String
    /// The same as a JSON document.
    public var json: [UInt8]
    /// How much it matters.
    public var urgency: Urgency

    /// A message in all its forms.
    public init(id: String, title: String, text: String, json: [UInt8], urgency: Urgency) {
        self.id = id
        self.title = title
        self.text = text
        self.json = json
        self.urgency = urgency
    }
}

/// The parts that an alert needs from the gateway.
public struct AlertParts: Sendable {
    /// How servers are reached that speak HTTP.
    public var transport: any HTTPTransport
    /// The same for those that do not.
    public var network: CurlSettings
    /// The time.
    public var now: ClockReading

    /// The settings as given.
    public init(transport: any HTTPTransport, network: CurlSettings, now: ClockReading) {
        self.transport = transport
        self.network = network
        self.now = now
    }
}

/// Why a message was not taken. Holds no address and no secret.
public struct AlertFault: Error, Hashable, Sendable {
    /// The event.
    public var message: String
    /// How long the server asks to wait.
    public var retryAfter: Duration?

    init(_ message: String, retryAfter: Duration? = nil) {
        self.message = message
        self.retryAfter = retryAfter
    }
}

/// An address of somebody else's service. Often it is all that one needs to use that service, so it is a secret.
struct SecretAddress: Sendable {
    let origin: Origin
    /// Path and query.
    let target: String

    init?(_ text: String) {
        guard let origin = Origin(text), !text.contains("#"), !text.contains("@") else {
            return nil
        }
        let rest = text.dropFirst(origin.scheme.rawValue.count + 3).drop { $0 != "/" && $0 != "?" }
        guard rest.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else { return nil }
        self.origin = origin
        target = rest.hasPrefix("/") ? String(rest) : "/" + rest
    }

    /// The server alone.
    var shown: String { target == "/" ? "\(origin)" : "\(origin)/…" }

    /// A request with this body; of none it is a GET.
    func request(contentType: String? = nil, body: [UInt8]? = nil) -> HTTPRequest {
        HTTPRequest(
            body == nil ? .get : .post, origin, target, contentType: contentType, body: body ?? [])
    }
}

extension SettingValues {
    /// An `http` or `https` address, with a query if it has one; nil if it was left out.
    func secretAddressIfAny(_ name: String) throws(DestinationProblem) -> SecretAddress? {
        guard let text = text(name) else { return nil }
        guard !text.contains("@"), !text.contains("#") else {
            throw DestinationProblem(
                "\(name) holds more than an address", "give the address without user and fragment")
        }
        guard let address = SecretAddress(text) else {
            throw DestinationProblem(
                "\(name) is not an address", "such as https://host.example/path")
        }
        return address
    }

    /// One that has to be given.
    func secretAddress(_ name: String) throws(DestinationProblem) -> SecretAddress {
        guard let address = try secretAddressIfAny(name) else {
            throw DestinationProblem("\(name) is missing", "such as https://host.example/path")
        }
        return address
    }
}

extension AlertParts {
    /// Sends a request that the server answers with 2xx, if all is well.
    func send(_ request: HTTPRequest) async throws(AlertFault) {
        let answer: HTTPAnswer
        do throws(TransportFault) {
            answer = try await transport.send(request)
        } catch {
            throw AlertFault(error.description)
        }
        if 200...299 ~= answer.status {
            // Of a captive portal, or of a proxy.
            guard !answer.isMarkup else {
                throw AlertFault("\(request.origin) answers with a web page")
            }
            return
        }
        if let redirect = Redirect(answer, of: request.origin) {
            throw AlertFault("\(request.origin) \(redirect)")
        }
        throw AlertFault(
            "\(request.origin) answers HTTP \(answer.status)",
            retryAfter: RetryAfter.pause(answer.retryAfter, date: answer.date))
    }
}

extension Duration {
    /// A length of time as a person writes it: `90s`, `5m`, `1h`, or a number of seconds; nil for what is none, or
    /// longer than a year.
    public init?(written text: String) {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard 1...9 ~= digits.utf8.count, digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }),
            let number = Int64(digits)
        else { return nil }
        let seconds = number * (unit ?? 1)
        guard seconds <= 366 * 86_400 else { return nil }
        self = .seconds(seconds)
    }
}
