import Basics
import Foundation
import OfflineQueue
import Synchronization
import Testing

@testable import Uplink

/// The client against brokers that answer wrongly, or not at all.
@Suite struct MQTTBrokerTests {
    private static let point = OutgoingPoint(
        DataPoint(
            uuid: SampleIdentity(runNonce: 7, sample: 1).description,
            .heartRate(bpm: 72, at: .epoch)), sensorID: 3)

    private static func kind(
        _ port: UInt16, _ more: [String: String] = [:]
    ) throws -> any DestinationKind {
        try DestinationRegistry.destination(
            "mqtt",
            [
                "url": "mqtt://127.0.0.1:\(port)", "gateway": "ward", "user": "gw",
                "password": "hush",
            ].merging(more) { $1 })
    }

    private static var parts: DestinationParts {
        var network = CurlSettings()
        network.connectTimeout = .milliseconds(700)
        network.totalTimeout = .milliseconds(700)
        return DestinationParts(
            transport: CurlTransport(), network: network, clock: StillClock(), logger: .quiet)
    }

    /// What becomes of two samples at a broker, and what a person reads.
    private static func deliver(
        _ more: [String: String] = [:],
        _ script: @escaping @Sendable (ScriptedBroker.Packet) -> ScriptedBroker.Answer
    ) async throws -> (answer: DeliveryAnswer, fault: String) {
        let broker = try ScriptedBroker(script: script)
        defer { broker.stop() }
        let destination = try kind(broker.port, more).make(parts)
        let answer = await destination.deliver([point, point], alone: false)
        let fault = await destination.fault ?? ""
        #expect(!fault.contains("hush"))
        await destination.finish()
        return (answer, fault)
    }

    private static let stored = DeliveryAnswer.entries([EntryAnswer(.stored), EntryAnswer(.stored)])

    private static func isGreeting(_ packet: ScriptedBroker.Packet) -> Bool {
        String(decoding: packet.body, as: UTF8.self).hasSuffix("online")
    }

    @Test func aBrokerThatAcknowledgesEverythingHasEverything() async throws {
        let (answer, fault) = try await Self.deliver { packet in
            packet.head >> 4 == ScriptedBroker.connect
                ? ScriptedBroker.connack() : ScriptedBroker.puback(packet)
        }
        #expect(answer == Self.stored && fault == "")
    }

