import Foundation
import Glibc
import Testbed

/// An answer as it came over the wire.
struct WireAnswer: Sendable {
    var status: Int
    /// By name in lower case.
    var headers: [String: String]
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    var isHTML: Bool { headers["content-type"]?.hasPrefix("text/html") ?? false }

    /// The body when it is JSON.
    var json: JSON? { try? JSONDecoder().decode(JSON.self, from: Data(body)) }

    /// Status and diagnostics of each entry of a batch-response.
    var verdicts: [String] {
        (json?["entry"]?.array ?? []).map { entry in
            let status = entry["response"]?["status"]?.string ?? "?"
            let issue = entry["response"]?["outcome"]?["issue"]?.array?.first
            return issue?["diagnostics"]?.string.map { status + ": " + $0 } ?? status
        }
    }
}

/// JSON read by Foundation, not by the stand-in's own reader.
enum JSON: Decodable, Hashable {
    case null, bool(Bool), number(Double), string(String), array([JSON]), object([String: JSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSON].self))
        }
    }

    subscript(name: String) -> JSON? {
        if case .object(let members) = self { members[name] } else { nil }
    }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var number: Double? { if case .number(let value) = self { value } else { nil } }
    var array: [JSON]? { if case .array(let values) = self { values } else { nil } }
}

/// A client that sends exactly the given bytes: chunked bodies, byte order marks, halves
/// of requests. One connection per request, on a thread of its own.
struct Wire: Sendable {
    let port: Int

    /// Sends the bytes and reads until the server closes; nil when no whole answer came.
    func send(raw: [UInt8], patience seconds: Int = 60) async -> WireAnswer? {
        let port = self.port
        let bytes = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(returning: Self.exchange(raw, port: port, seconds: seconds))
            }
        }
        return bytes.flatMap(Self.parse)
    }

    /// Sends a request with Content-Length.
    func send(
        _ method: String, _ target: String, _ headers: [String: String] = [:], body: [UInt8]? = nil,
        patience seconds: Int = 60
    ) async -> WireAnswer? {
        var all = ["Host": "127.0.0.1:\(port)", "Accept": "application/json"]
        if let body { all["Content-Length"] = String(body.count) }
        all.merge(headers) { $1 }
        let head = all.map { "\($0): \($1)\r\n" }.joined()
        return await send(
            raw: Array("\(method) \(target) HTTP/1.1\r\n\(head)\r\n".utf8) + (body ?? []),
            patience: seconds)
    }

    /// Sends a form.
    func post(_ target: String, form: [String: String]) async -> WireAnswer? {
        let safe = CharacterSet.alphanumerics
        let text = form.map { name, value in
            "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: safe) ?? "")"
        }.joined(separator: "&")
        return await send(
            "POST", target, ["Content-Type": "application/x-www-form-urlencoded"],
            body: Array(text.utf8))
    }

    private static func exchange(_ request: [UInt8], port: Int, seconds: Int) -> [UInt8]? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard connected else { return nil }
        var sent = 0
        while sent < request.count {
            let count = request[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return nil }
            sent += count
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count >= 0 else { return nil }
            if count == 0 { return answer }
            answer += buffer[..<count]
        }
    }

    private static func parse(_ bytes: [UInt8]) -> WireAnswer? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n") else { return nil }
        let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
        guard let status = lines.first?.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { return nil }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let headLength = text[..<end.upperBound].utf8.count
        let body = Array(bytes[headLength...])
        guard headers["content-length"].flatMap({ Int($0) }) == body.count else { return nil }
        return WireAnswer(status: status, headers: headers, body: body)
    }
}

/// The documents a well-behaved gateway sends, to be changed in one place by each test.
enum Sample {
    static let heartRate = "omh:heart-rate:2.0"
    static let system = "https://gw.example/ids"

    static func dataPoint(
        uuid: String, bpm: String = "72", time: String = "2026-11-21T18:25:48.585Z"
    ) -> String {
        #"{"header":{"uuid":"\#(uuid)","schema_id":{"namespace":"omh","name":"heart-rate","#
            + #""version":"2.0"},"source_creation_date_time":"\#(time)","modality":"sensed"},"#
            + #""body":{"heart_rate":{"value":\#(bpm),"unit":"beats/min"},"#
            + #""effective_time_frame":{"date_time":"\#(time)"}}}"#
    }

    static func coding(_ code: String = heartRate) -> String {
        #"{"system":"https://w3id.org/openmhealth","code":"\#(code)"}"#
    }

