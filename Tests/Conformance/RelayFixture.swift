import Basics
import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// What the tests of the relay have in common: keys, an exchange for many patients, and relays in this process.
enum RelayFixture {
    static let quiet = Logger(label: "relay") { _ in SwiftLogNoOpLogHandler() }

    /// A gateway's or relay's key.
    static func key() throws -> NKey { try #require(NKey.make()) }

    /// The practitioner's key of the stand-in exchange, as its file has it.
    static let practitionerKey = Data(
        "practitionerStandInClient0000000000000000:practitionerStandInSecret".utf8
    ).base64EncodedString()

    /// The patient of a gateway with this number.
    static func patient(_ index: Int) -> Int { ExchangeSeed.patient(index) }

    /// An exchange with so many patients who have consented.
    static func exchange(patients: Int) async throws -> StandInExchange {
        try await StandInExchange.start(seed: .withPatients(patients))
    }

    static func network(_ cluster: NATSCluster, patience: Duration = .seconds(60)) -> CurlSettings {
        var network = CurlSettings()
        network.authorityFile = cluster.authorityFile
        network.totalTimeout = patience
        return network
    }

    static func connection(
        _ cluster: NATSCluster, _ name: String, _ key: NKey, inbox: String? = nil
    ) async throws -> NATSConnection {
        NATSConnection(
            NATSSettings(
                servers: try #require(ServerAddress.list(await cluster.addresses, .nats)),
                name: name,
                key: key, inbox: "_INBOX.\(inbox ?? name)", network: network(cluster)))
    }

    static func settings(
        _ cluster: NATSCluster, _ exchange: StandInExchange, _ key: NKey, workers: Int = 2
    ) async throws -> RelaySettings {
        RelaySettings(
            servers: try #require(ServerAddress.list(await cluster.addresses, .nats)), key: key,
            network: network(cluster), origin: try #require(Origin(exchange.baseURL)),
            practitionerKey: try PractitionerKeyFile(practitionerKey), curl: CurlSettings(),
            device: "70007",
            code: .omhHeartRate, identifierSystem: "urn:edge-gateway:sample", workers: workers)
    }

    /// Runs a relay while `body` does; it listens when that begins.
    static func withRelay<Value: Sendable>(
        _ settings: RelaySettings, _ table: RelayTable,
        _ body: @Sendable (Relay) async throws -> Value
    ) async throws -> Value {
        let relay = Relay(settings, clock: SystemClock(), logger: quiet) { table }
        let (began, sink) = AsyncStream<Void>.makeStream()
        let running = Task { await relay.run { sink.yield() } }
        for await _ in began { break }
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await body(relay))
        } catch {
            outcome = .failure(error)
        }
        running.cancel()
        await running.value
        return try outcome.get()
    }

    static func destination(
        _ cluster: NATSCluster, _ name: String, _ key: NKey, patience: Duration = .seconds(60),
        clock: any GatewayClock = SystemClock()
    ) async throws -> any Destination {
        let kind = try DestinationRegistry.destination(
            "nats",
            [
                "url": await cluster.addresses, "gateway": name, "seed": key.seedText.revealed,
            ])
        return kind.make(
            DestinationParts(
                transport: CurlTransport(), network: network(cluster, patience: patience),
                clock: clock, logger: quiet))
    }

    static func points(
        _ count: Int, patient: Int?, run: UInt64 = 7, from first: Int64 = 0
    ) -> [OutgoingPoint] {
        (0..<Int64(count)).map { number in
            OutgoingPoint(
                DataPoint(
                    uuid: SampleIdentity(runNonce: run, sample: first + number).description,
                    .heartRate(
                        bpm: 70, at: UTC(microseconds: 1_795_334_400_000_000 + number * 1_000_000))),
                patient: patient.map(String.init), sensorID: 1, strap: StrapDatasheet(model: "H10"))
        }
    }

    static let stored = EntryAnswer(.stored, status: 201)
}

/// A relay between a gateway and the stand-in exchange, as a destination of the contract.
struct RelaySystem: NetworkedSystem {
    let kind = "nats"
    let cluster: NATSCluster
    let exchange: StandInExchange
    let settings: [String: String]
    let running: Task<Void, Never>

    static func start() async throws -> RelaySystem {
        let (gateway, relayKey) = (try RelayFixture.key(), try RelayFixture.key())
        let cluster = try await NATSCluster.start(users: [
            .gateway("ward", key: gateway.publicKey), .relay(key: relayKey.publicKey),
        ])
        let exchange = try await RelayFixture.exchange(patients: 1)
        let table = try RelayTable("ward \(RelayFixture.patient(0))")
        var settings = try await RelayFixture.settings(cluster, exchange, relayKey)
        settings.workers = 1
        let relay = Relay(settings, clock: SystemClock(), logger: RelayFixture.quiet) { table }
        let (began, sink) = AsyncStream<Void>.makeStream()
        let running = Task { await relay.run { sink.yield() } }
        for await _ in began { break }
        return RelaySystem(
            cluster: cluster, exchange: exchange,
            settings: [
                "url": await cluster.addresses, "gateway": "ward",
                "seed": gateway.seedText.revealed, "patient": "\(RelayFixture.patient(0))",
            ], running: running)
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let orphans = await exchange.orphans
        guard orphans == 0 else { throw SystemFault("\(orphans) rows without an identifier") }
        let repeated = await exchange.duplicates.values.reduce(0) { $0 + $1 - 1 }
        return (await exchange.storedCount() - repeated, repeated)
    }

    /// What reaches its servers.
    var network: CurlSettings { RelayFixture.network(cluster) }

    func stop() async {
        running.cancel()
        await running.value
        await exchange.stop()
        await cluster.stop()
    }
}
