import Testing

@testable import BlueZ

@Suite("The pairing agent")
struct PairingAgentTests {
    static let address = "C0:00:00:00:00:01"
    static let device = "/org/bluez/hci0/dev_C0_00_00_00_00_01"

    private func call(
        _ member: String, _ body: [DBusValue] = [.objectPath(device)],
        path: String = PairingAgent.path
    ) -> DBusMessage {
        var call = DBusMessage(
            kind: .call, path: path, interface: Names.agent, member: member, body: body)
        call.serial = 3
        return call
    }

    /// What bluetoothd gets for a call when the person answers so.
    private func answer(
        to call: DBusMessage, _ answer: PairingAnswer = .no
    ) async -> DBusMessage {
        let agent = PairingAgent(address: Self.address) { _ in answer }
        switch agent.response(to: call) {
        case .now(let message): return message
        case .ask(let question): return await agent.reply(to: call, question)
        }
    }

    @Test("agrees to what needs no input")
    func justWorks() async {
        #expect(await answer(to: call("RequestAuthorization")).kind == .reply)
        #expect(await answer(to: call("AuthorizeService")).kind == .reply)
        #expect(await answer(to: call("Release", [])).kind == .reply)
        #expect(await answer(to: call("Cancel", [])).kind == .reply)
    }

    @Test("hands on the code that the sensor shows, and refuses without one")
    func passkey() async {
        let right = await answer(to: call("RequestPasskey"), .passkey(123_456))
        #expect(right.body == [.uint32(123_456)])
        let refused = "org.bluez.Error.Rejected"
        #expect(await answer(to: call("RequestPasskey")).errorName == refused)
        let tooLong = await answer(to: call("RequestPasskey"), .passkey(1_000_000))
        #expect(tooLong.errorName == refused)
    }

    @Test("asks whether both codes are the same")
    func comparison() async {
        let body: [DBusValue] = [.objectPath(Self.device), .uint32(42)]
        #expect(await answer(to: call("RequestConfirmation", body), .yes).kind == .reply)
        #expect(await answer(to: call("RequestConfirmation", body), .no).kind == .error)
        #expect(await answer(to: call("RequestConfirmation"), .yes).kind == .error)
    }

    @Test("refuses other devices, PINs of old Bluetooth, and calls to other objects")
    func refusals() async {
        let other: [DBusValue] = [.objectPath("/org/bluez/hci0/dev_C0_00_00_00_00_02")]
        for member in ["RequestAuthorization", "RequestPasskey", "AuthorizeService"] {
            #expect(
                await answer(to: call(member, other), .passkey(1)).errorName
                    == "org.bluez.Error.Rejected")
        }
        #expect(await answer(to: call("RequestPinCode"), .passkey(1)).kind == .error)
        #expect(await answer(to: call("RequestPasskey", []), .passkey(1)).kind == .error)
        #expect(
            await answer(to: call("RequestAuthorization", path: "/else")).errorName
                == DBusFault.unknownMethod)
    }
}
