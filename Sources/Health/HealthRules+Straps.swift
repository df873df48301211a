extension HealthRules {
    /// Faults of single straps and their links. Silence is in ``flow(_:beside:)``.
    static func straps(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.straps.flatMap { strap -> [HealthCondition] in
            var found: [HealthCondition] = []
            func add(_ name: HealthName, _ message: String) {
                found.append(HealthCondition(name, about: strap, message: message))
            }
            if let percent = strap.batteryPercent, percent < snapshot.batteryLowPercent {
                add(.batteryLow, "has \(percent) % of its battery left")
            }
            switch strap.trouble {
            case .bondRefused:
                add(.bondLost, "is heard and refuses the bond that it had with this gateway")
            case .bondMissing:
                add(
                    .bondLost,
                    "sends to nobody without a bond, and this machine has none with it, or has lost it to "
                        + "another program")
            case .unreachable(let time):
                add(
                    .strapUnreachable,
                    "is heard, and every attempt to connect to it has failed for \(age(time))")
            case .taken:
                add(.strapTaken, "sends to another program on this machine, which has it to itself")
            case .classic:
                add(
                    .strapIsClassic,
                    "is connected to over classic Bluetooth, where it has no heart rate")
            case .otherAddress(let address):
                add(
                    .strapMoved,
                    "is not heard, and another with its name is, whose address ends in "
                        + "\(address.suffix(5))")
            // That is said of the adapter.
            case .noPlace, nil: break
            }
            if let age = strap.fixedAge {
                add(
                    .strapLeaves,
                    "ends its link \(age.components.seconds) s after each connect: the kernel refuses the "
                        + "connection parameters that it asks for, or another program ends the link"
                )
            }
            if strap.isDoubled { add(.doubledStream, "sends every frame twice") }
            return found
        }
    }
}
