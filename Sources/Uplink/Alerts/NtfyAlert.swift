/// A topic of a server of ntfy, which shows messages on phones.
public struct NtfyAlert: AlertSender {
    private let address: SecretAddress
    private let token: Secret?

    /// A longer message becomes a file that has to be opened.
    private static let textBytesMax = 4_000

    public static let name = "ntfy"
    public static let summary = "a phone, through an ntfy server"
    public static let fields = [
        SettingField(
            "url", isSecret: true,
            "the topic's address, such as https://ntfy.sh/TOPIC; whoever knows it reads the messages"
        ),
        SettingField(
            "token", .optional, isSecret: true, "the access token, where the topic needs one"),
    ]

    public init(_ values: SettingValues) throws(DestinationProblem) {
        address = try values.secretAddress("url")
        token = values.secret("token")
        if let token, !token.revealed.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) {
            throw DestinationProblem("token is not an access token", "copy it from the ntfy server")
        }
    }

    public var place: String { address.shown }

    public func send(_ message: AlertMessage, _ parts: AlertParts) async throws(AlertFault) {
        var text = message.text
        if text.utf8.count > Self.textBytesMax {
            text = String(decoding: text.utf8.prefix(Self.textBytesMax - 4), as: UTF8.self) + " …"
        }
        var request = address.request(
            contentType: "text/plain; charset=utf-8", body: [UInt8](text.utf8))
        let (priority, tag) =
            switch message.urgency {
            case .error: ("high", "rotating_light")
            case .warning: ("default", "warning")
            case .over: ("default", "white_check_mark")
            }
        request.headers += [
            ("Title", EncodedWords.header(message.title)), ("Priority", priority), ("Tags", tag),
        ]
        if let token { request = request.authorized(by: token) }
        try await parts.send(request)
    }
}