    @Test(
        arguments: [
            [0x20, 0x03, 0x00, 0x00], [0x20, 0x00], [0x20, 0x7F, 0x00, 0x00, 0x00],
            [0x00, 0x00], [0xF0, 0x00], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x90, 0x03, 0, 1, 0],
            Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
            [0x20, 0x05, 0x00, 0x00, 0x02, 0x27, 0x00],
            [0x20, 0x06, 0x00, 0x00, 0x03, 0x21, 0x00, 0x00], Array(repeating: 0x30, count: 4096),
        ] as [[UInt8]])
    func aConnectionThatIsAnsweredWithNonsenseSendsNothing(bytes: [UInt8]) async throws {
        let (answer, fault) = try await Self.deliver { packet in
            packet.head >> 4 == ScriptedBroker.connect ? .bytes(bytes) : .silence
        }
        #expect(answer == .notSent(retryAt: nil), "\(fault)")
        #expect(!fault.isEmpty)
    }

    @Test(
        arguments: [
            (
                134, "CONNACK 134 (bad user name or password)",
                DeliveryAnswer.held(.credentialsRefused, retryAt: nil)
            ),
            (138, "CONNACK 138 (banned)", .held(.forbidden, retryAt: nil)),
            (136, "CONNACK 136 (server unavailable)", .throttled(retryAfter: nil)),
        ])
    func aRefusedConnectionSaysWhy(code: Int, words: String, expected: DeliveryAnswer) async throws
    {
        let (answer, fault) = try await Self.deliver { _ in ScriptedBroker.connack(UInt8(code)) }
        #expect(answer == expected && fault == "the broker answers \(words)")
    }

    @Test func aBrokerOfMQTT311ThatRefusesThePasswordIsUnderstood() async throws {
        let (answer, _) = try await Self.deliver(["version": "3.1.1"]) { _ in
            .bytes([0x20, 0x02, 0x00, 0x05])
        }
        #expect(answer == .held(.credentialsRefused, retryAt: nil))
    }

    @Test func aBrokerThatKnowsNoMQTT5IsUnderstood() async throws {
        let (answer, fault) = try await Self.deliver { _ in .bytes([0x20, 0x02, 0x00, 0x01]) }
        #expect(answer == .held(.requestRefused, retryAt: nil), "\(fault)")
    }

    @Test func acknowledgementsOfOtherMessagesDeliverNothing() async throws {
        let (answer, _) = try await Self.deliver { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            if Self.isGreeting(packet) { return ScriptedBroker.puback(packet) }
            return .bytes([0x40, 0x02, 0x7A, 0x7A])
        }
        guard case .unanswered = answer else {
            Issue.record("\(answer)")
            return
        }
    }

    @Test(
        arguments: [
            [0x40, 0x01, 0x00], [0x40, 0x00], [0xE0, 0x01], [0x40, 0xFF, 0xFF, 0xFF, 0xFF],
        ] as [[UInt8]])
    func aBrokenAnswerToASampleDeliversNothing(bytes: [UInt8]) async throws {
        let (answer, _) = try await Self.deliver { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            return Self.isGreeting(packet) ? ScriptedBroker.puback(packet) : .bytes(bytes)
        }
        switch answer {
        case .unanswered, .unclear: break
        default: Issue.record("\(answer)")
        }
    }

    @Test(arguments: [ScriptedBroker.Answer.close, .silence])
    func samplesOfWhichNothingIsHeardAreUnanswered(_ end: ScriptedBroker.Answer) async throws {
        let (answer, fault) = try await Self.deliver { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            return Self.isGreeting(packet) ? ScriptedBroker.puback(packet) : end
        }
        guard case .unanswered = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(!fault.isEmpty)
    }

    @Test func rulesThatRefuseASampleHoldTheDelivery() async throws {
        let (answer, fault) = try await Self.deliver { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            return ScriptedBroker.puback(packet, Self.isGreeting(packet) ? 0 : 135)
        }
        #expect(answer == .held(.forbidden, retryAt: nil))
        #expect(fault == "the broker answers PUBACK 135 (not authorized)")
    }

    @Test func aBrokerWithoutRetainedMessagesIsHeldAndSaysSo() async throws {
        let (answer, fault) = try await Self.deliver { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            let isRetained = packet.head & 1 == 1
            return isRetained ? .bytes([0xE0, 0x02, 154, 0x00]) : ScriptedBroker.puback(packet)
        }
        #expect(answer == .held(.requestRefused, retryAt: nil))
        #expect(fault.contains("retain not supported"))
    }

    @Test func aClientThatTookOverIsNotDrivenAway() async throws {
        let broker = try ScriptedBroker { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            return Self.isGreeting(packet)
                ? ScriptedBroker.puback(packet) : .bytes([0xE0, 0x02, 142, 0x00])
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port).make(Self.parts)
        #expect(
            await destination.deliver([Self.point], alone: false)
                == .held(.nameTaken, retryAt: nil))
        #expect(await destination.fault == "the broker answers DISCONNECT 142 (session taken over)")
        // Nothing that is shown meanwhile sends the other one away either.
        await destination.show(GatewayState(report: Array("{}".utf8), version: "1", straps: []))
        #expect(await !destination.isMended(.nameTaken))
        #expect(broker.connections == 1)
    }

    /// Two gateways of one name took each other's place 47 times a minute, and both were well.
    @Test(arguments: [true, false, nil] as [Bool?])
    func aConnectionThatIsCutAgainAndAgainMayBeAnotherGateways(isOnline: Bool?) async throws {
        let broker = try ScriptedBroker { packet in
            let text = String(decoding: packet.body, as: UTF8.self)
            switch packet.head >> 4 {
            case ScriptedBroker.connect: return ScriptedBroker.connack()
            case 8:
                // SUBACK, and what is retained.
                var bytes: [UInt8] = [0x90, 0x04] + packet.body.prefix(2) + [0, 0]
                if let isOnline {
                    let topic = Array("edge-gateway/ward/status".utf8)
                    let payload = Array((isOnline ? "online" : "offline").utf8)
                    let body = [0, UInt8(topic.count)] + topic + [0] + payload
                    bytes += [0x31, UInt8(body.count)] + body
                }
                return .bytes(bytes)
            case ScriptedBroker.publish where text.hasSuffix("online"):
                return ScriptedBroker.puback(packet)
            default: return .close
            }
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port).make(Self.parts)
        for _ in 0..<NameRivalry.cutsMax {
            let answer = await destination.deliver([Self.point], alone: false)
            guard case .unanswered = answer else {
                Issue.record("\(answer)")
                return
            }
        }
        let answer = await destination.deliver([Self.point], alone: false)
        if isOnline == false {
            guard case .unanswered = answer else {
                Issue.record("\(answer)")
                return
            }
        } else {
            #expect(answer == .held(.nameTaken, retryAt: nil))
            #expect(await destination.fault?.contains("has this gateway's name") == true)
            #expect(broker.connections == NameRivalry.cutsMax + 1)
        }
        await destination.finish()
    }

    /// A broker that went down for a moment was taken for one with another gateway of this name, for ten minutes.
    @Test func aBrokerThatCannotBeAskedHasNoOtherGateway() async throws {
        let isDown = Mutex(false)
        let broker = try ScriptedBroker { packet in
            if packet.head >> 4 == ScriptedBroker.connect {
                return isDown.withLock(\.self) ? .close : ScriptedBroker.connack()
            }
            return Self.isGreeting(packet) ? ScriptedBroker.puback(packet) : .close
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port).make(Self.parts)
        func deliver() async -> DeliveryAnswer {
            await destination.deliver([Self.point], alone: false)
        }
        for _ in 0..<2 {
            isDown.withLock { $0 = false }
            for _ in 0..<NameRivalry.cutsMax {
                let answer = await deliver()
                guard case .unanswered = answer else {
                    Issue.record("\(answer)")
                    return
                }
            }
            isDown.withLock { $0 = true }
            #expect(await deliver() == .notSent(retryAt: nil))
        }
        await destination.finish()
    }

    /// ThingsBoard has no status that could be asked for: cuts held its delivery for ten minutes.
    @Test func cutsWithoutAStatusAtTheBrokerTellOfNobody() async throws {
        let broker = try ScriptedBroker { packet in
            packet.head >> 4 == ScriptedBroker.connect ? ScriptedBroker.connack() : .close
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port, ["format": "thingsboard"]).make(Self.parts)
        for _ in 0...NameRivalry.cutsMax {
            let answer = await destination.deliver([Self.point], alone: false)
            guard case .unanswered = answer else {
                Issue.record("\(answer)")
                return
            }
        }
        await destination.finish()
    }

    @Test func aRivalIsSuspectedAfterQuickCutsInARowAndForgottenWhenItIsGone() {
        var rivalry = NameRivalry()
        func cut(_ seconds: Int64, at now: Int64) {
            rivalry.ended(after: .seconds(seconds), isTakenOver: false, .seconds(now))
        }
        for now: Int64 in [1, 2, 3] { cut(1, at: now) }
        cut(31, at: 40)
        for now: Int64 in [41, 42, 43] { cut(29, at: now) }
        #expect(!rivalry.isSuspected)
        cut(1, at: 44)
        #expect(rivalry.isSuspected && rivalry.nextLook == .seconds(44))
        rivalry.looked(.online, .seconds(44))
        #expect(rivalry.isSuspected && rivalry.nextLook == .seconds(104))
        rivalry.looked(.offline, .seconds(104))
        #expect(!rivalry.isSuspected)

        rivalry.ended(after: .seconds(9_999), isTakenOver: true, .seconds(200))
        #expect(rivalry.isSuspected && rivalry.nextLook == .seconds(260))
        rivalry.looked(.unknown, .seconds(260))
        #expect(rivalry.isSuspected && rivalry.nextLook == .seconds(860))
        rivalry.looked(.unknown, .seconds(860))
        #expect(!rivalry.isSuspected, "where nothing can be read it is tried again")
    }

    @Test func aConnectionThatBrokeIsOpenedAnewAndTheGatewayIsOnlineAgain() async throws {
        let broker = try ScriptedBroker { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            return Self.isGreeting(packet) ? ScriptedBroker.puback(packet) : .close
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port).make(Self.parts)
        for _ in 0..<2 { _ = await destination.deliver([Self.point], alone: false) }
        #expect(broker.connections == 2)
        // Each time the greeting and the sample.
        #expect(broker.publishes == 4)
        await destination.finish()
    }

    @Test func samplesGoOnAtABrokerThatEndsTheConnectionForTheGatewaysState() async throws {
        let broker = try ScriptedBroker { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            let topic = String(decoding: packet.body, as: UTF8.self)
            return topic.contains("ward/health") ? .close : ScriptedBroker.puback(packet)
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port).make(Self.parts)
        let state = GatewayState(
            report: Array("{}".utf8), version: "1",
            straps: [GatewayState.Strap(id: 1, name: "Bed 7", isStreaming: true)])
        #expect(await destination.deliver([Self.point, Self.point], alone: false) == Self.stored)
        for _ in 0..<2 {
            await destination.show(state)
            #expect(await destination.partialFault?.contains("state is not shown") == true)
            let answer = await destination.deliver([Self.point, Self.point], alone: false)
            #expect(answer == Self.stored)
        }
        await destination.finish()
    }

    @Test func aTopicThatTheRulesForbidIsNamedAndHoldsNoSample() async throws {
        let broker = try ScriptedBroker { packet in
            if packet.head >> 4 == ScriptedBroker.connect { return ScriptedBroker.connack() }
            let topic = String(decoding: packet.body, as: UTF8.self)
            return ScriptedBroker.puback(packet, topic.contains("homeassistant/") ? 135 : 0)
        }
        defer { broker.stop() }
        let destination = try Self.kind(broker.port, ["discovery": "on"]).make(Self.parts)
        await destination.show(GatewayState(report: Array("{}".utf8), version: "1", straps: []))
        let fault = await destination.partialFault ?? ""
        #expect(fault.contains("homeassistant/device/edge-gateway_ward_gateway/config"))
        #expect(fault.contains("PUBACK 135") && !fault.contains("hush"))
        await destination.finish()
    }

    // MARK: - Before anything is stored

    private static func problem(
        _ kind: any DestinationKind, _ parts: DestinationParts = Self.parts
    ) async throws -> DestinationProblem {
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await kind.probe(parts)
        }
        let found = try #require(problem)
        #expect(!"\(found)".contains("hush") && !found.advice.isEmpty)
        return found
    }

    @Test func aWrongPortSaysSo() async throws {
        let problem = try await Self.problem(try Self.kind(1))
        #expect(problem.message == "no connection to the server 127.0.0.1")
        #expect(problem.advice.contains("port"))
    }

    @Test func aRefusedPortWithTLSSaysSoAtOnce() async throws {
        var parts = Self.parts
        parts.network.connectTimeout = .seconds(30)
        let problem = try await Self.problem(
            try Self.kind(1, ["url": "mqtts://127.0.0.1:1"]), parts)
        #expect(problem.message == "no connection to the server 127.0.0.1")
    }

    /// Loopback connects at once, no other network does.
    @Test func aBrokerIsReachedByTLSThoughItsConnectionTakesASecond() async throws {
        let server = try await TLSServer(.issued(days: 30))
        defer { server.stop() }
        let late = try LateListener(before: server.port)
        defer { late.stop() }
        var parts = Self.parts
        parts.network.connectTimeout = .seconds(30)
        let problem = try await Self.problem(
            try Self.kind(1, ["url": "mqtts://127.0.0.1:\(late.port)"]), parts)
        #expect(problem.message.contains("an authority this machine does not trust"), "\(problem)")
        #expect(late.wasLate)
    }

    @Test func aNameThatDoesNotResolveSaysSo() async throws {
        let problem = try await Self.problem(
            try Self.kind(1, ["url": "mqtts://broker.invalid"]))
        #expect(problem.message.contains("broker.invalid could not be resolved"))
    }

    @Test func plainTextToAnotherHostIsRefusedBeforeAnythingIsSent() async throws {
        let problem = try await Self.problem(try Self.kind(1, ["url": "mqtt://192.0.2.1"]))
        #expect(problem.advice.contains("mqtts://"))
    }

    @Test func aServerThatSaysNothingSaysSo() async throws {
        let broker = try ScriptedBroker { _ in .silence }
        defer { broker.stop() }
        let problem = try await Self.problem(try Self.kind(broker.port))
        #expect(problem.message == "no answer in time")
    }

    @Test(
        arguments: [
            (
                TLSServer.Certificate.issued(days: 30), false,
                "an authority this machine does not trust"
            ),
            (.otherHost, true, "belongs to another host name"),
            (.selfSigned, true, "self-signed"),
        ])
    func aCertificateThatIsNotTrustedSaysWhy(
        certificate: TLSServer.Certificate, knowsAuthority: Bool, words: String
    ) async throws {
        let server = try await TLSServer(certificate)
        defer { server.stop() }
        var parts = Self.parts
        parts.network.connectTimeout = .seconds(10)
        if knowsAuthority { parts.network.authorityFile = server.authorityFile }
        let kind = try Self.kind(1, ["url": "mqtts://127.0.0.1:\(server.port)"])
        let problem = try await Self.problem(kind, parts)
        #expect(problem.message.contains(words), "\(problem)")
    }

    @Test func anAuthorityFileThatIsNotThereSaysSo() async throws {
        var parts = Self.parts
        parts.network.authorityFile = "/nonexistent.pem"
        let problem = try await Self.problem(
            try Self.kind(1, ["url": "mqtts://127.0.0.1:1"]), parts)
        #expect(problem.message.contains("CA file cannot be read"), "\(problem)")
    }

    @Test func aPortWithoutTLSSaysSo() async throws {
        let broker = try ScriptedBroker { _ in .close }
        defer { broker.stop() }
        let problem = try await Self.problem(
            try Self.kind(1, ["url": "mqtts://127.0.0.1:\(broker.port)"]))
        #expect(problem.advice.contains("8883"), "\(problem)")
    }
}
