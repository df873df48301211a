import Foundation
import OfflineQueue

/// A receiver of signed batches, after Standard Webhooks: for every system that has no kind of its own.
public struct WebhookKind: HTTPKind {
    /// How a body holds the data points of a batch.
    enum Format: String, CaseIterable {
        /// One a line.
        case ndjson
        /// In one array.
        case json
    }

    let url: SecretAddress
    let format: Format
    let key: WebhookKey
    let takesLedger: Bool
    public let patientIdentity: PatientIdentity

    public static let name = "webhook"
    public static let summary = "any receiver of signed JSON (Standard Webhooks)"
    public static let fields = [
        // Many receivers' addresses are keys.
        SettingField(
            "url", isSecret: true,
            "the receiver's address, such as https://host.example/heart-rates"),
        .webhookKey,
        SettingField(
            "format", .standard("ndjson"), "ndjson (a data point per line) or json (an array)"),
        .patient,
        .gaps,
    ]
    /// 300 KB: receivers take a megabyte at least (nginx's limit when nobody sets it).
    public static let pace = DestinationPace(batch: 500)
    public static let promise = DeliveryPromise(
        level: .accepted, mayRepeat: true, mayRace: true,
        words:
            "the receiver answered 2xx; a batch may come twice under one webhook-id, and a data point "
            + "in two batches: its header.uuid tells")

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .credentialsRefused, .forbidden:
            "give both sides the same secret, and compare the receiver's clock with this machine's"
        case .notFound:
            "the receiver's address has changed, or it no longer takes data: ask its operator"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.secretAddress("url")
        format = try values.choice("format")
        patientIdentity = try values.choice("patient")
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes
        key = try values.webhookKey("secret")
    }

    public var origin: Origin { url.origin }

    public func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest {
        var writer = PointLineWriter()
        let first = points.first?.point.uuid ?? ""
        return request(points, after: first, size: 600, context) { point, isNamed, body in
            let patient = isNamed ? point.patient ?? context.patient : nil
            writer.write(point, patient: patient, to: &body)
        }
    }

    public func request(
        ledger entries: [LedgerEntry], _ context: RequestContext
    ) -> HTTPRequest? {
        guard takesLedger else { return nil }
        let first = entries.first?.id ?? ""
        return request(entries, after: first, size: 250, context) { entry, isNamed, body in
            body.line(entry, patient: isNamed ? entry.patient ?? context.patient : nil)
        }
    }

    /// A signed request of elements that `write` writes, of about `size` bytes each; it is told whether to
    /// name the patient.
    private func request<Element>(
        _ elements: [Element], after first: String, size: Int, _ context: RequestContext,
        _ write: (Element, Bool, inout JSONBytes) -> Void
    ) -> HTTPRequest {
        var body = JSONBytes()
        body.reserve(elements.count * size)
        switch format {
        case .json: body.array(elements) { write($0, patientIdentity == .id, &$1) }
        case .ndjson:
            for element in elements {
                write(element, patientIdentity == .id, &body)
                body.raw("\n")
            }
        }
        var request = HTTPRequest(
            .post, origin, url.target,
            contentType: format == .json ? "application/json" : "application/x-ndjson",
            body: body.bytes)
        // The same for the same batch, so that a receiver knows a repetition, and for no other.
        let id = elements.isEmpty ? "empty" : "\(first)-\(WebhookKey.digest(of: body.bytes))"
        key.sign(&request, id: id, seconds: context.seconds)
        return request
    }

    public static let answers = [AnswerRow(408, .unclear), AnswerRow(425, .unclear)]

    /// Receivers are of many makes: what they refuse is dead only when they take another one.
    public func meaning(of answer: HTTPAnswer) -> AnswerMeaning {
        // A page is of a proxy or a captive portal, whatever its status says.
        if 200...299 ~= answer.status { return answer.isMarkup ? .unclear : .stored }
        let row = (Self.answers + AnswerRow.general).first { $0.matches(answer, "") }
        return row?.meaning ?? (400...499 ~= answer.status ? .suspect : .unclear)
    }
}

extension SettingField {
    /// The setting that everything has which a receiver of webhooks verifies.
    static let webhookKey = SettingField(
        "secret", isSecret: true,
        "the key that both sides share: whsec_ and 24 to 64 bytes in base64; "
            + "echo whsec_$(openssl rand -base64 32) makes one")
}

extension SettingValues {
    /// The key that a receiver of webhooks shares.
    func webhookKey(_ name: String) throws(DestinationProblem) -> WebhookKey {
        guard let secret = secret(name), let key = WebhookKey(secret) else {
            throw DestinationProblem(
                "\(name) is not whsec_ and 24 to 64 bytes in base64",
                "echo whsec_$(openssl rand -base64 32) makes one; give it to the receiver too")
        }
        return key
    }
}

/// The key of a webhook.
struct WebhookKey: Sendable {
    private let bytes: [UInt8]

    /// A key written as `whsec_` and 24 to 64 bytes in base64.
    init?(_ secret: Secret) {
        let prefix = "whsec_"
        guard secret.revealed.hasPrefix(prefix),
            let data = Data(base64Encoded: String(secret.revealed.dropFirst(prefix.count))),
            24...64 ~= data.count
        else { return nil }
        bytes = [UInt8](data)
    }

    /// The first half of the SHA-256 of a body, in hexadecimal.
    static func digest(of body: [UInt8]) -> String {
        Digests.hex(Digests.sha256(body).prefix(16))
    }

    /// Adds what Standard Webhooks wants of a request with this body.
    func sign(_ request: inout HTTPRequest, id: String, seconds: Int64) {
        request.headers += [
            ("webhook-id", id), ("webhook-timestamp", "\(seconds)"),
            ("webhook-signature", signature(id: id, seconds: seconds, request.body)),
        ]
    }

    /// `v1,` and the base64 of the HMAC-SHA256 of `id.seconds.body`.
    func signature(id: String, seconds: Int64, _ body: [UInt8]) -> String {
        let signed = Array("\(id).\(seconds).".utf8) + body
        var text = JSONBytes()
        text.raw("v1,")
        text.base64(Digests.hmacSHA256(key: bytes, signed))
        return String(decoding: text.bytes, as: UTF8.self)
    }
}
