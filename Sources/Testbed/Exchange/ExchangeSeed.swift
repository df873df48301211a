/// A code the exchange knows.
public struct ExchangeCode: Sendable, Hashable {
    /// The row's id.
    public var id: Int
    /// The coding system.
    public var system: String
    /// The code, with the schema's version: `omh:heart-rate:2.0`.
    public var code: String
    /// The name that a person gave it.
    public var text: String

    /// The coding system of Open mHealth.
    public static let openMHealth = "https://w3id.org/openmhealth"
}

/// A person whose data the exchange keeps.
public struct ExchangePatient: Sendable, Hashable {
    /// The id in `Patient/<id>`.
    public var id: Int
    /// The id of the person's account.
    public var userID: Int
    /// The account's address.
    public var email: String
    /// The organization the person belongs to.
    public var organization: Int
    /// As in ISO 8601.
    public var birthDate = "1971-03-05"
}

/// A data source: what the exchange shows as a FHIR Device.
public struct ExchangeDevice: Sendable, Hashable {
    /// The id in `Device/<id>`.
    public var id: Int
    /// The product's name.
    public var name: String
    /// `personal_device` can upload observations; `patient_app` and `medical_device` cannot.
    public var type: String
    /// The codes it supports.
    public var codes: [String]
}

/// A study: it asks patients for codes and names the data sources it uses.
public struct ExchangeStudy: Sendable, Hashable {
    /// The row's id.
    public var id: Int
    /// The study's name.
    public var name: String
    /// The organization that runs it.
    public var organization: Int
    /// The codes it asks for.
    public var codes: [String]
    /// The data sources it uses.
    public var devices: [Int]
    /// The enrolled patients.
    public var patients: [Int]
}

/// An OAuth client of patients.
public struct ExchangeClientApp: Sendable, Hashable {
    /// The row's id.
    public var id: Int
    /// The OAuth client id.
    public var clientID: String
    /// The product's name.
    public var name: String
    /// Where invitation links lead; `CODE` stands for host and token.
    public var invitationURL: String
    /// Its data sources.
    public var devices: [Int]
}

/// A practitioner's API key (client credentials).
public struct ExchangePractitionerKey: Sendable, Hashable {
    /// The OAuth client id.
    public var clientID: String
    /// The OAuth client secret.
    public var secret: String
    /// The organizations whose patients the key may serve.
    public var organizations: [Int]
}

/// The content of the exchange's database when it starts.
///
/// ``standard`` has the shape of the exchange's own seed with a gateway added by the operator:
/// following docs/develop/exchange.md, "Knowing oneself", it leads patient 40001 to device 70007.
public struct ExchangeSeed: Sendable {
    /// The codes the server knows.
    public var codes: [ExchangeCode]
    /// The patients.
    public var patients: [ExchangePatient]
    /// The data sources.
    public var devices: [ExchangeDevice]
    /// The studies.
    public var studies: [ExchangeStudy]
    /// The clients; ``StandInExchange/invite(patient:client:)`` uses the first unless told.
    public var clients: [ExchangeClientApp]
    /// The practitioner keys.
    public var practitionerKeys: [ExchangePractitionerKey]
    /// The codes each patient has consented to: patient, study, code.
    public var consents: [(patient: Int, study: Int, code: String)]

    /// ``standard`` with `count` more patients, who have consented to heart rate: ``patient(_:)`` names them.
    public static func withPatients(_ count: Int) -> ExchangeSeed {
        var seed = standard
        for number in 0..<count {
            var person = seed.patients[0]
            (person.id, person.userID) = (patient(number), 100_000 + patient(number))
            person.email = "p\(person.id)@example.com"
            seed.patients.append(person)
            seed.studies[0].patients.append(person.id)
            seed.consents.append((person.id, seed.studies[0].id, "omh:heart-rate:2.0"))
        }
        return seed
    }

    /// The id of a patient of ``withPatients(_:)``, who are counted from 0.
    public static func patient(_ number: Int) -> Int { 41_000 + number }

    /// Patients 40001 (Peter), 40002 (Pamela) and 40003 (of another organization), devices 70001
    /// to 70007, study 30001 on blood pressure and heart rate.
    public static let standard = ExchangeSeed(
        codes: [
            "blood-glucose:4.0", "blood-pressure:4.0", "body-temperature:4.0", "heart-rate:2.0",
            "oxygen-saturation:2.0", "respiratory-rate:2.0", "rr-interval:1.0",
        ].enumerated().map { index, name in
            ExchangeCode(
                id: 50001 + index, system: ExchangeCode.openMHealth, code: "omh:" + name, text: name
            )
        },
        patients: [
            ExchangePatient(
                id: 40001, userID: 10006, email: "peter@example.com", organization: 20002),
            ExchangePatient(
                id: 40002, userID: 10007, email: "pamela@example.com", organization: 20002),
            ExchangePatient(
                id: 40003, userID: 10008, email: "percy@example.com", organization: 20003),
        ],
        devices: [
            ExchangeDevice(
                id: 70001, name: "CareX", type: "personal_device",
                codes: ["omh:blood-pressure:4.0", "omh:heart-rate:2.0"]),
            ExchangeDevice(
                id: 70002, name: "Dexcom", type: "personal_device", codes: ["omh:blood-glucose:4.0"]
            ),
            ExchangeDevice(
                id: 70003, name: "iHealth", type: "personal_device",
                codes: ["omh:body-temperature:4.0", "omh:heart-rate:2.0"]),
            ExchangeDevice(
                id: 70004, name: "Oura", type: "personal_device", codes: ["omh:heart-rate:2.0"]),
            ExchangeDevice(id: 70005, name: "Questionnaire", type: "patient_app", codes: []),
            ExchangeDevice(
                id: 70006, name: "Patient Access API", type: "medical_device", codes: []),
            ExchangeDevice(
                id: 70007, name: "Edge Gateway", type: "personal_device",
                codes: ["omh:heart-rate:2.0", "omh:rr-interval:1.0"]),
        ],
        studies: [
            ExchangeStudy(
                id: 30001, name: "Lifespan Study on BP & HR", organization: 20002,
                codes: ["omh:blood-pressure:4.0", "omh:heart-rate:2.0"],
                devices: [70001, 70005, 70007], patients: [40001, 40002]),
            ExchangeStudy(
                id: 30002, name: "Lifespan Study on BP", organization: 20002,
                codes: ["omh:blood-pressure:4.0"], devices: [70001, 70005],
                patients: [40001, 40002]),
        ],
        clients: [
            ExchangeClientApp(
                id: 2, clientID: "edgegatewayStandInClient00000000000000000", name: "Edge Gateway",
                invitationURL: "https://gateway.example/enroll/CODE", devices: [70007]),
            ExchangeClientApp(
                id: 1, clientID: "carexStandInClient0000000000000000000000", name: "CareX",
                invitationURL: "https://carex.example?invitation=CODE", devices: [70001]),
        ],
        practitionerKeys: [
            ExchangePractitionerKey(
                clientID: "practitionerStandInClient0000000000000000",
                secret: "practitionerStandInSecret", organizations: [20002])
        ],
        consents: [
            (40001, 30001, "omh:blood-pressure:4.0"), (40001, 30001, "omh:heart-rate:2.0"),
            (40002, 30001, "omh:blood-pressure:4.0"), (40002, 30001, "omh:heart-rate:2.0"),
        ])
}
