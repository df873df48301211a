import BlueZ

/// How it is.
extension Recorder {
    /// What the radio is able to do now.
    public var radio: Radio {
        guard let isBusPresent else { return .unknown }
        if !isBusPresent { return .noBus }
        if !isDaemonPresent { return .noDaemon }
        if adaptersPowered.isEmpty { return .noAdapter }
        return adaptersPowered.values.contains(true) ? .ready : .poweredOff
    }

    /// What is known of a recorded sensor.
    public func session(of address: String) -> SensorSession? { sessions[address] }

    /// What is known of every recorded sensor, by address.
    public var recorded: [String: SensorSession] { sessions }

    /// The state of a sensor's link, and why it does not stream.
    public func link(of address: String) -> (state: String, detail: String?) {
        guard let change = links[address] else { return ("absent", nil) }
        switch change.state {
        case .streaming: return ("streaming", nil)
        case .suspended(let what): return ("suspended", "\(what.rawValue), \(change.reason.name)")
        default: return (change.state.name, change.reason.name)
        }
    }

    /// How the sensor's frames come.
    public func subscription(of address: String) -> SubscriptionState {
        var state = subscriptions[address] ?? SubscriptionState()
        if case .streaming? = links[address]?.state { return state }
        state.way = nil
        return state
    }
}
