import OfflineQueue

/// A table of PostgreSQL behind PostgREST: Supabase, or a clinic's own PostgreSQL or Timescale.
///
/// deploy/supabase.sql makes the table. A row is known by its owner and the data point's identifier: who
/// else may write the table could guess an identifier, and must not be able to take it.
public struct PostgRESTKind: HTTPKind {
    let url: BaseURL
    let table: String
    let conflict: String
    let key: Secret?
    /// A token that a person made, in place of an account.
    let token: Secret?
    let account: Login?
    let auth: BaseURL
    let takesLedger: Bool
    public let patientIdentity: PatientIdentity

    public static let name = "postgrest"
    public static let summary = "Supabase, or PostgREST before PostgreSQL or Timescale"
    public static let fields = [
        SettingField(
            "url", "PostgREST's address; at Supabase https://PROJECT.supabase.co/rest/v1"),
        SettingField(
            "table", .standard("heart_rate"), "the table that deploy/supabase.sql creates"),
        SettingField(
            "conflict", .standard("owner,id"),
            "the columns of its primary key; owner,id,measured_at for a hypertable"),
        SettingField("key", .optional, isSecret: true, "Supabase's publishable key"),
        SettingField("email", .optional, "the account that the gateway writes as"),
        SettingField("password", .optional, isSecret: true, "the password of that account"),
        SettingField(
            "auth", .optional, "where the account signs in; /auth/v1 of the same server by default"),
        SettingField(
            "token", .optional, isSecret: true,
            "a JSON web token in place of the account, without Supabase"),
        .patient,
        .gaps,
    ]
    /// One statement of some 100 KB.
    public static let pace = DestinationPace(batch: 500)
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: false,
        words: "the row is committed; a repetition is known by owner and id, and not stored again")

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .forbidden:
            "the table's policies let this account neither insert nor select its own rows: run "
                + "deploy/supabase.sql"
        case .notFound:
            "url is not the address of PostgREST (at Supabase it ends in /rest/v1): add the destination again "
                + "with --replace"
        case .schema:
            "run deploy/supabase.sql, then: notify pgrst, 'reload schema'"
        case .planExceeded:
            "the database takes no writes: make room, or extend the project's plan"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.url("url")
        table = try values.name("table")
        conflict = try values.name("conflict", and: "_,", lengthMax: 200)
        patientIdentity = try values.choice("patient")
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes
        key = values.secret("key")
        token = values.secret("token")
        if url.origin.host.hasSuffix(".supabase.co"), url.path.isEmpty {
            throw DestinationProblem(
                "url lacks the path of Supabase's REST API", "append /rest/v1 to it")
        }
        if [key, token].contains(where: { $0.map(Self.ownsTheDatabase) ?? false }) {
            throw DestinationProblem(
                "this key owns the whole database and does not belong on a gateway",
                "give the publishable key, and an account of the gateway's own")
        }
        let problem = DestinationProblem(
            "email and password belong together, and stand in place of a token",
            "give the account, or the token alone")
        account = try values.login("email", or: problem)
        guard account == nil || token == nil else { throw problem }
        if values.text("auth") != nil {
            auth = try values.url("auth")
        } else if let standard = BaseURL("\(url.origin)/auth/v1") {
            auth = standard
        } else {
            auth = url
        }
    }

    /// Whether a key passes by the policies of rows: a secret key of Supabase, or its older `service_role`
    /// token.
    private static func ownsTheDatabase(_ key: Secret) -> Bool {
        if key.revealed.hasPrefix("sb_secret_") { return true }
        struct Claims: Decodable { var role: String? }
        return key.claims(Claims.self)?.role == "service_role"
    }

    public var tokenHost: String { auth.origin.host }
    public var origin: Origin { url.origin }

    public func tokens(_ parts: DestinationParts) -> (any TokenSource)? {
        if let token { return FixedToken(secret: token) }
        guard let account else { return nil }
        let (auth, key) = (auth, key)
        let record =
            parts.tokens
            ?? TokenRecord(
                origin: auth.origin, clientID: account.name,
                credential: .password(account: account.name, account.password), pair: .spent)
        return RenewingTokens(
            record: record, clock: parts.clock, logger: parts.logger, save: parts.saveTokens
        ) { [transport = parts.transport, clock = parts.clock] _ in
            GoTrueClient(transport: transport, clock: clock, url: auth, key: key)
        }
    }

    public func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest {
        var rows = JSONBytes()
        rows.reserve(points.count * 200)
        rows.array(points) { point, rows in
            let patient = patientIdentity == .id ? point.patient ?? context.patient : nil
            rows.row(point, patient: patient)
        }
        return request(
            rows, "\(table)?on_conflict=\(conflict)&columns=\(JSONBytes.rowColumns)")
    }

    public func request(
        ledger entries: [LedgerEntry], _ context: RequestContext
    ) -> HTTPRequest? {
        guard takesLedger else { return nil }
        var rows = JSONBytes()
        rows.array(entries) { entry, rows in
            let patient = patientIdentity == .id ? entry.patient ?? context.patient : nil
            rows.row(entry, patient: patient)
        }
        let kind = entries.first?.kind ?? .gap
        return request(
            rows, "\(table)_\(kind.rawValue)?on_conflict=owner,id&columns=\(kind.rowColumns)")
    }

    private func request(_ rows: JSONBytes, _ target: String) -> HTTPRequest {
        var request = HTTPRequest(
            .post, origin, "\(url.path)/\(target)", contentType: "application/json",
            body: rows.bytes)
        // Without on_conflict PostgREST ignores the resolution where there is no primary key.
        request.headers.append(("Prefer", "return=minimal,resolution=ignore-duplicates"))
        if let key { request.headers.append(("apikey", key.revealed)) }
        return request
    }

    /// PostgREST's codes, and PostgreSQL's SQLSTATE where it passes them on.
    public static let answers = [
        AnswerRow(403, begins: "42501", .held(.forbidden)),
        AnswerRow(404, begins: "PGRST205", .held(.schema)),
        AnswerRow(404, begins: "42P01", .held(.schema)),
        AnswerRow(400, begins: "PGRST204", .held(.schema)),
        AnswerRow(400, begins: "42703", .held(.schema)),
        AnswerRow(400, begins: "42P10", .held(.schema)),
        AnswerRow(409, begins: "23505", .held(.schema)),
        AnswerRow(409, begins: "23503", .held(.patientUnknown)),
        AnswerRow(400, begins: "22", .refused),
        AnswerRow(400, begins: "23502", .refused),
        AnswerRow(400, begins: "23514", .refused),
        AnswerRow(400, begins: "P0001", .refused),
        AnswerRow(400, .suspect),
        AnswerRow(405, begins: "25006", .held(.planExceeded)),
        AnswerRow(503, begins: "PGRST", .unclear),
    ]

    /// The code, then the server's words.
    public func words(of answer: HTTPAnswer) -> String {
        struct Refused: Decodable {
            @IfAny var code: String?
            @IfAny var message: String?
        }
        guard answer.content == .document, let refused = try? Refused(json: answer.body) else {
            return ""
        }
        let (code, message) = (refused.code ?? "", refused.message ?? "")
        return code.isEmpty ? message : "\(code) \(message)"
    }

    public func meaning(of answer: HTTPAnswer) -> AnswerMeaning {
        if 200...201 ~= answer.status {
            // A server that does not confirm that it ignores repetitions would store them.
            let applied = answer.fields["preference-applied"] ?? ""
            let isKnown = applied.contains("resolution=ignore-duplicates")
            return isKnown ? .stored : .held(.requestRefused)
        }
        return meaningInTable(of: answer)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let granted = SavedTokens()
        var parts = parts
        parts.saveTokens = { granted.set($0) }
        try await HTTPDestination(self, tokens: tokens(parts), parts).probe()
        return ProbeReport(
            checked: ["the table \(table) takes rows of these columns, and knows repetitions"],
            unchecked: ["whether its policies let this account insert: the first sample shows it"],
            tokens: granted.now)
    }
}
