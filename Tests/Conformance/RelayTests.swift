import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// The relay and its gateways over a real nats-server with TLS, accounts and NKEYs.
@Suite(.serialized) struct RelayTests {
    /// Runs `body` with a cluster that knows a gateway `gw1`, another one `gw2`, a relay, and a gateway of another
    /// clinic; it is stopped whatever happens.
    private static func with(
        host: String = "localhost",
        _ body: @Sendable (NATSCluster, _ keys: [String: NKey]) async throws -> Void
    ) async throws {
        var keys: [String: NKey] = [:]
        for name in ["gw1", "gw2", "relay", "elsewhere"] { keys[name] = try RelayFixture.key() }
        func publicKey(_ name: String) -> String { keys[name]?.publicKey ?? "" }
        // It hears everything that there is in its own account.
        var curious = NATSCluster.User.gateway("gw1", key: publicKey("elsewhere"))
        curious.subscribe = [">"]
        let cluster = try await NATSCluster.start(
            users: [
                .gateway("gw1", key: publicKey("gw1")), .gateway("gw2", key: publicKey("gw2")),
                .relay(key: publicKey("relay")),
            ],
            others: [curious], host: host)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(cluster, keys))
        } catch {
            outcome = .failure(error)
        }
        await cluster.stop()
        try outcome.get()
    }

    @Test func aGatewayGetsTheExchangesOwnVerdictForEachEntry() async throws {
        try await Self.with { cluster, keys in
            let exchange = try await RelayFixture.exchange(patients: 2)
            let patient = RelayFixture.patient(0)
            let table = try RelayTable("gw1 \(patient)\ngw1 49999")
            let settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]))
            try await RelayFixture.withRelay(settings, table) { relay in
                let gateway = try await RelayFixture.destination(
                    cluster, "gw1", try #require(keys["gw1"]))
                #expect(await gateway.isHealthy())
                let first = RelayFixture.points(2, patient: patient)
                #expect(
                    await gateway.deliver(first, alone: false)
                        == .entries([RelayFixture.stored, RelayFixture.stored]))
                let foreign = RelayFixture.points(1, patient: RelayFixture.patient(1), run: 8)
                let unknown = RelayFixture.points(1, patient: 49_999, run: 9)
                let nobody = RelayFixture.points(1, patient: nil, run: 10)
                let answer = await gateway.deliver(
                    first + foreign + unknown + nobody, alone: false)
                guard case .entries(let entries) = answer else {
                    Issue.record("\(answer)")
                    return
                }
                #expect(
                    entries.map(\.verdict).prefix(3) == [
                        .storedBefore, .storedBefore, .held(.wrongPatient),
                    ])
                #expect(entries[2].diagnostics.contains("table") && entries[3].status >= 400)
                #expect(entries.last?.verdict == .held(.patientUnknown))
                #expect(await exchange.storedCount() == 2)
                let facts = await relay.facts
                #expect(facts.stored == 2 && facts.forbidden == 1 && facts.isListening)
                await gateway.finish()
            }
            await exchange.stop()
        }
    }

    @Test func anAnswerGoesToTheGatewayThatAskedOrNowhere() async throws {
        try await Self.with { cluster, keys in
            let exchange = try await RelayFixture.exchange(patients: 0)
            let settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]))
            let relay = Relay(settings, clock: SystemClock(), logger: RelayFixture.quiet) {
                RelayTable()
            }
            func receive(answerTo reply: String?) async {
                let now = SystemClock().read().uptime
                await relay.receive(
                    Relay.Incoming(
                        message: NATSMessage(
                            subject: "heart-rate.gw1", reply: reply, payload: []),
                        read: now, departure: now))
            }
            for reply in [nil, "_INBOX.gw2.s.1", "_INBOX.gw1", "heart-rate.gw2", ""] {
                await receive(answerTo: reply)
            }
            #expect(await relay.facts.requests == 0)
            await receive(answerTo: "_INBOX.gw1.s.1")
            #expect(await relay.facts.malformed == 1)
            await exchange.stop()
        }
    }

    @Test func aPoisonousRequestDoesNotTakeTheOthersWithIt() async throws {
        try await Self.with { cluster, keys in
            let exchange = try await RelayFixture.exchange(patients: 2)
            let (one, two) = (RelayFixture.patient(0), RelayFixture.patient(1))
            let table = try RelayTable("gw1 \(one)\ngw2 \(two)")
            let settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]), workers: 1)
            let good = RelayFixture.points(5, patient: one, run: 1)
            let bad = RelayFixture.points(5, patient: two, run: 2)
            await exchange.poison(
                ExchangeIdentifier(
                    system: "urn:edge-gateway:sample", value: bad[3].point.uuid))
            try await RelayFixture.withRelay(settings, table) { relay in
                let (first, second) = (
                    try await RelayFixture.destination(cluster, "gw1", try #require(keys["gw1"])),
                    try await RelayFixture.destination(cluster, "gw2", try #require(keys["gw2"]))
                )
                _ = await (first.isHealthy(), second.isHealthy())
                async let taken = first.deliver(good, alone: false)
                async let spoiled = second.deliver(bad, alone: false)
                let answers = await (taken, spoiled)
                #expect(answers.0 == .entries(good.map { _ in RelayFixture.stored }))
                #expect(answers.1 == .unclear("500"))
                #expect(await exchange.storedCount() == 5)
                // By itself each entry has an honest answer.
                let alone = await second.deliver([bad[3]], alone: true)
                guard case .entries(let entries) = alone else {
                    Issue.record("\(alone)")
                    return
                }
                #expect(entries.map(\.verdict) == [.refused])
                await first.finish()
                await second.finish()
            }
            await exchange.stop()
        }
    }

    /// The relay asks the exchange about each patient: one of them held up all gateways behind it.
    @Test func aPatientWhoseConsentsCannotBeReadHoldsUpNoOtherGateway() async throws {
        try await Self.with { cluster, keys in
            let exchange = try await RelayFixture.exchange(patients: 2)
            let (one, two) = (RelayFixture.patient(0), RelayFixture.patient(1))
            await exchange.breakConsents(of: two)
            let table = try RelayTable("gw1 \(one)\ngw2 \(two)\ngw2 \(one)")
            var settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]), workers: 1)
            settings.code = nil
            try await RelayFixture.withRelay(settings, table) { relay in
                let (first, second) = (
                    try await RelayFixture.destination(cluster, "gw1", try #require(keys["gw1"])),
                    try await RelayFixture.destination(cluster, "gw2", try #require(keys["gw2"]))
                )
                _ = await (first.isHealthy(), second.isHealthy())
                let mixed =
                    RelayFixture.points(1, patient: two, run: 2)
                    + RelayFixture.points(1, patient: one, run: 3)
                async let taken = first.deliver(
                    RelayFixture.points(5, patient: one), alone: false)
                async let parted = second.deliver(mixed, alone: false)
                let answers = await (taken, parted)
                #expect(
                    answers.0 == .entries(Array(repeating: RelayFixture.stored, count: 5)))
                #expect(
                    answers.1
                        == .entries([EntryAnswer(.held(.patientUnknown)), RelayFixture.stored]))
                #expect(await relay.facts.isWell)
                await first.finish()
                await second.finish()
            }
            await exchange.stop()
        }
    }

    /// The reading of all gateways' requests waited for the answer. Of a second gateway that asks nobody may say that all
    /// is well: it would send again what is still under way.
    @Test func aQuestionAboutTheExchangesHealthHoldsUpNoRequest() async throws {
        try await Self.with { cluster, keys in
            let exchange = try await RelayFixture.exchange(patients: 1)
            await exchange.inject(.silence, on: [.account], for: .requests(1))
            let patient = RelayFixture.patient(0)
            let settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]), workers: 1)
            try await RelayFixture.withRelay(settings, RelayTable("gw2 \(patient)")) { relay in
                let (first, second) = (
                    try await RelayFixture.destination(cluster, "gw1", try #require(keys["gw1"])),
                    try await RelayFixture.destination(cluster, "gw2", try #require(keys["gw2"]))
                )
                async let isHealthy = first.isHealthy()
                let other = try await RelayFixture.destination(
                    cluster, "gw1", try #require(keys["gw1"]))
                async let isHealthyToo = other.isHealthy()
                while await !exchange.requests.contains(where: { $0.route == .account }) {
                    try await Task.sleep(for: .milliseconds(10))
                }
                let points = RelayFixture.points(5, patient: patient)
                #expect(
                    await second.deliver(points, alone: false)
                        == .entries(points.map { _ in RelayFixture.stored }))
                while await relay.facts.requests < 3 {
                    try await Task.sleep(for: .milliseconds(10))
                }
                // It ends the question as well.
                await exchange.stop()
                let wereHealthy = await [isHealthy, isHealthyToo]
                #expect(wereHealthy == [false, false])
                await other.finish()
                await first.finish()
                await second.finish()
            }
        }
    }

    @Test func aDeviceThatWasReplacedIsForgottenByAllWorkers() async throws {
        try await Self.with { cluster, keys in
            var seed = ExchangeSeed.withPatients(1)
            seed.studies[0].devices = [70001, 70007]
            let exchange = try await StandInExchange.start(seed: seed)
            await exchange.setDeviceType(70001, to: "medical_device")
            let patient = RelayFixture.patient(0)
            var settings = try await RelayFixture.settings(
                cluster, exchange, try #require(keys["relay"]), workers: 3)
            (settings.device, settings.code) = (nil, nil)
            try await RelayFixture.withRelay(settings, RelayTable("gw1 \(patient)")) { relay in
                let gateway = try await RelayFixture.destination(
                    cluster, "gw1", try #require(keys["gw1"]))
                func deliver(_ run: UInt64) async -> [EntryVerdict] {
                    let points = RelayFixture.points(1, patient: patient, run: run)
                    let answer = await gateway.deliver(points, alone: false)
                    if case .entries(let entries) = answer { return entries.map(\.verdict) }
                    return []
                }
                // Each worker has learned it.
                for worker in await relay.workers {
                    let points = RelayFixture.points(1, patient: patient, run: 1)
                    _ = await worker.deliver(points, alone: true)
                }
                await exchange.setDeviceType(70007, to: "medical_device")
                await exchange.setDeviceType(70001, to: "personal_device")
                #expect(await deliver(2) == [.held(.deviceNotChosen)])
                for worker in await relay.workers {
                    #expect(await worker.knownAttributions.isEmpty)
                }
                #expect(await deliver(3) == [.stored])
                await gateway.finish()
            }
            await exchange.stop()
        }
    }

    @Test func withoutARelayNothingIsSent() async throws {
        try await Self.with { cluster, keys in
            let gateway = try await RelayFixture.destination(
                cluster, "gw1", try #require(keys["gw1"]))
            let points = RelayFixture.points(3, patient: 40001)
            #expect(await gateway.deliver(points, alone: false) == .notSent(retryAt: nil))
            #expect(await gateway.fault == "no relay listens")
            await cluster.kill(0)
            // Until it hears of the server's end, the client cannot know what became of a request.
            let first = await gateway.deliver(points, alone: false)
            #expect(
                first == .notSent(retryAt: nil) || first == .unanswered("\(TransportFault.cut)"))
            #expect(await gateway.deliver(points, alone: false) == .notSent(retryAt: nil))
            #expect(await gateway.fault == "no NATS server takes a connection")
            await gateway.finish()
        }
    }

    @Test func aConnectionThatBreaksLeavesTheOutcomeOpen() async throws {
        try await Self.with { cluster, keys in
            // It hears, and never answers.
            let silent = try await RelayFixture.connection(
                cluster, "relay", try #require(keys["relay"]))
            #expect(await silent.open() == nil)
            let (came, sink) = AsyncStream<String>.makeStream()
            let fault = await silent.serve("heart-rate.*", queue: "relay") {
                sink.yield($0.subject)
            }
            #expect(fault == nil)
            let gateway = try await RelayFixture.destination(
                cluster, "gw1", try #require(keys["gw1"]), patience: .seconds(1))
            let points = RelayFixture.points(1, patient: 40001)
            #expect(
                await gateway.deliver(points, alone: false) == .unanswered("no answer in time"))
            async let answer = RelayFixture.destination(
                cluster, "gw2", try #require(keys["gw2"])
            ).deliver(points, alone: false)
            for await subject in came where subject == "heart-rate.gw2" { break }
            await cluster.kill(0)
            let expected = DeliveryAnswer.unanswered(
                "the connection broke before the answer was complete")
            #expect(try await answer == expected)
            await silent.close()
            await gateway.finish()
        }
    }

    @Test func aGatewaySendsUnderItsOwnNameOnly() async throws {
        try await Self.with { cluster, keys in
            let relay = try await RelayFixture.connection(
                cluster, "relay", try #require(keys["relay"]))
            #expect(await relay.open() == nil)
            let (came, sink) = AsyncStream<NATSMessage>.makeStream()
            #expect(await relay.serve("heart-rate.*", queue: "relay") { sink.yield($0) } == nil)
            let gateway = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["gw1"]))
            #expect(await gateway.open() == nil)
            let foreign = await gateway.request("heart-rate.gw2", [1], patience: .seconds(20))
            #expect(foreign == .notSent(.forbidden))
            // It may not listen for others' requests or answers.
            let listening = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["gw1"]))
            #expect(await listening.open() == nil)
            #expect(await listening.serve("heart-rate.*", queue: "relay") { _ in } == .forbidden)
            let curious = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["gw1"]), inbox: "gw2")
            #expect(await curious.open() == nil)
            #expect(
                await curious.request("heart-rate.gw1", [2], patience: .seconds(20))
                    == .notSent(.forbidden))
            // Another clinic's relay and gateways are in another world.
            let other = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["elsewhere"]))
            #expect(await other.open() == nil)
            #expect(
                await other.request("heart-rate.gw1", [3], patience: .seconds(20)) == .noResponders)
            async let own = gateway.request("heart-rate.gw1", [4], patience: .seconds(20))
            for await message in came where message.payload == [4] {
                #expect(message.subject == "heart-rate.gw1")
                #expect(await relay.publish([5], to: try #require(message.reply)) == nil)
                break
            }
            #expect(await own == .answered([5]))
            for one in [relay, gateway, listening, curious, other] { await one.close() }
        }
    }

    @Test func anUnknownKeyAndAnUntrustedServerAreToldApart() async throws {
        try await Self.with { cluster, keys in
            let stranger = try await RelayFixture.destination(
                cluster, "gw1", try RelayFixture.key())
            let points = RelayFixture.points(1, patient: 40001)
            #expect(
                await stranger.deliver(points, alone: false)
                    == .held(.credentialsRefused, retryAt: nil))
            var settings = NATSSettings(
                servers: try #require(ServerAddress.list(await cluster.addresses, .nats)),
                name: "gw1",
                key: try #require(keys["gw1"]), inbox: "_INBOX.gw1", network: CurlSettings())
            guard case .tls? = await NATSConnection(settings).open() else {
                Issue.record("a certificate of an unknown authority is taken")
                return
            }
            settings.network = RelayFixture.network(cluster)
            settings.servers = try await cluster.ports.map {
                try #require(ServerAddress("nats://gateway.example:\($0)", .nats))
            }
            #expect(await NATSConnection(settings).open() == .plainRefused)
        }
        try await Self.with(host: "other.example") { cluster, keys in
            let connection = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["gw1"]))
            guard case .tls? = await connection.open() else {
                Issue.record("a certificate of another name is taken")
                return
            }
        }
    }

    @Test func aRevokedGatewayIsOutWithinASecond() async throws {
        try await Self.with { cluster, keys in
            let gateway = try await RelayFixture.connection(
                cluster, "gw1", try #require(keys["gw1"]))
            let other = try await RelayFixture.connection(
                cluster, "gw2", try #require(keys["gw2"]))
            for one in [gateway, other] { #expect(await one.open() == nil) }
            let began = ContinuousClock.now
            try await cluster.replace(users: [
                .gateway("gw2", key: keys["gw2"]?.publicKey ?? ""),
                .relay(key: keys["relay"]?.publicKey ?? ""),
            ])
            await gateway.ended()
            let took = ContinuousClock.now - began
            print("a revoked gateway was out after \(took)")
            #expect(took < .seconds(1))
            #expect(await gateway.open() == .refused)
            #expect(
                await other.request("heart-rate.gw2", [], patience: .seconds(20)) == .noResponders)
            for one in [gateway, other] { await one.close() }
        }
    }

    @Test func manyGatewaysConnectAtOnce() async throws {
        let count =
            ProcessInfo.processInfo.environment["RELAY_CONNECTIONS"].flatMap(Int.init) ?? 1_000
        let keys = try (0..<count).map { _ in try RelayFixture.key() }
        let cluster = try await NATSCluster.start(
            nodes: 3,
            users: keys.enumerated().map { .gateway("g\($0.offset)", key: $0.element.publicKey) })
        var connections: [NATSConnection] = []
        for (index, key) in keys.enumerated() {
            connections.append(try await RelayFixture.connection(cluster, "g\(index)", key))
        }
        let began = ContinuousClock.now
        let faults = await withTaskGroup(of: NATSFault?.self) { group in
            for connection in connections { group.addTask { await connection.open() } }
            return await group.reduce(into: [NATSFault]()) {
                if let fault = $1 { $0.append(fault) }
            }
        }
        print("\(count) gateways connected in \(ContinuousClock.now - began)")
        #expect(faults.isEmpty, "\(Dictionary(grouping: faults) { $0 }.mapValues(\.count))")
        for connection in connections { await connection.close() }
        await cluster.stop()
    }
}
