import OfflineQueue

/// A database that takes InfluxDB's line protocol: InfluxDB 1 to 3, VictoriaMetrics, Telegraf, QuestDB.
public struct InfluxKind: HTTPKind {
    let url: BaseURL
    /// Path and query of the endpoint.
    let target: String
    let token: Secret?
    /// A user and a password, as InfluxDB 1 has them.
    let login: Login?
    /// The tag that tells gateways apart, ready.
    let gatewayTag: [UInt8]
    let takesLedger: Bool
    public let patientIdentity: PatientIdentity

    public static let name = "influx"
    public static let summary =
        "InfluxDB 1 to 3, VictoriaMetrics, Telegraf, QuestDB (line protocol)"
    public static let fields = [
        SettingField("url", "the server's address, such as http://127.0.0.1:8086"),
        SettingField("database", .optional, "the database of InfluxDB 1 and VictoriaMetrics"),
        SettingField("bucket", .optional, "the bucket of InfluxDB 2 and 3, in place of database"),
        SettingField("org", .optional, "the organisation of InfluxDB 2"),
        SettingField("token", .optional, isSecret: true, "the token of InfluxDB 2 and 3"),
        SettingField("user", .optional, "the user of InfluxDB 1"),
        SettingField("password", .optional, isSecret: true, "the password of that user"),
        SettingField(
            "gateway", .optional, "a tag of all points, where several gateways write one database"),
        .patient,
        .gaps,
    ]
    /// Some 50 KB of line protocol: InfluxDB advises up to 5,000 lines, the gateway's memory fewer.
    public static let pace = DestinationPace(batch: 500)
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: true, mayRace: false,
        words: "InfluxDB has the point on its disk, and a repetition replaces it; VictoriaMetrics "
            + "keeps a repetition unless it runs with -dedup.minScrapeInterval, and drops without a "
            + "word what it cannot read")

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .notFound: "create the database or bucket, or add the destination with the right one"
        case .schema:
            "a field of that name has another type there: rename or drop the measurement heart_rate"
        case .tooOld: "lengthen the retention of the database or bucket"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.url("url")
        patientIdentity = try values.choice("patient")
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes
        let encoded = { (name: String) in values.text(name).map(GrantClient.formEncoded) }
        switch (encoded("database"), encoded("bucket")) {
        case (let database?, nil): target = url.path + "/write?db=\(database)"
        case (nil, let bucket?):
            target =
                url.path + "/api/v2/write?bucket=\(bucket)"
                + (encoded("org").map { "&org=\($0)" } ?? "")
        default:
            throw DestinationProblem(
                "database or bucket is missing",
                "database for InfluxDB 1 and VictoriaMetrics, bucket for InfluxDB 2 and 3")
        }
        token = values.secret("token")
        login = try values.login(
            "user",
            or: DestinationProblem("user and password belong together", "give both or neither"))
        guard token == nil || login == nil else {
            throw DestinationProblem(
                "a token and a password are given", "give the token alone, or user and password")
        }
        var tag = LineProtocol()
        if let gateway = values.text("gateway") { tag.tag("gateway", gateway) }
        gatewayTag = tag.bytes
    }

    public var origin: Origin { url.origin }

    public func tokens(_ parts: DestinationParts) -> (any TokenSource)? {
        if let token { return FixedToken(secret: token) }
        return login.map { FixedToken(secret: $0.password) }
    }

    public func authorized(_ request: HTTPRequest, by token: Secret) -> HTTPRequest {
        login.map { request.authorized(by: $0) } ?? request.authorized("Token", token.revealed)
    }

    public func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest {
        var lines = LineProtocol()
        lines.reserve(points.count * 80)
        for point in points {
            let patient = patientIdentity == .id ? point.patient ?? context.patient : nil
            lines.write(point, gatewayTag, patient: patient)
        }
        return request(lines)
    }

    public func request(
        ledger entries: [LedgerEntry], _ context: RequestContext
    ) -> HTTPRequest? {
        guard takesLedger else { return nil }
        var lines = LineProtocol()
        for entry in entries {
            let patient = patientIdentity == .id ? entry.patient ?? context.patient : nil
            lines.write(entry, gatewayTag, patient: patient)
        }
        // A gap whose time is unknown makes no line.
        return entries.isEmpty || !lines.bytes.isEmpty ? request(lines) : nil
    }

    private func request(_ lines: LineProtocol) -> HTTPRequest {
        HTTPRequest(
            .post, origin, target, contentType: "text/plain; charset=utf-8", body: lines.bytes)
    }

    /// The answers of InfluxDB 1.6 to 3. A request that holds wrong lines may store the others: to send those
    /// again changes nothing.
    public static let answers = [
        AnswerRow(204, .stored),
        AnswerRow(400, contains: "field type conflict", .held(.schema)),
        AnswerRow(400, contains: "invalid column type", .held(.schema)),
        AnswerRow(400, contains: "beyond retention policy", .held(.tooOld)),
        AnswerRow(422, contains: "retention", .held(.tooOld)),
        AnswerRow(422, contains: "field type conflict", .held(.schema)),
        AnswerRow(400, contains: "partial write of line protocol", .partly),
        AnswerRow(400, contains: "unable to parse", .refused),
        AnswerRow(400, contains: "partial write", .partly),
        AnswerRow(422, contains: "partial write", .partly),
        AnswerRow(400, .suspect),
        AnswerRow(422, .suspect),
    ]

    /// InfluxDB 2 and 3 refuse a request without lines, but only after they have accepted its token and database.
    public func meaning(of answer: HTTPAnswer, to count: Int) -> AnswerMeaning {
        let isOfNone =
            count == 0 && answer.status == 400
            && ["writing requires points", "incoming write was empty"]
                .contains(where: words(of: answer).contains)
        return isOfNone ? .stored : meaning(of: answer)
    }

    /// InfluxDB 3 names the lines. The earlier ones say how many points they dropped, for a limit of series for
    /// one, but not which; and if the points are of two shards, only of one of them.
    public func refused(in answer: HTTPAnswer, count: Int) -> [Int: String]? {
        if let lines = InfluxRefusals(answer.body)?.lines, !lines.isEmpty {
            // A verdict on a line that was not sent tells nothing.
            return lines.keys.allSatisfy({ 0..<count ~= $0 }) ? lines : nil
        }
        let words = words(of: answer)
        guard let mark = words.ranges(of: "dropped=").last,
            let dropped = Int(words[mark.upperBound...].prefix { $0.isASCII && $0.isNumber }),
            dropped >= count
        else { return nil }
        let said = answer.words ?? words
        return Dictionary(uniqueKeysWithValues: (0..<count).map { ($0, said) })
    }

    public func series(of points: [OutgoingPoint]) -> [[Int]] {
        struct Series: Hashable {
            var sensor: Int64
            var patient: String?
            var isInterval: Bool
        }
        return Dictionary(grouping: points.indices) {
            Series(
                sensor: points[$0].sensorID, patient: points[$0].patient,
                isInterval: points[$0].point.isInterval)
        }.values.sorted { $0[0] < $1[0] }
    }
}

/// The answer of InfluxDB 3 to a write of which it stored a part:
/// `{"error":"partial write of line protocol occurred","data":[{"line_number":2,"error_message":"…"}]}`.
private struct InfluxRefusals {
    /// Why, by the position of the line in the request.
    private(set) var lines: [Int: String] = [:]

    private struct Document: Decodable {
        struct Line: Decodable, Sendable {
            @IfAny var lineNumber: Int?
            @IfAny var errorMessage: String?
        }
        @IfAny var data: [IfAny<Line>]?
    }

    init?(_ body: [UInt8]) {
        guard let document = try? Document(json: body) else { return nil }
        for case let line? in (document.data ?? []).map(\.wrappedValue) {
            guard let number = line.lineNumber, number > 0 else { continue }
            lines[number - 1] = line.errorMessage ?? ""
        }
    }
}
