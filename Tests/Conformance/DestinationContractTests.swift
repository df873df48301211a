import Foundation
import Testbed
import Testing
import Uplink

/// Every kind of destination against the real system, over a network that fails and with a gateway that is killed.
@Suite(.serialized) struct DestinationContractTests {
    @Test(arguments: ["ndjson", "json"])
    func aWebhookGetsEverySampleSigned(format: String) async throws {
        try await DestinationContract().check(try await WebhookSystem.start(format: format))
    }

    @Test func influxDBHasEverySampleOnce() async throws {
        try await DestinationContract().check(try await InfluxSystem.start())
    }

    @Test func victoriaMetricsHasEverySample() async throws {
        try await DestinationContract().check(try await VictoriaSystem.start())
    }

    @Test(arguments: [["format": "json"], ["format": "array", "version": "3.1.1"]])
    func aSubscriberOfABrokerGetsEverySample(settings: [String: String]) async throws {
        try await DestinationContract().check(try await CutMosquittoSystem.start(settings))
    }

    @Test func cloudCareHasEverySampleOnceThoughItKnowsThemByTheirMillisecond() async throws {
        try await DestinationContract().check(try await CloudCareSystem.start())
    }

    @Test func firebaseHasEverySampleOnceAndSharesThem() async throws {
        try await DestinationContract().check(try await FirebaseSystem.start())
    }

    @Test func aFirestoreHasEverySampleOnceAndSaysWhyOthersAreMissing() async throws {
        try await DestinationContract().check(try await FirestoreSystem.start())
    }

    @Test func aFHIRServerHasEverySampleOnceAndReadsEachObservation() async throws {
        try await DestinationContract().check(try await FHIRSystem.start(.password))
    }

    @Test func postgreSQLHasEverySampleOnce() async throws {
        try await DestinationContract().check(
            try await PostgRESTSystem.start(python: SystemHost.judgesPython))
    }
}

/// Beside the others: a relay waits half a second for more before each bundle, and the test for it.
@Suite struct RelayContractTests {
    @Test func anExchangeBehindARelayHasEverySampleOnce() async throws {
        try await DestinationContract(requests: 150).check(try await RelaySystem.start())
    }
}
