import Foundation

/// The target of a path. Paths are exact: case and slashes count.
enum ExchangeEndpoint: Hashable {
    case badHost
    case notFound
    case movedToSlash
    case health
    case redeem(token: String)
    /// An API path we have nothing for: the framework asks who you are before it says so.
    case unknownAPI
    case token
    case revoke
    case openIDConfiguration
    case userInfo
    case profile
    case myself
    /// Nil: not a number, which the server does not expect.
    case consents(patient: Int?)
    case clients
    case clientDevices(client: Int)
    case bundle
    case observations
    case observation(id: Int)
    case devices
    case patients
    case metadata

    init(of request: ExchangeRequest, host: String, version: ExchangeVersion) {
        let port = host.split(separator: ":").last ?? ""
        guard [host, "localhost:\(port)"].contains(request.host) else {
            self = .badHost
            return
        }
        switch request.path {
        case "/health": self = .health
        case "/o/token", "/o/revoke_token", "/o/userinfo": self = .movedToSlash
        case "/o/token/": self = .token
        case "/o/revoke_token/": self = .revoke
        case "/o/userinfo/": self = .userInfo
        case "/o/.well-known/openid-configuration": self = .openIDConfiguration
        case let path where path.hasPrefix("/api/v1/"):
            self = Self.api(path.dropFirst("/api/v1/".count), version)
        default: self = Self.fhir(request.path, version)
        }
    }

    private static func api(_ path: Substring, _ version: ExchangeVersion) -> ExchangeEndpoint {
        // No admin path ends in a slash.
        guard !path.hasSuffix("/"), !path.contains("//") else { return .notFound }
        let parts = path.split(separator: "/")
        switch (parts.count, parts.first) {
        case (2, "invitation"):
            let isToken =
                parts[1].utf8.count == 32 && parts[1].allSatisfy { $0.isASCIIAlphanumeric }
            guard isToken, version != .v0010 else { return .unknownAPI }
            return .redeem(token: String(parts[1]))
        case (2, "users") where parts[1] == "profile": return .profile
        case (2, "patients") where parts[1] == "me": return .myself
        case (3, "patients") where parts[2] == "consents":
            return .consents(patient: Int(parts[1]))
        case (1, "clients"): return .clients
        case (3, "clients") where parts[2] == "data_sources":
            return Int(parts[1]).map { .clientDevices(client: $0) } ?? .unknownAPI
        default: return .unknownAPI
        }
    }

    private static func fhir(_ path: String, _ version: ExchangeVersion) -> ExchangeEndpoint {
        for base in version.fhirBases where path.hasPrefix(base) {
            let rest = path.dropFirst(base.count)
            switch rest {
            case "": return version == .v0010 ? .movedToSlash : .bundle
            case "/": return .bundle
            case "/Observation": return .observations
            case "/Device": return .devices
            case "/Patient": return .patients
            case "/metadata": return version == .head ? .metadata : .notFound
            case let rest where rest.hasPrefix("/Observation/"):
                return Int(rest.dropFirst("/Observation/".count)).map { .observation(id: $0) }
                    ?? .notFound
            default: return .notFound
            }
        }
        return .notFound
    }

    /// The group that faults are aimed at.
    func route(method: String) -> ExchangeRoute {
        switch self {
        case .badHost, .notFound, .movedToSlash: .other
        case .health: .health
        case .redeem: .invitation
        case .token, .revoke, .openIDConfiguration, .userInfo: .token
        case .unknownAPI, .profile, .myself, .consents, .clients, .clientDevices: .account
        case .bundle: .bundle
        case .observations: method == "POST" ? .observation : .read
        case .observation, .devices, .patients, .metadata: .read
        }
    }

    /// The path for the log, without secrets and without ids.
    func shownPath(_ path: String) -> String {
        switch self {
        case .redeem: "/api/v1/invitation/*"
        case .consents: "/api/v1/patients/*/consents"
        case .unknownAPI: "/api/v1/*"
        case .notFound, .badHost:
            // Whatever was asked for: it may hold a token that came out wrong.
            path.hasPrefix("/api/v1/invitation") ? "/api/v1/invitation/*" : path
        default: path
        }
    }
}

extension Character {
    var isASCIIAlphanumeric: Bool { isASCII && (isLetter || isNumber) }
}

