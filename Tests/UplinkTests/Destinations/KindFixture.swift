import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// Each kind of destination with settings, points for it, and answers of its system.
enum KindFixture {
    static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    static let settings: [String: [String: String]] = [
        "cloudcare": [
            "url": "https://cloudcare.example/api/v1", "gateway": "gw-1",
            "device-key": "hush-hush-hush-hush",
        ],
        "fhir": [
            "url": "https://fhir.hospital.example/r4", "gateway": "ward3", "token": "hush",
        ],
        "file": ["path": "/var/lib/points.ndjson"],
        "firebase": [
            "url": "https://p-default-rtdb.firebaseio.com", "key": "hush-key",
            "email": "gw@clinic.example", "password": "hush", "share": "yes",
            "share-id": "0123456789abcdef0123456789abcdef",
        ],
        "influx": ["url": "http://127.0.0.1:8086", "database": "ward", "token": "hush"],
        "mqtt": [
            "url": "mqtts://broker.example", "gateway": "ward", "user": "gw", "password": "hush",
            "discovery": "on",
        ],
        "nats": [
            "url": "tls://nats-1.example,tls://nats-2.example:4333", "gateway": "ward",
            "seed": "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
        ],
        "postgrest": [
            "url": "https://p.supabase.co/rest/v1", "key": "sb_publishable_hush",
            "email": "gw@clinic.example", "password": "hush",
        ],
        "webhook": ["url": "https://host.example/in", "secret": secret],
    ]

    static func make(
        _ kind: String, _ more: [String: String] = [:]
    ) throws -> any DestinationKind {
        try DestinationRegistry.destination(
            kind, try #require(settings[kind]).merging(more) { $1 })
    }

    static func http(
        _ kind: String, _ more: [String: String] = [:]
    ) throws -> any HTTPKind {
        try #require(try make(kind, more) as? any HTTPKind)
    }

    static let context = RequestContext(patient: nil, seconds: 1_795_334_401)

    static func point(
        _ content: DataPoint.Content, sample: Int64 = 1_234_567, patient: String? = "40001"
    ) -> OutgoingPoint {
        let uuid = SampleIdentity(runNonce: 7, sample: sample).description
        return OutgoingPoint(DataPoint(uuid: uuid, content), patient: patient, sensorID: 3)
    }

    static func body(_ kind: any HTTPKind, _ points: [OutgoingPoint]) -> String {
        String(decoding: kind.request(points, context).body, as: UTF8.self)
    }

    static func imported(
        _ total: Int, stored: Int, duplicate: Int = 0, error: Int = 0
    ) -> String {
        #"{"total_metrics":\#(total),"stored_count":\#(stored),"duplicate_count":\#(duplicate),"#
            + #""error_count":\#(error)}"#
    }

    static func code(_ code: String) -> String {
        #"{"code":"\#(code)","message":"m","details":null,"hint":null}"#
    }

    /// A FHIR server's answer to a batch: a status and an outcome each.
    static func batch(_ entries: [(Int, String)]) -> String {
        let all = entries.map { status, outcome in
            let outcome = outcome.isEmpty ? "" : #","outcome":\#(outcome)"#
            return #"{"response":{"status":"\#(status) Said"\#(outcome)}}"#
        }
        return #"{"resourceType":"Bundle","type":"batch-response","entry":["#
            + all.joined(separator: ",") + "]}"
    }

    static func outcome(_ code: String, _ text: String, element: String? = nil) -> String {
        let element = element.map { #","expression":["\#($0)"]"# } ?? ""
        return
            #"{"resourceType":"OperationOutcome","issue":[{"severity":"information","code":"x"},"#
            + #"{"severity":"error","code":"\#(code)","diagnostics":"\#(text)"\#(element)}]}"#
    }

    static let searchset = #"{"resourceType":"Bundle","type":"searchset","total":0}"#

    /// A FHIR server's statement of what it can do.
    static func capabilities(
        version: String = "4.0.1", format: String = "application/fhir+json",
        system: String = "transaction", resource: String = "Observation",
        codes: String = "create,search-type", conditional: String = "true",
        parameter: String = "identifier"
    ) -> String {
        let codes = codes.split(separator: ",").map { #"{"code":"\#($0)"}"# }
        return
            #"{"resourceType":"CapabilityStatement","fhirVersion":"\#(version)","format":["\#(format)"],"#
            + #""rest":[{"mode":"client"},{"mode":"server","interaction":[{"code":"\#(system)"}],"resource":["#
            + #"{"type":"\#(resource)","interaction":[\#(codes.joined(separator: ","))],"#
            + #""conditionalCreate":\#(conditional),"searchParam":[{"name":"\#(parameter)"}]}]}]}"#
    }

    static let applied = [
        "preference-applied": "resolution=ignore-duplicates, return=minimal"
    ]
}
