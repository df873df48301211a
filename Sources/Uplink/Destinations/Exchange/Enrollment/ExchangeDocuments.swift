// The answers of the exchange (docs/develop/exchange.md), as far as the gateway reads it. Members the
// gateway can do without are optional, so that a newer exchange stays readable.

/// `POST /api/v1/invitation/<token>`.
struct RedeemedDocument: Decodable {
    struct Grant: Decodable {
        var clientID: String
        var code: String
        var redirectURI: String?

        enum CodingKeys: String, CodingKey {
            case clientID = "client_id"
            case code
            case redirectURI = "redirect_uri"
        }
    }

    var grant: Grant
    var tokenEndpoint: String?

    enum CodingKeys: String, CodingKey {
        case grant
        case tokenEndpoint = "token_endpoint"
    }
}

/// `POST /o/token/`, refused.
struct TokenErrorDocument: Decodable {
    var error: String
}

/// An identifier that JSON may carry as a number or a string.
struct FlexibleID: Decodable, Hashable {
    var text: String

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let number = try? container.decode(Int64.self) {
            text = String(number)
        } else {
            text = try container.decode(String.self)
        }
        // It becomes part of a path and of a FHIR reference (R5 §2.1.28.0.1: id).
        guard PatientAccess.isPatientID(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an id")
        }
    }
}

/// `GET /api/v1/users/profile`.
struct ProfileDocument: Decodable {
    struct Patient: Decodable {
        var id: FlexibleID
        var birthDate: String?
    }

    /// Of the account.
    var id: FlexibleID?
    var email: String?
    var patient: Patient?
}

/// A code as scopes carry it: bare, or wrapped in `code`.
struct ScopeDocument: Decodable {
    var codingSystem: String?
    var codingCode: String?
    var code: Inner?
    var consented: Bool?

    struct Inner: Decodable {
        var codingSystem: String?
        var codingCode: String?
    }

    var system: String? { codingSystem ?? code?.codingSystem }
    var value: String? { codingCode ?? code?.codingCode }
}

/// A device, as the exchange knows it.
struct DataSourceDocument: Decodable {
    var id: FlexibleID
    var name: String?
    var type: String?
    var supportedScopes: [ScopeDocument]?
}

/// `GET /api/v1/patients/<id>/consents`.
struct ConsentsDocument: Decodable {
    struct Study: Decodable {
        var dataSources: [DataSourceDocument]?
        var scopeConsents: [ScopeDocument]?
        var pendingScopeConsents: [ScopeDocument]?
    }

    struct Patient: Decodable {
        /// Of the account.
        var jheUserId: FlexibleID?
        var birthDate: String?
        var telecomEmail: String?
    }

    var patient: Patient?
    var consolidatedConsentedScopes: [ScopeDocument]?
    var studies: [Study]?
    var studiesPendingConsent: [Study]?
}

/// One of `GET /api/v1/clients`.
struct ClientDocument: Decodable {
    var id: FlexibleID
    var clientId: String?
}

/// A list, plain or as a page of one.
struct ListDocument<Element: Decodable>: Decodable {
    var elements: [Element]

    private enum CodingKeys: String, CodingKey {
        case results
    }

    init(from decoder: any Decoder) throws {
        if let page = try? decoder.container(keyedBy: CodingKeys.self) {
            elements = try page.decode([Element].self, forKey: .results)
        } else {
            elements = try [Element](from: decoder)
        }
    }
}
