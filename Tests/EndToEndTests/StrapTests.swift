import Foundation
import GATTHeartRate
import Testbed
import Testing

/// Straps that want something, through the real binary.
@Suite(.serialized) struct StrapTests {
    private static let strap = TestWorld.addresses[0]

    private func add(_ fixture: TestWorld, _ change: (inout SimulatedStrap) -> Void) async throws
        -> String
    {
        let address = "C0:00:00:00:00:0B"
        var strap = SimulatedStrap(
            address: address, name: "Careful strap", heart: try RecordedHeart.oneHour())
        change(&strap)
        await fixture.bluez.add(strap)
        return address
    }

    @Test func aStrapThatWantsABondGetsOneAndForgetUndoesIt() async throws {
        try await TestWorld.run { fixture in
            let address = try await add(fixture) { $0.security = .encrypted }
            let output = try await fixture.command("pair", address)
            #expect(output.contains("first heartbeat"))
            #expect(await fixture.bluez.isBonded(address))
            #expect(await !fixture.bluez.hasAgent)
            let listed = try await fixture.command("scan", "--for", "2s")
            #expect(listed.contains("paired,bonded,connected"))
            try await fixture.command("forget", address)
            #expect(await !fixture.bluez.isConnected(address))
            #expect(await fixture.bluez.callCount("RemoveDevice") == 1)
        }
    }

    @Test func aCodeThatTheStrapShowsIsTakenFromTheCommandLine() async throws {
        try await TestWorld.run { fixture in
            let address = try await add(fixture) { $0.security = .passkeyShown(4711) }
            let asked = try await fixture.gateway.command(["pair", address])
            #expect(asked.status == 1)
            #expect(asked.complaint.contains("wants a pairing code"))
            #expect(asked.complaint.contains("--passkey"))
            let wrong = try await fixture.gateway.command(["pair", address, "--passkey", "000001"])
            #expect(wrong.status == 1)
            #expect(wrong.complaint.contains("did not accept the pairing code"))
            try await fixture.command("pair", address, "--passkey", "004711")
            #expect(await fixture.bluez.isBonded(address))
        }
    }

    @Test func aCodeToTypeIntoTheStrapIsShown() async throws {
        try await TestWorld.run { fixture in
            let address = try await add(fixture) { $0.security = .passkeyTyped(20_406) }
            let bluez = fixture.bluez
            async let paired = fixture.gateway.command(["pair", address])
            // The patient reads it from the terminal some time later.
            await bluez.wait { $0.isPairing(address) }
            try await Task.sleep(for: .seconds(1))
            await bluez.typePasskey(20_406, into: address)
            let outcome = try await paired
            #expect(outcome.status == 0, "\(outcome.complaint)")
            #expect(outcome.complaint.contains("Type 020406 into the strap."))
        }
    }

    @Test func aSensorThatIsNoHeartRateSensorIsRefusedWithAdvice() async throws {
        try await TestWorld.run { fixture in
            let address = try await add(fixture) {
                $0.hasHeartRate = false
                $0.advertisedServices = ["0000180d-0000-1000-8000-00805f9b34fb"]
            }
            let outcome = try await fixture.gateway.command(["pair", address])
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("has none to send (0x2A37)"))
            let none = try await fixture.command("straps", "--json")
            #expect(!none.contains(address))
        }
    }

    @Test func aBatteryThatRunsDownIsComplainedOf() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            await fixture.bluez.setBattery(Self.strap, 9)
            let status = try await fixture.eventually("battery-low") {
                $0.health.contains { $0.name == "battery-low" }
            }
            let item = status.health.first { $0.name == "battery-low" }
            #expect(item?.message.contains("9 %") == true)
            await fixture.bluez.setBattery(Self.strap, 90)
            try await fixture.eventually("well again") {
                !$0.health.contains { $0.name == "battery-low" }
            }
        }
    }

    @Test func aDoubledStreamIsComplainedOf() async throws {
        try await TestWorld.run { fixture in
            await fixture.bluez.setNoise(Self.strap, FrameNoise(framesPerDuplicate: 1))
            try await fixture.put(on: 0)
            try await fixture.eventually("doubled-stream", withinSeconds: 60) {
                $0.health.contains { $0.name == "doubled-stream" }
            }
        }
    }

    @Test func anEnergyCountAtItsEndIsResetOnce() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            // 65,535 kJ: the count stays there until it is reset (HRS v1.0 §3.1.1.3).
            await fixture.bluez.emit([0x0E, 70, 0xFF, 0xFF], from: Self.strap)
            await fixture.bluez.emit([0x0E, 71, 0xFF, 0xFF], from: Self.strap)
            #expect(await fixture.bluez.wait { $0.callCount("WriteValue") == 1 })
        }
    }

    @Test func implausibleSamplesAreStoredAndStayHere() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.bluez.emit([0x04, 70], from: Self.strap)
            await fixture.bluez.emit([0x06, 0], from: Self.strap)
            let status = try await fixture.settle()
            #expect(status.balance.dropped["contactLost"] == 1)
            #expect(status.balance.dropped["zeroRate"] == 1)
            #expect(status.balance.addsUp)
        }
    }
}
