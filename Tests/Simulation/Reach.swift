import Health

@testable import OfflineQueue
@testable import Uplink

/// All that worlds may reach, so that what none reaches is printed as well.
enum Reach {
    static let killPoints =
        FaultPoint.allCases.map(\.rawValue) + TokenFaultPoint.allCases.map(\.rawValue)

    static let all =
        Command.kinds.map { "command \($0)" } + Fault.Kind.allCases.map { "fault \($0.rawValue)" }
        + killPoints.map { "kill at \($0)" }
        + HealthName.allCases.map { "health \($0.rawValue)" }
}
