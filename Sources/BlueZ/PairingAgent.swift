/// The pairing agent: capability `NoInputNoOutput`, registered only while a person pairs a strap.
///
/// It agrees to what needs no input ("Just Works") and refuses everything that asks for a code.
/// Source: BlueZ `doc/org.bluez.Agent.rst`.
extension BlueZClient {
    /// The object path of the agent.
    static let pairingAgentPath = "/edgegateway/agent"

    /// Opens the pairing window.
    public func registerAgent() async throws(DBusFault) {
        agentPath = Self.pairingAgentPath
        _ = try await call(
            Names.root, Names.agentManager, "RegisterAgent",
            [.objectPath(Self.pairingAgentPath), .string("NoInputNoOutput")])
    }

    /// Closes the pairing window.
    public func unregisterAgent() async throws(DBusFault) {
        guard agentPath != nil else { return }
        agentPath = nil
        _ = try await call(
            Names.root, Names.agentManager, "UnregisterAgent",
            [.objectPath(Self.pairingAgentPath)])
    }

    /// Answers a call made to us; one that is not from bluetoothd finds no agent.
    func answer(_ call: DBusMessage, isFromDaemon: Bool) {
        guard !call.isReplyUnwanted else { return }
        connection.send(Self.answer(to: call, agentPath: isFromDaemon ? agentPath : nil))
    }

    static func answer(to call: DBusMessage, agentPath: String?) -> DBusMessage {
        guard let agentPath, call.path == agentPath, call.interface == Names.agent else {
            return .unknownMethod(call)
        }
        switch call.member {
        case "Release", "Cancel", "RequestAuthorization", "AuthorizeService":
            return .reply(to: call)
        default:
            let refusal = DBusFault(name: "org.bluez.Error.Rejected", text: "no input, no output")
            return .error(to: call, refusal)
        }
    }
}
