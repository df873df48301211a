extension HealthRules {
    /// Bus, bluetoothd and the radio as a whole.
    static func radio(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        switch snapshot.radio {
        case .unknown, .ready: []
        case .noBus: [HealthCondition(.busAbsent, message: "the system bus does not answer")]
        case .noDaemon:
            [HealthCondition(.bluetoothdAbsent, message: "bluetoothd is not running")]
        case .daemonHung(let time):
            [
                HealthCondition(
                    .bluetoothdHung,
                    message: "bluetoothd runs but has answered nothing for \(age(time))")
            ]
        case .daemonDenied:
            [
                HealthCondition(
                    .bluetoothdRefuses,
                    message: "bluetoothd runs, and the D-Bus policy does not let the gateway ask it"
                )
            ]
        case .daemonRefuses(let error):
            [
                HealthCondition(
                    .bluetoothdRefuses,
                    message: "bluetoothd runs, and answers the gateway with \(error)",
                    advice: "systemctl restart bluetooth; the gateway asks again every 30 s")
            ]
        case .noAdapter:
            [HealthCondition(.noAdapter, message: "there is no Bluetooth adapter")]
        case .poweredOff:
            [HealthCondition(.radioOff, message: "the Bluetooth adapter is powered off")]
        }
    }

    /// Single adapters.
    static func adapters(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.adapters.flatMap { adapter -> [HealthCondition] in
            let label = "adapter …" + adapter.address.suffix(5)
            var found: [HealthCondition] = []
            if let silent = adapter.silentTime {
                found.append(
                    HealthCondition(
                        .radioSilent, subject: adapter.address,
                        message: "\(label) has heard no Bluetooth device at all for \(age(silent))"
                    ))
            }
            if adapter.refusesLinks {
                found.append(
                    HealthCondition(
                        .adapterFull, subject: adapter.address,
                        message: "\(label) carries \(adapter.linkCount) links and takes no more"))
            }
            return found
        }
    }
}
