import Basics
import BlueZ

/// How it is.
extension Recorder {
    /// How long bluetoothd may take to answer when the gateway comes, before it counts as one that hangs.
    private static let answerPatience = Duration.seconds(5)

    /// The abilities of the radio now.
    public var radio: Radio {
        guard let isBusPresent else { return .unknown }
        if !isBusPresent { return .noBus }
        if let hungSince { return .hung(since: hungSince) }
        if let awaitedSince {
            return clock.read().uptime - awaitedSince < Self.answerPatience
                ? .unknown : .hung(since: awaitedSince)
        }
        if let refusal { return .refused(refusal) }
        if !isDaemonPresent { return .noDaemon }
        if adaptersPowered.isEmpty { return .noAdapter }
        return adaptersPowered.values.contains(true) ? .ready : .poweredOff
    }

    /// The known state of a recorded sensor.
    public func session(of address: String) -> SensorSession? { sessions[address] }

    /// The known state of every recorded sensor, by the store's number, and the address that bluetoothd knows it by:
    /// a newer one where the store has not taken that.
    public var recorded: [Int64: (address: String, session: SensorSession)] {
        Dictionary(
            sessions.map { ($1.sensorID, ($0, $1)) }, uniquingKeysWith: { first, _ in first })
    }

    /// The address that bluetoothd knows a recorded sensor by, of its number in the store; nil if it is not recorded.
    public func address(of sensor: Int64) -> String? {
        sessions.first { $0.value.sensorID == sensor }?.key
    }

    /// The state of a sensor's link, and why it does not stream.
    public func link(of address: String) -> (state: String, detail: String?) {
        guard let change = links[address] else { return ("absent", nil) }
        switch change.state {
        case .streaming: return ("streaming", nil)
        case .suspended(let what): return ("suspended", "\(what.rawValue), \(change.reason.name)")
        default: return (change.state.name, change.reason.name)
        }
    }
}
