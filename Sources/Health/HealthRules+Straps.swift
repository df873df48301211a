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
            if strap.isBondLost {
                add(.bondLost, "is heard and refuses the bond that it had with this gateway")
            } else if let time = strap.unreachableTime {
                add(
                    .strapUnreachable,
                    "is heard, and every attempt to connect to it has failed for \(age(time))")
            }
            if let age = strap.fixedAge {
                add(
                    .strapLeaves,
                    "ends its link \(age.components.seconds) s after each connect: the kernel refuses the "
                        + "connection parameters that it asks for")
            }
            if strap.isDoubled { add(.doubledStream, "sends every frame twice") }
            return found
        }
    }
}
