import Foundation
import Health
import Synchronization

/// The servers of the daemon. Recording depends on none of them.
enum ServerName: String, CaseIterable, Sendable {
    /// The control socket, with the commands and metrics.
    case control
    /// The live page.
    case page

    /// The setting that says where it serves.
    var setting: String {
        switch self {
        case .control: "socket"
        case .page: "page.listen"
        }
    }
}

/// Why a server does not serve.
struct ServerFault: Equatable, Sendable {
    var server: ServerName
    /// The setting to look at, such as `page.token_file`.
    var setting: String
    /// One line that names the setting, its value and the cause.
    var reason: String
    /// Since when it has not served.
    var since: Date
}

/// The states of the servers, for `status`. Reading it changes nothing.
final class ServerStates: Sendable {
    private struct State {
        var faults: [ServerName: ServerFault] = [:]
        var serving: Set<ServerName> = []
    }

    private let state = Mutex(State())

    /// The servers that should serve and do not, in the order of their names.
    var faults: [ServerFault] {
        state.withLock { state in
            state.faults.values.sorted { $0.server.rawValue < $1.server.rawValue }
        }
    }

    /// The same for the rules of health, which put the setting before the cause.
    var healthFaults: [HealthSnapshot.Service] {
        faults.map { fault in
            let prefix = fault.setting + ": "
            let cause =
                fault.reason.hasPrefix(prefix)
                ? String(fault.reason.dropFirst(prefix.count)) : fault.reason
            return HealthSnapshot.Service(name: fault.setting, isPage: true, fault: cause)
        }
    }

    /// The servers that take connections.
    var serving: Set<ServerName> { state.withLock { $0.serving } }

    /// It takes connections.
    func noteServing(_ server: ServerName) {
        state.withLock { state in
            state.serving.insert(server)
            state.faults[server] = nil
        }
    }

    /// It could not begin to serve, or it ceased to.
    ///
    /// - Returns: whether this is news: another reason than before, or the first one.
    @discardableResult
    func noteFault(
        _ server: ServerName, setting: String, reason: String, at now: Date = Date()
    ) -> Bool {
        state.withLock { state in
            state.serving.remove(server)
            let before = state.faults[server]
            state.faults[server] = ServerFault(
                server: server, setting: setting, reason: reason, since: before?.since ?? now)
            return before?.reason != reason
        }
    }
}