    /// An Observation; every part can be replaced by other JSON text, or left out with nil.
    static func observation(
        id: String = "4a8ba8cc-39a9-4a77-a93a-769dad24a760", status: String? = "\"final\"",
        identifier: String? = nil, codings: String? = nil, subject: String? = "Patient/40001",
        device: String? = "Device/70007", dataPoint: String? = nil, data: String? = nil,
        more: String = ""
    ) -> String {
        let encoded = Data((dataPoint ?? self.dataPoint(uuid: id)).utf8).base64EncodedString()
        var parts = [#""resourceType":"Observation""#]
        if let status { parts.append(#""status":\#(status)"#) }
        parts.append(
            #""identifier":\#(identifier ?? #"[{"system":"\#(system)","value":"\#(id)"}]"#)"#)
        parts.append(#""code":{"coding":[\#(codings ?? coding())]}"#)
        if let subject { parts.append(#""subject":{"reference":"\#(subject)"}"#) }
        if let device { parts.append(#""device":{"reference":"\#(device)"}"#) }
        parts.append(
            #""valueAttachment":{"contentType":"application/json","data":\#(data ?? "\"\(encoded)\"")}"#
        )
        return "{" + parts.joined(separator: ",") + more + "}"
    }

    static func entry(_ observation: String, method: String = "POST") -> String {
        #"{"resource":\#(observation),"request":{"method":"\#(method)","url":"Observation"}}"#
    }

    static func bundle(_ entries: [String], type: String = #""type":"batch","#) -> [UInt8] {
        Array(
            #"{"resourceType":"Bundle",\#(type)"entry":[\#(entries.joined(separator: ","))]}"#.utf8)
    }

    static func bundle(of observations: [String]) -> [UInt8] {
        bundle(observations.map { entry($0) })
    }
}

/// A started stand-in with an enrolled client.
struct EnrolledExchange {
    let exchange: StandInExchange
    let wire: Wire
    let invitation: String
    var accessToken: String
    var refreshToken: String

    static let clientID = ExchangeSeed.standard.clients[0].clientID

    init(
        version: ExchangeVersion = .head, patient: Int = 40001, time: ExchangeTime = .real
    ) async throws {
        exchange = try await StandInExchange.start(version: version, time: time)
        wire = Wire(port: exchange.port)
        let link = await exchange.invite(patient: patient)
        invitation = Self.token(in: link)
        var form: [String: String]
        if version == .v0010 {
            let parts = link.split(separator: "~").map(String.init)
            form = Self.exchangeForm(code: parts[2], token: "")
            form["code_verifier"] = parts[3]
            form["redirect_uri"] = exchange.baseURL + "/auth/callback"
        } else {
            form = Self.exchangeForm(
                code: try await Self.redeem(invitation, wire), token: invitation)
        }
        let answer = await wire.post("/o/token/", form: form)
        guard let json = answer?.json, let access = json["access_token"]?.string,
            let refresh = json["refresh_token"]?.string
        else { throw Failure.notEnrolled(answer?.text) }
        accessToken = access
        refreshToken = refresh
    }

    enum Failure: Error { case notEnrolled(String?) }

    static func token(in link: String) -> String { String(link.suffix(32)) }

    static func redeem(_ token: String, _ wire: Wire) async throws -> String {
        let answer = await wire.send("POST", "/api/v1/invitation/\(token)", body: [])
        guard let code = answer?.json?["grant"]?["code"]?.string else {
            throw Failure.notEnrolled(answer?.text)
        }
        return code
    }

    /// The form of a right token exchange; tests change a field or take one out.
    static func exchangeForm(code: String, token: String) -> [String: String] {
        let verifier = Data(token.utf8).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
        return [
            "grant_type": "authorization_code", "code": code, "client_id": clientID,
            "code_verifier": verifier,
        ]
    }

    var authorization: [String: String] {
        ["Authorization": "Bearer \(accessToken)", "Content-Type": "application/json"]
    }

    func get(_ target: String) async -> WireAnswer? {
        await wire.send("GET", target, ["Authorization": "Bearer \(accessToken)"])
    }

    func post(
        _ body: [UInt8], to target: String = "/FHIR/R5/", headers: [String: String] = [:],
        patience seconds: Int = 60
    ) async -> WireAnswer? {
        await wire.send(
            "POST", target, authorization.merging(headers) { $1 }, body: body, patience: seconds)
    }

    func refresh() async -> WireAnswer? {
        await wire.post(
            "/o/token/",
            form: [
                "grant_type": "refresh_token", "refresh_token": refreshToken,
                "client_id": Self.clientID,
            ])
    }
}
