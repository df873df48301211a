import Basics
import OfflineQueue

/// A receiver of signed messages, after Standard Webhooks.
public struct WebhookAlert: AlertSender {
    private let address: SecretAddress
    private let key: WebhookKey

    public static let name = "webhook"
    public static let summary = "any receiver of signed JSON (Standard Webhooks)"
    public static let fields = [
        SettingField(
            "url", isSecret: true, "the receiver's address, such as https://host.example/alerts"),
        SettingField.webhookKey,
    ]

    public init(_ values: SettingValues) throws(DestinationProblem) {
        address = try values.secretAddress("url")
        key = try values.webhookKey("secret")
    }

    public var place: String { address.shown }

    public func send(_ message: AlertMessage, _ parts: AlertParts) async throws(AlertFault) {
        var request = address.request(contentType: "application/json", body: message.json)
        key.sign(&request, id: message.id, seconds: parts.now.wall.microseconds / 1_000_000)
        try await parts.send(request)
    }
}