extension StandInExchange {
    func perform(
        _ endpoint: ExchangeEndpoint, _ request: ExchangeRequest, _ work: inout ExchangeWork
    ) async -> ExchangeAnswer {
        switch endpoint {
        case .badHost: .html(400, "Bad Request (400)")
        case .notFound: .notFound
        case .movedToSlash:
            ExchangeAnswer.html(301, "Moved").with("Location", request.path + "/")
        case .health: .json(200, ["status": "ok", "version": "v0.0.13"])
        case .redeem(let token): redeem(token, request, work)
        case .unknownAPI:
            apiDoor(request, work, methods: ["GET"]) { _ in .detail(404, "Not found.") }
        case .token: token(request, work)
        case .revoke: revoke(request, work)
        case .openIDConfiguration: openIDConfiguration()
        case .userInfo: apiDoor(request, work, methods: ["GET", "POST"]) { userInfo($0) }
        case .profile: apiDoor(request, work, methods: ["GET"]) { profile($0) }
        case .myself: apiDoor(request, work, methods: ["GET"]) { myself($0) }
        case .consents(let patient):
            apiDoor(request, work, methods: ["GET"]) { consents(of: patient, for: $0) }
        case .clients: apiDoor(request, work, methods: ["GET"]) { _ in clientList() }
        case .clientDevices(let client):
            apiDoor(request, work, methods: ["GET"]) { _ in clientDevices(client) }
        case .bundle: await bundle(request, &work)
        case .observations where request.method == "POST": await observation(request, &work)
        case .observations: fhirDoor(request, work, methods: ["GET"]) { search(request, for: $0) }
        case .observation(let id): fhirDoor(request, work, methods: ["GET"]) { read(id, for: $0) }
        case .devices: fhirDoor(request, work, methods: ["GET"]) { deviceList(for: $0) }
        case .patients: fhirDoor(request, work, methods: ["GET"]) { patientList(for: $0) }
        case .metadata:
            .json(200, ["resourceType": "CapabilityStatement", "fhirVersion": "5.0.0"])
        }
    }

    /// The questions of the framework before it looks at a request: can I answer in a form you take, who
    /// are you, is this method known here. In that order: 406, 401, 405.
    func refusalAtTheDoor(
        _ request: ExchangeRequest, _ work: ExchangeWork, methods: [String], accepts: Set<String>
    ) -> Result<ExchangeCaller, ExchangeAnswerError> {
        if !request.accepts(oneOf: accepts) {
            return .failure(.init(.detail(406, "Could not satisfy the request Accept header.")))
        }
        if work.databaseIsDown { return .failure(.init(.serverError)) }
        let caller: ExchangeCaller
        switch authenticate(request) {
        case .success(let known): caller = known
        case .failure(let fault):
            let refusal = ExchangeAnswer.detail(
                401, "Authentication credentials were not provided.")
            return .failure(.init(refusal.with("WWW-Authenticate", fault.challenge)))
        }
        guard methods.contains(request.method) else {
            return .failure(
                .init(
                    ExchangeAnswer.detail(405, "Method \"\(request.method)\" not allowed.")
                        .with("Allow", methods.joined(separator: ", "))))
        }
        return .success(caller)
    }

    func apiDoor(
        _ request: ExchangeRequest, _ work: ExchangeWork, methods: [String],
        inside: (ExchangeCaller) -> ExchangeAnswer
    ) -> ExchangeAnswer {
        switch refusalAtTheDoor(
            request, work, methods: methods, accepts: ["application/json", "text/html"])
        {
        case .success(let caller): inside(caller)
        case .failure(let refusal): refusal.answer
        }
    }

    func fhirDoor(
        _ request: ExchangeRequest, _ work: ExchangeWork, methods: [String],
        inside: (ExchangeCaller) -> ExchangeAnswer
    ) -> ExchangeAnswer {
        switch refusalAtTheDoor(request, work, methods: methods, accepts: fhirMediaTypes) {
        case .success(let caller): inside(caller)
        case .failure(let refusal): refusal.answer
        }
    }

    /// The forms in which the FHIR endpoints can answer.
    var fhirMediaTypes: Set<String> {
        version == .head ? ["application/json", "application/fhir+json"] : ["application/json"]
    }

    func authenticate(_ request: ExchangeRequest) -> Result<ExchangeCaller, ExchangeTokenFault> {
        let parts = (request.header("Authorization") ?? "").split(separator: " ")
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return .failure(.missing) }
        guard let token = accessTokens[String(parts[1])] else { return .failure(.invalid) }
        guard now < token.expiresAt else { return .failure(.expired) }
        return .success(token.caller)
    }
}

/// A refusal as an error, for `Result`.
struct ExchangeAnswerError: Error {
    let answer: ExchangeAnswer
    init(_ answer: ExchangeAnswer) { self.answer = answer }
}

/// The fault of an access token. The body never says; only the header does.
enum ExchangeTokenFault: Error {
    case missing, invalid, expired

    var challenge: String {
        let realm = "Bearer realm=\"api\""
        return switch self {
        case .missing: realm
        case .invalid:
            realm + ",error=\"invalid_token\",error_description=\"The access token is invalid.\""
        case .expired:
            realm + ",error=\"invalid_token\",error_description=\"The access token has expired.\""
        }
    }
}

extension ExchangeRequest {
    /// Whether the Accept header lets us answer in one of these.
    func accepts(oneOf types: Set<String>) -> Bool {
        guard let accept = header("Accept"), !accept.isEmpty else { return true }
        return accept.split(separator: ",").contains { item in
            let type = item.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
            if type == "*/*" || types.contains(type) { return true }
            return type.hasSuffix("/*") && types.contains { $0.hasPrefix(type.dropLast()) }
        }
    }
}
