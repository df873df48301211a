import Synchronization
import Testbed
import Testing

@testable import BlueZ

/// What a person was asked, and what they say.
private final class Person: Sendable {
    private let answers: PairingAnswer
    private let heard = Mutex<[PairingQuestion]>([])

    init(_ answer: PairingAnswer) { answers = answer }

    var questions: [PairingQuestion] { heard.withLock { $0 } }

    func agent(_ also: @escaping @Sendable (PairingQuestion) async -> Void = { _ in })
        -> PairingAgent
    {
        PairingAgent(address: Stage.strap) { question in
            self.heard.withLock { $0.append(question) }
            await also(question)
            return self.answers
        }
    }
}

@Suite("Bonds, against the simulated org.bluez", .timeLimit(.minutes(10)))
struct CentralBondingTests {
    private func stage(
        _ security: SimulatedStrap.Security,
        habits: @Sendable (inout BlueZHabits) -> Void = { _ in }
    ) async throws -> Stage {
        let stage = try await Stage(habits: habits, each: { $0.security = security })
        await stage.start()
        return stage
    }

    private func inspect(
        _ stage: Stage, _ agent: PairingAgent?, deadline: Duration? = nil
    ) async throws(InspectionFault) -> Inspection {
        try await stage.central.inspect(
            address: Stage.strap, service: Stage.service, characteristic: Stage.measurement,
            reading: [], agent: agent, deadline: deadline)
    }

    @Test("a strap that wants none gets none, though a person is there to ask")
    func open() async throws {
        let stage = try await stage(.open)
        let person = Person(.yes)
        _ = try await inspect(stage, person.agent())
        #expect(await !stage.bluez.isBonded(Stage.strap))
        #expect(await stage.bluez.callCount("Pair") == 0)
        #expect(person.questions.isEmpty)
        #expect(await !stage.bluez.hasAgent)
        await stage.end()
    }

    @Test("just works: the bond is made without a question", arguments: [true, false])
    func justWorks(onDemand: Bool) async throws {
        let stage = try await stage(.encrypted) { $0.bondsOnDemand = onDemand }
        let person = Person(.no)
        _ = try await inspect(stage, person.agent())
        #expect(await stage.bluez.isBonded(Stage.strap))
        #expect(person.questions.isEmpty)
        #expect(await !stage.bluez.hasAgent)
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("a code that the strap shows is asked for", arguments: [true, false])
    func passkeyShown(onDemand: Bool) async throws {
        let stage = try await stage(.passkeyShown(7042)) { $0.bondsOnDemand = onDemand }
        let person = Person(.passkey(7042))
        _ = try await inspect(stage, person.agent())
        #expect(person.questions == [.enterPasskey])
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("a code that the strap wants is shown")
    func passkeyTyped() async throws {
        let stage = try await stage(.passkeyTyped(998_877))
        let person = Person(.yes)
        let bluez = stage.bluez
        _ = try await inspect(
            stage,
            person.agent { question in
                if case .typePasskey(let code) = question {
                    await bluez.typePasskey(code, into: Stage.strap)
                }
            })
        #expect(person.questions == [.typePasskey(998_877)])
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("codes are compared")
    func comparison() async throws {
        let stage = try await stage(.comparison(111_222))
        let person = Person(.yes)
        _ = try await inspect(stage, person.agent())
        #expect(person.questions == [.confirmPasskey(111_222)])
        await stage.end()
    }

    @Test("a wrong code is soon reported as a refused bond")
    func wrongPasskey() async throws {
        let stage = try await stage(.passkeyShown(7042)) { $0.bondsOnDemand = false }
        let person = Person(.passkey(1))
        let error = await #expect(throws: InspectionFault.self) {
            _ = try await inspect(stage, person.agent(), deadline: .seconds(30))
        }
        guard case .bondRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(await !stage.bluez.isBonded(Stage.strap))
        #expect(await !stage.bluez.hasAgent)
        await stage.end()
    }

    @Test("a question without an answer ends it at once, and the next try is a fresh one")
    func unanswered() async throws {
        let stage = try await stage(.passkeyShown(7042))
        let began = ContinuousClock.now
        await #expect(throws: InspectionFault.bondRefused(Central.declined)) {
            _ = try await inspect(stage, Person(.no).agent(), deadline: .seconds(300))
        }
        #expect(ContinuousClock.now - began < .seconds(100), "it does not wait out its deadline")
        _ = try await inspect(stage, Person(.passkey(7042)).agent(), deadline: .seconds(100))
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("a strap that is watched while it is let go is watched again")
    func wantedAgain() async throws {
        let stage = try await stage(.open)
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.unwatch(address: Stage.strap)
        await stage.watch()
        #expect(await stage.bluez.wait { !$0.isConnected(Stage.strap) })
        #expect(await stage.bluez.wait(atMost: .seconds(30)) { $0.isSubscribed(Stage.strap) })
        await stage.end()
    }

    @Test("a sensor that is paired, forgotten and paired again within seconds keeps its link")
    func inspectedAgain() async throws {
        let stage = try await stage(.open)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.central.forget(address: Stage.strap)
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.central.inspections == 2, "each has a number of its own")
        await stage.end()
    }

    @Test("without a person to ask, a strap that wants a bond is distinguished from an absent one")
    func noAgent() async throws {
        let stage = try await stage(.encrypted)
        await #expect(throws: InspectionFault.wantsBond) {
            _ = try await inspect(stage, nil, deadline: .seconds(100))
        }
        await stage.end()
    }

    @Test("a strap that forgot its bond is complained of, and bonded anew when it is paired")
    func lostBond() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.bluez.forgetBonds(Stage.strap)
        await stage.bluez.drop(Stage.strap)
        for _ in 0..<600 where await stage.central.snapshots().first?.isBondLost != true {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(await stage.central.snapshots().first?.isBondLost == true)
        await stage.forget()
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.central.snapshots().first?.isBondLost == false)
        await stage.end()
    }

    @Test("forget undoes it all: link, trust, bond and the object itself")
    func forget() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.forget(address: Stage.strap)
        #expect(await stage.bluez.callCount("RemoveDevice") == 1)
        #expect(await !stage.bluez.isConnected(Stage.strap))
        #expect(await stage.central.snapshots().isEmpty)
        await stage.end()
    }
}
