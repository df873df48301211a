/// The question that a sensor has for a person before it lets itself be bonded (BlueZ `doc/org.bluez.Agent.rst`).
public enum PairingQuestion: Sendable, Hashable {
    /// The sensor shows a code of six digits: which? Answered by `passkey`.
    case enterPasskey
    /// The person types this code, 0…999,999, into the sensor. bluetoothd waits for no answer.
    case typePasskey(UInt32)
    /// The sensor shows a code: is it this one? Answered by `yes` or `no`.
    case confirmPasskey(UInt32)
}

/// A person's answer to a `PairingQuestion`.
public enum PairingAnswer: Sendable, Hashable {
    /// 0…999,999.
    case passkey(UInt32)
    case yes
    /// Also: there is no person to ask.
    case no
}

/// The pairing agent of one sensor, registered only while a person pairs it.
///
/// It agrees to what needs no input ("Just Works"), hands on what does, and refuses everything about
/// other devices. Source: BlueZ `doc/org.bluez.Agent.rst`.
public struct PairingAgent: Sendable {
    /// Asks the person; a question that is only shown is answered at once by anything.
    public typealias Ask = @Sendable (PairingQuestion) async -> PairingAnswer

    /// The most that six digits can say.
    public static let passkeyMax: UInt32 = 999_999
    /// The object path of the agent.
    static let path = "/edgegateway/agent"
    /// Keyboard and display, lent by the technician's terminal.
    static let capability = "KeyboardDisplay"

    private let deviceName: String
    private let ask: Ask

    /// An agent for the sensor with this address.
    public init(address: String, ask: @escaping Ask) {
        deviceName = "/dev_" + String(address.uppercased().map { $0 == ":" ? "_" : $0 })
        self.ask = ask
    }

    /// The person's answer to a question.
    func answer(_ question: PairingQuestion) async -> PairingAnswer { await ask(question) }

    /// The outcome of a call to the agent: an answer now, or one after a question.
    enum Response {
        case now(DBusMessage)
        case ask(PairingQuestion)
    }

    /// Whether a call is about this agent's sensor.
    func isAbout(_ call: DBusMessage) -> Bool {
        call.body.first?.text?.hasSuffix(deviceName) ?? false
    }

    func response(to call: DBusMessage) -> Response {
        guard call.path == Self.path, call.interface == Names.agent else {
            return .now(.unknownMethod(call))
        }
        if call.member == "Release" || call.member == "Cancel" { return .now(.reply(to: call)) }
        guard isAbout(call) else { return .now(Self.refusal(of: call)) }
        let code = call.body.count > 1 ? call.body[1].integer.flatMap(UInt32.init(exactly:)) : nil
        switch (call.member, code) {
        case ("RequestAuthorization", _), ("AuthorizeService", _): return .now(.reply(to: call))
        case ("RequestPasskey", _): return .ask(.enterPasskey)
        case ("DisplayPasskey", let code?): return .ask(.typePasskey(min(code, Self.passkeyMax)))
        case ("RequestConfirmation", let code?):
            return .ask(.confirmPasskey(min(code, Self.passkeyMax)))
        default: return .now(Self.refusal(of: call))
        }
    }

    /// Asks the person and puts the answer into the words of D-Bus.
    func reply(to call: DBusMessage, _ question: PairingQuestion) async -> DBusMessage {
        switch (question, await ask(question)) {
        case (.enterPasskey, .passkey(let code)) where code <= Self.passkeyMax:
            return .reply(to: call, body: [.uint32(code)])
        case (.typePasskey, _), (.confirmPasskey, .yes): return .reply(to: call)
        default: return Self.refusal(of: call)
        }
    }

    private static func refusal(of call: DBusMessage) -> DBusMessage {
        .error(to: call, DBusFault(name: "org.bluez.Error.Rejected", text: "not agreed to"))
    }
}

extension BlueZClient {
    /// Opens the pairing window of a sensor: bluetoothd asks this agent about it until
    /// `closePairingWindow`. One agent object serves all windows.
    ///
    /// Our agent is the default agent meanwhile. When a subscription brings a bond about, bluetoothd asks only the default
    /// agent; without a default agent it refuses the bond.
    func openPairingWindow(_ address: String, _ agent: PairingAgent) async throws(DBusFault) {
        let isFirst = agents.isEmpty
        agents[address] = agent
        guard isFirst else { return }
        let path = DBusValue.objectPath(PairingAgent.path)
        do throws(DBusFault) {
            _ = try await call(
                Names.root, Names.agentManager, "RegisterAgent",
                [path, .string(PairingAgent.capability)])
            _ = try await call(Names.root, Names.agentManager, "RequestDefaultAgent", [path])
        } catch {
            await closePairingWindow(address, deadline: Self.plainDeadline)
            throw error
        }
    }

    /// Whether bluetoothd asks an agent of ours about a sensor; its restart ends that.
    func hasPairingWindow(_ address: String) -> Bool { agents[address] != nil }

    /// Closes the pairing window of a sensor.
    func closePairingWindow(_ address: String, deadline: Duration) async {
        guard agents.removeValue(forKey: address) != nil, agents.isEmpty else { return }
        // An agent that bluetoothd does not know any more is gone as well.
        _ = try? await call(
            Names.root, Names.agentManager, "UnregisterAgent", [.objectPath(PairingAgent.path)],
            deadline: deadline)
    }

    /// Answers a call made to us; one that is not from bluetoothd finds no agent.
    func answer(_ call: DBusMessage, isFromDaemon: Bool) {
        guard isFromDaemon, let anyone = agents.values.first else {
            reply(.unknownMethod(call), to: call)
            return
        }
        let agent = agents.values.first { $0.isAbout(call) } ?? anyone
        switch agent.response(to: call) {
        case .now(let answer): reply(answer, to: call)
        case .ask(.typePasskey(let code)):
            // bluetoothd waits neither for the code to be typed nor, in fact, for an answer.
            reply(.reply(to: call), to: call)
            Task { _ = await agent.answer(.typePasskey(code)) }
        case .ask(let question):
            Task { reply(await agent.reply(to: call, question), to: call) }
        }
    }

    private func reply(_ answer: DBusMessage, to call: DBusMessage) {
        if !call.isReplyUnwanted { connection.send(answer) }
    }
}
