import Foundation
import Testbed
import Testing

@Suite("The exchange fails the way the real one fails")
struct ExchangeFaultTests {
    static func bundle(_ count: Int, from first: Int = 0) -> [UInt8] {
        Sample.bundle(of: (first..<first + count).map { Sample.observation(id: "id-\($0)") })
    }

    @Test("a network cut refuses connections, and the same port answers after it")
    func networkCut() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.cutNetwork()
        #expect(await session.get("/health") == nil)
        try await session.exchange.restoreNetwork()
        #expect(await session.get("/health")?.status == 200)
        // Tokens and rows outlive the cut.
        #expect(await session.post(Self.bundle(1))?.status == 200)
        for _ in 0..<3 {
            await session.exchange.cutNetwork()
            try await session.exchange.restoreNetwork()
        }
        #expect(await session.get("/health")?.status == 200)
        await session.exchange.stop()
    }

    /// NIO trapped for a connection that was being accepted when the socket was closed.
    @Test("a network that is cut while clients connect ends no process")
    func cutWhileConnecting() async throws {
        let session = try await EnrolledExchange()
        try await withThrowingTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    while !Task.isCancelled { _ = await session.get("/health") }
                }
            }
            for _ in 0..<50 {
                await session.exchange.cutNetwork()
                try await session.exchange.restoreNetwork()
            }
            group.cancelAll()
        }
        #expect(await session.get("/health")?.status == 200)
        await session.exchange.stop()
    }

    @Test("a cut breaks a request under way, and the worker goes on")
    func cutUnderWay() async throws {
        let gate = Gate()
        let session = try await EnrolledExchange(time: gate.time)
        await session.exchange.inject(.slow(.seconds(1)), on: [.bundle])
        async let answer = session.post(Self.bundle(3))
        await gate.waitUntilATaskSleeps()
        await session.exchange.cutNetwork()
        #expect(await answer == nil)
        try await session.exchange.restoreNetwork()
        // Sent again while the first worker is still at it: a breach, and it shows.
        #expect(
            await session.post(Self.bundle(3))?.verdicts.allSatisfy { $0.hasPrefix("201") } == true)
        #expect(await session.exchange.overlappingRequests == 1)
        gate.open()
        // The first worker finds every sample stored, and adds nothing.
        while await session.exchange.samplesUnderWay > 0 { await Task.yield() }
        #expect(await session.exchange.storedCount() == 3)
        #expect(await session.exchange.orphans == 0)
        await session.exchange.stop()
    }

    @Test("a proxy's answers, for so many requests", arguments: [413, 429, 500, 502, 503, 504])
    func proxy(status: Int) async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(
            .status(status, retryAfterSeconds: 7), on: [.bundle], for: .requests(2))
        #expect(await session.get("/health")?.status == 200)
        for _ in 0..<2 {
            let answer = await session.post(Self.bundle(1))
            #expect(answer?.status == status)
            #expect(answer?.headers["retry-after"] == "7")
            #expect(answer?.isHTML == true)
        }
        #expect(await session.exchange.storedCount() == 0)
        #expect(await session.post(Self.bundle(1))?.verdicts == ["201 Created"])
        await session.exchange.stop()
    }

    @Test("a fault for a time ends by the exchange's clock")
    func faultForATime() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(.status(503), for: .duration(.seconds(3600)))
        #expect(await session.get("/health")?.status == 503)
        #expect(await session.post(Self.bundle(1))?.status == 503)
        await session.exchange.advanceClock(by: .seconds(3600))
        #expect(await session.get("/health")?.status == 200)
        await session.exchange.inject(.status(503), for: .untilCleared)
        #expect(await session.get("/health")?.status == 503)
        await session.exchange.clearFaults()
        #expect(await session.get("/health")?.status == 200)
        await session.exchange.stop()
    }

    @Test("with the database down: 500, server_error, single 422, health well")
    func databaseDown() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(
            .databaseDown, on: [.bundle, .observation, .token, .account, .invitation],
            for: .untilCleared)
        #expect(await session.get("/health")?.status == 200)
        #expect(await session.get("/api/v1/users/profile")?.status == 500)
        #expect(await session.post(Self.bundle(1))?.isHTML == true)
        let single = await session.post(
            Array(Sample.observation().utf8), to: "/FHIR/R5/Observation")
        #expect(single?.status == 422)
        #expect(single?.text.contains("connection to server") == true)
        let token = await session.refresh()
        #expect(token?.status == 500)
        #expect(token?.json?["error"]?.string == "server_error")
        await session.exchange.clearFaults()
        // The refresh never happened.
        #expect(await session.refresh()?.status == 200)
        await session.exchange.stop()
    }

    @Test("the database dies in the middle of a bundle: 200, and 422 for the rest")
    func databaseLost() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(.databaseLost(afterEntries: 2), on: [.bundle])
        let answer = await session.post(Self.bundle(5))
        #expect(answer?.status == 200)
        let verdicts = answer?.verdicts ?? []
        #expect(verdicts.map { String($0.prefix(3)) } == ["201", "201", "422", "422", "422"])
        #expect(verdicts[2].contains("server closed the connection unexpectedly"))
        #expect(verdicts[4].hasSuffix("connection already closed"))
        let again = await session.post(Self.bundle(5))?.verdicts.map { String($0.prefix(3)) }
        #expect(again == ["409", "409", "201", "201", "201"])
        await session.exchange.stop()
    }

    @Test("a killed worker leaves a part committed, with a page or without a word")
    func workerKilled() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(.workerKilled(afterEntries: 2), on: [.bundle])
        #expect(await session.post(Self.bundle(5))?.status == 500)
        #expect(await session.exchange.storedCount() == 2)
        await session.exchange.inject(
            .workerKilled(afterEntries: 3, answers: false), on: [.bundle])
        #expect(await session.post(Self.bundle(5)) == nil)
        #expect(await session.exchange.storedCount() == 3)
        await session.exchange.stop()
    }

    @Test("a worker busy for over 30 s is killed")
    func workerLimit() async throws {
        let gate = Gate(isOpen: true)
        let session = try await EnrolledExchange(time: gate.time)
        await session.exchange.setPace(perEntry: .seconds(10))
        #expect(await session.post(Self.bundle(8))?.status == 500)
        #expect(await session.exchange.storedCount() == 4)
        #expect(await session.post(Self.bundle(3, from: 10))?.status == 200)
        await session.exchange.stop()
    }

    /// Faults that spoil the answer of finished work; each stores both entries.
    static let spoilers: [ExchangeFault] = [
        .lostAnswer, .cutAnswer, .truncatedAnswer, .notJSONAnswer, .miscountedAnswer(by: 1),
        .miscountedAnswer(by: -1), .hugeAnswer(bytes: 3 << 20),
    ]

    @Test("a spoiled answer, with the work done", arguments: spoilers)
    func spoiled(fault: ExchangeFault) async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(fault, on: [.bundle])
        let answer = await session.post(Self.bundle(2))
        switch fault {
        case .lostAnswer, .cutAnswer: #expect(answer == nil)
        case .truncatedAnswer:
            #expect(answer?.status == 200)
            #expect(answer?.json == nil)
        case .notJSONAnswer: #expect(answer?.isHTML == true)
        case .miscountedAnswer(let extra): #expect(answer?.verdicts.count == 2 + extra)
        case .hugeAnswer(let bytes):
            #expect(answer?.body.count == bytes)
            #expect(answer?.verdicts.count == 2)
        default: break
        }
        #expect(await session.exchange.storedCount() == 2)
        #expect(await session.post(Self.bundle(2))?.verdicts.count == 2)
        #expect(await session.exchange.storedCount() == 2)
        await session.exchange.stop()
    }

    @Test("a connection that breaks before any work, and one that never answers")
    func noAnswer() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(.hangUp, on: [.bundle])
        #expect(await session.post(Self.bundle(1)) == nil)
        await session.exchange.inject(.silence, on: [.bundle])
        #expect(await session.post(Self.bundle(1), patience: 1) == nil)
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    @Test("a poisoned sample fails every bundle it is in, and alone gets 400")
    func poison() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.poison(ExchangeIdentifier(system: Sample.system, value: "id-3"))
        #expect(await session.post(Self.bundle(5))?.status == 500)
        #expect(await session.exchange.storedCount() == 0)
        #expect(await session.post(Self.bundle(3))?.status == 200)
        let single = await session.post(
            Array(Sample.observation(id: "id-3").utf8), to: "/FHIR/R5/Observation")
        #expect(single?.status == 400)
        await session.exchange.stop()
    }

    @Test("one worker works on one request after the other")
    func oneWorker() async throws {
        let gate = Gate()
        let session = try await EnrolledExchange(time: gate.time)
        await session.exchange.setPace(perEntry: .milliseconds(6))
        await session.exchange.setWorkers(1)
        let before = await session.exchange.requests.count
        async let first = session.post(Self.bundle(1))
        await gate.waitUntilATaskSleeps()
        async let second = session.post(Self.bundle(1))
        while await session.exchange.requests.count < before + 2 { await Task.yield() }
        gate.open()
        #expect(await first?.verdicts == ["201 Created"])
        #expect(await second?.verdicts.first?.hasPrefix("409") == true)
        #expect(await session.exchange.overlappingRequests == 0)
        #expect(await session.exchange.worked > .zero)
        await session.exchange.stop()
    }

    @Test("two requests with the same samples at once leave orphans, for ever")
    func orphanRace() async throws {
        let gate = Gate()
        let session = try await EnrolledExchange(time: gate.time)
        await session.exchange.setPace(perEntry: .milliseconds(6))
        async let first = session.post(Self.bundle(1))
        await gate.waitUntilATaskSleeps()
        async let second = session.post(Self.bundle(1))
        await gate.waitUntilATaskSleeps()
        gate.open()
        let verdicts = [await first?.verdicts.first ?? "", await second?.verdicts.first ?? ""]
            .sorted()
        #expect(verdicts[0] == "201 Created")
        #expect(
            verdicts[1].contains("409 Conflict: duplicate key value violates unique constraint"))
        #expect(await session.exchange.orphans == 1)
        #expect(await session.exchange.overlappingRequests == 1)
        #expect(await session.exchange.duplicates.count == 1)
        // One after the other there is no race.
        #expect(await session.post(Self.bundle(1))?.verdicts.first?.hasPrefix("409") == true)
        #expect(await session.exchange.orphans == 1)
        await session.exchange.stop()
    }

    @Test("consent withdrawn is 403 per entry, given again works at once")
    func consent() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.withdrawConsent(patient: 40001)
        let verdict = await session.post(Self.bundle(1))?.verdicts.first
        #expect(verdict?.hasPrefix("403 Forbidden: Observation data with coding_system=") == true)
        let consents = await session.get("/api/v1/patients/40001/consents")
        #expect(consents?.text.contains(#""consented":false"#) == true)
        await session.exchange.grantConsent(patient: 40001)
        #expect(await session.post(Self.bundle(1))?.verdicts == ["201 Created"])
        await session.exchange.stop()
    }

    @Test("a device whose type changes can upload no more")
    func deviceType() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.setDeviceType(70007, to: "medical_device")
        #expect(
            await session.post(Self.bundle(1))?.verdicts
                == ["400 Bad Request: Device Data Source id=70007 can not be found."])
        await session.exchange.stop()
    }

    @Test("the request log has no secret and no id in it")
    func log() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.forgetRequests()
        _ = await session.get("/api/v1/patients/40001/consents?token=secret")
        _ = await session.wire.send("POST", "/api/v1/invitation/\(session.invitation)/", body: [])
        _ = await session.post(Self.bundle(2))
        let log = await session.exchange.requests
        #expect(
            log.map(\.path) == ["/api/v1/patients/*/consents", "/api/v1/invitation/*", "/FHIR/R5/"])
        #expect(log.map(\.status) == [200, 404, 200])
        #expect(log.map(\.entries) == [nil, nil, 2])
        await session.exchange.stop()
    }
}
