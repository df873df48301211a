import OfflineQueue

/// A server of FHIR R4, as hospitals have: each heart rate is an Observation.
///
/// A batch creates each Observation unless one with its identifier is there. So a repetition changes nothing, and
/// the answer has a verdict on each.
public struct FHIRKind: HTTPKind {
    /// How the gateway signs in.
    private enum SignIn {
        case none
        case basic(Login)
        case bearer(Secret)
        /// SMART Backend Services: a client with a key.
        case key(clientID: String, Secret)
    }

    let url: BaseURL
    let gateway: String
    let patientForm: FHIRWriter.Patient
    let device: String?
    let takesLedger: Bool
    private let signIn: SignIn
    private let tokenEndpoint: TokenEndpoint?
    private let scope: String

    public static let name = "fhir"
    public static let summary = "a FHIR R4 server: Observations, as hospitals keep them"
    public static let fields = [
        SettingField("url", "the server's base, such as https://fhir.hospital.example/r4"),
        SettingField(
            "gateway", "this gateway's name there: letters, digits, '-', '_' and '.'"),
        .patient,
        SettingField(
            "patient-system", .optional,
            "with patient=id: the system of the patients' identifiers; left out, ID is a Patient's at "
                + "the server"),
        SettingField(
            "device", .optional,
            "the straps' Device at the server, such as Device/42; left out, an identifier names each "
                + "strap"),
        SettingField("user", .optional, "the user of a server that wants a password"),
        SettingField("password", .optional, isSecret: true, "the password of that user"),
        SettingField("token", .optional, isSecret: true, "a bearer token that does not end"),
        SettingField(
            "client-id", .optional, "the client of SMART Backend Services, which signs in with key"),
        SettingField(
            "key", .optional, isSecret: true,
            "that client's key, as edge-gateway destination key makes it: key=@FILE"),
        SettingField(
            "token-url", .optional, "where the client signs in, if the server does not say it"),
        SettingField(
            "scope", .standard("system/Observation.read system/Observation.write"),
            "what the client asks for"),
        .gaps,
    ]
    /// Medplum and others search once for each condition: more take too long for a proxy.
    public static let pace = DestinationPace(batch: 100)
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: true,
        words:
            "the server has created the Observation, or had one with its identifier: a repetition "
            + "is not created again")

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .credentialsRefused:
            "add the destination again with a password or token that is valid; with a key, give the "
                + "server's operator what edge-gateway destination key --show FILE prints, and set "
                + "this machine's clock"
        case .forbidden:
            "the server's operator lets this client create and search Observations, in its scopes too"
        case .patientUnknown:
            "create the patient at the server or pair the strap for one that it has; where patients "
                + "are known by an identifier, set patient-system"
        case .deviceUnknown:
            "create the Device at the server, or add the destination again without device"
        case .notFound:
            "url is not the base of a FHIR server that has Observations: add the destination again"
        case .requestRefused:
            "the server takes no batches, or answers them later (202): its operator lets it answer "
                + "them at once"
        case .exchangeFault:
            "the server's rules take none of the Observations: edge-gateway destination show NAME "
                + "has its words, for its operator"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.url("url")
        gateway = try values.name("gateway", and: "-_.")
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes
        patientIdentity = try values.choice("patient")
        switch (patientIdentity, values.text("patient-system")) {
        case (.none, nil): patientForm = .none
        case (.id, nil): patientForm = .reference
        case (.id, let system?): patientForm = .identifier(system: system)
        case (.none, _?):
            throw DestinationProblem(
                "patient-system has no patients", "give patient=id, or leave it out")
        }
        device = values.text("device")
        if let device, !Self.isReference(device, to: "Device") {
            throw DestinationProblem(
                "device is no reference", "such as Device/42, with letters, digits, '-' and '.'")
        }
        signIn = try Self.signIn(values)
        let endpoint = values.text("token-url")
        if endpoint != nil { _ = try values.url("token-url") }
        tokenEndpoint = endpoint.flatMap { TokenEndpoint($0) }
        scope = values.text("scope") ?? ""
    }

    private static func signIn(_ values: SettingValues) throws(DestinationProblem) -> SignIn {
        var ways: [SignIn] = []
        let login = try values.login(
            "user",
            or: DestinationProblem("user and password belong together", "give both or neither"))
        if let login { ways.append(.basic(login)) }
        if let token = values.secret("token") { ways.append(.bearer(token)) }
        switch (values.text("client-id"), values.secret("key")) {
        case (nil, nil): break
        case (let client?, let key?):
            guard SigningKey(key.revealed) != nil else {
                throw DestinationProblem(
                    "key is no key that signs",
                    "make one: edge-gateway destination key FILE; then key=@FILE")
            }
            ways.append(.key(clientID: client, key))
        default:
            throw DestinationProblem(
                "client-id and key belong together",
                "give both; edge-gateway destination key FILE makes the key")
        }
        guard ways.count <= 1 else {
            throw DestinationProblem(
                "there is more than one way to sign in",
                "give user and password, token, or client-id and key")
        }
        return ways.first ?? .none
    }

    /// Whether it names a resource of a type (R4 §2.24.0.1: `id`).
    static func isReference(_ text: String, to type: String) -> Bool {
        guard text.hasPrefix(type + "/") else { return false }
        let id = text.dropFirst(type.count + 1).utf8
        return 1...64 ~= id.count
            && id.allSatisfy { $0.isAlphanumeric || $0 == 0x2D || $0 == 0x2E }
    }

    public let patientIdentity: PatientIdentity

    public var resolution: Resolution { .sixtySeconds }
    public var place: String { "\(url.origin)\(url.path)" }
    public var origin: Origin { url.origin }
    public var tokenHost: String { (tokenEndpoint?.origin ?? url.origin).host }

    /// FHIR has no code for them that servers know.
    public var takesIntervals: Bool { false }

    /// A server that knows one patient may not know another.
    public var servesMany: Bool { patientIdentity == .id }

    // MARK: - Signing in

    public func tokens(_ parts: DestinationParts) -> (any TokenSource)? {
        switch signIn {
        case .none: return nil
        case .basic(let login): return FixedToken(secret: login.password)
        case .bearer(let token): return FixedToken(secret: token)
        case .key(let client, let key):
            let issuer = BackendServices(
                transport: parts.transport, clock: parts.clock, server: url,
                endpoint: tokenEndpoint, scope: scope)
            let record = TokenRecord(
                origin: url.origin, clientID: client,
                credential: .password(account: client, key), pair: .spent)
            // They last some minutes, and the key brings others: none is worth a write to the disk.
            return RenewingTokens(
                record: record, clock: parts.clock, logger: parts.logger, save: { _ in }
            ) { _ in issuer }
        }
    }

    public func authorized(_ request: HTTPRequest, by token: Secret) -> HTTPRequest {
        if case .basic(let login) = signIn { return request.authorized(by: login) }
        return request.authorized(by: token)
    }

    // MARK: - Requests

    public func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest {
        guard !points.isEmpty else {
            // Nothing has this identifier; who may ask for it may also create conditionally.
            return get(
                "/Observation?identifier=urn:ietf:rfc:3986%7Curn:uuid:\(Self.nothing)&_count=1")
        }
        var writer = writer
        for point in points { writer.write(point, patient: point.patient ?? context.patient) }
        return batch(writer)
    }

    public func request(
        ledger entries: [LedgerEntry], _ context: RequestContext
    ) -> HTTPRequest? {
        guard takesLedger else { return nil }
        var writer = writer
        for entry in entries { writer.write(entry, patient: entry.patient ?? context.patient) }
        return batch(writer)
    }

    private static let nothing = "00000000-0000-8000-8000-000000000000"
    private static let json = "application/fhir+json"

    private var writer: FHIRWriter {
        FHIRWriter(patient: patientForm, device: device, gateway: gateway)
    }

    private func batch(_ writer: FHIRWriter) -> HTTPRequest {
        var request = HTTPRequest(
            .post, origin, url.path.isEmpty ? "/" : url.path, contentType: Self.json,
            body: writer.bundle)
        // Without it some send all of it back.
        request.headers = [("Accept", Self.json), ("Prefer", "return=minimal")]
        return request
    }

    private func get(_ target: String) -> HTTPRequest {
        var request = HTTPRequest(.get, origin, url.path + target)
        request.headers = [("Accept", Self.json)]
        return request
    }

    // MARK: - Answers

    /// The answers of servers to a batch as a whole.
    public static let answers = [
        AnswerRow(202, .held(.requestRefused)),
        AnswerRow(400, begins: "too-costly", .tooLarge),
        AnswerRow(400, begins: "too-long", .tooLarge),
        AnswerRow(400, .suspect),
        AnswerRow(422, .suspect),
        AnswerRow(501, .held(.requestRefused)),
    ]

    /// Their answers to an entry. One that is refused may break a rule that all break: it is unclear, so that only
    /// what is stored beside it shows that it does not.
    static let entryAnswers: [EntryVerdict.Row] =
        [
            .init(status: 200, text: "", verdict: .storedBefore),
            .init(status: 201, text: "", verdict: .stored),
            // Several have the identifier.
            .init(status: 412, text: "", verdict: .storedBefore),
            .init(status: 401, text: "", verdict: .held(.credentialsRefused)),
            .init(status: 403, text: "", verdict: .held(.forbidden)),
        ]
        // A reference that leads nowhere: servers quote it, or name the element.
        + [400, 404, 409, 422].flatMap { status in
            [
                ("Patient/", HoldReason.patientUnknown),
                ("Observation.subject", .patientUnknown),
                ("Device/", .deviceUnknown), ("Observation.device", .deviceUnknown),
            ].map { .init(status: status, text: $0, verdict: .held($1)) }
        } + [.init(status: 404, text: "", verdict: .held(.notFound))]

    public func words(of answer: HTTPAnswer) -> String {
        answer.content == .document
            ? (try? OperationOutcome(json: answer.body))?.words ?? "" : ""
    }

    /// Of a 200 the bundle in it is the verdict: one a data point, in their order. Anything else says nothing.
    public func meaning(of answer: HTTPAnswer, to count: Int) -> AnswerMeaning {
        guard answer.status == 200 else {
            return answer.status == 201 ? .unclear : meaning(of: answer)
        }
        guard count > 0 else { return Self.isBundle(answer.body) ? .stored : .unclear }
        let bundle = try? BundleAnswer(answer.body, count: count) { status, outcome in
            let words = outcome?.words ?? ""
            return EntryAnswer(
                .judge(
                    status: status, diagnostics: words, endpoint: .bundle, by: Self.entryAnswers),
                status: status, diagnostics: words)
        }
        guard let entries = bundle?.entries else { return .unclear }
        return entries.allSatisfy { $0.verdict == .stored } ? .stored : .each(entries)
    }

    private static func isBundle(_ body: [UInt8]) -> Bool {
        struct Document: Decodable { @IfAny var resourceType: String? }
        return (try? Document(json: body))?.resourceType == "Bundle"
    }

    // MARK: - Trying it

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let tokens = tokens(parts)
        try await HTTPDestination(self, tokens: tokens, parts).probe()
        var request = get("/metadata")
        if let token = try? await tokens?.token() {
            request = authorized(request, by: token.secret)
        }
        let answer: HTTPAnswer
        do {
            answer = try await parts.transport.send(request)
        } catch {
            throw DestinationProblem(
                "\(origin.host) does not give its CapabilityStatement: "
                    + error.description(at: origin.host), "try again, or ask its operator")
        }
        guard answer.status == 200, let statement = try? CapabilityStatement(json: answer.body)
        else {
            throw DestinationProblem(
                "\(origin.host) gives no CapabilityStatement: HTTP \(answer.status)",
                "check that url is the base of a FHIR R4 server")
        }
        if let problem = statement.problem { throw problem }
        return ProbeReport(
            checked: [
                "\(origin) speaks FHIR \(statement.version), and knows what it has by its identifier",
                "it lets this gateway search Observations",
            ],
            unchecked: [
                "whether it lets this gateway create Observations"
                    + (patientIdentity == .id ? ", and knows the patients" : "")
                    + ": the first sample shows it"
            ])
    }
}
