import BlueZ
import OfflineQueue
import Recording
import Uplink

/// What is not well now, in the order in which a person would mend it.
extension Gateway {
    func conditions(
        _ sensors: [SensorReport], _ balance: Balance, _ reading: ClockReading
    ) async -> [HealthCondition] {
        var conditions: [HealthCondition] = []
        conditions += await radioConditions()
        conditions += await adapterConditions()
        conditions += await strapConditions(sensors)
        conditions += await storeConditions(reading)
        conditions += await laneConditions()
        conditions += await patientConditions()
        if conditions.allSatisfy({ !Self.silencesStraps.contains($0.name) }) {
            for sensor in sensors {
                let silence = await recorder.silentSeconds(
                    of: sensor.address, uptime: reading.uptimeMicroseconds)
                if silence > Self.silentSeconds { conditions.append(silent(sensor, silence)) }
            }
        }
        if balance.held["not-enrolled", default: 0] > 0 {
            conditions.append(
                HealthCondition(
                    name: "not-enrolled",
                    message: "samples are held: a strap records without an enrollment",
                    advice: "edge-gateway enroll LINK, then edge-gateway pair ADDRESS again"))
        }
        if balance.dead > 0 {
            conditions.append(
                HealthCondition(
                    name: "dead-letters",
                    message: "the exchange refused \(balance.dead) samples for good",
                    advice: "edge-gateway queue dead list says why; please report it"))
        }
        return conditions
    }

    /// While the radio is away, every strap is silent and one reason is enough.
    private static let silencesStraps: Set<String> = [
        "bus-absent", "bluetoothd-absent", "no-adapter", "radio-off",
    ]
    /// A strap that sends once a second has been missed for a while after this.
    private static let silentSeconds = 60.0

    private func radioConditions() async -> [HealthCondition] {
        switch await recorder.radio {
        case .unknown, .ready: []
        case .noBus:
            [
                HealthCondition(
                    name: "bus-absent", message: "the system bus does not answer",
                    advice: "systemctl status dbus; the gateway connects again by itself")
            ]
        case .noDaemon:
            [
                HealthCondition(
                    name: "bluetoothd-absent", message: "bluetoothd is not running",
                    advice: "systemctl status bluetooth; the gateway resumes by itself")
            ]
        case .noAdapter:
            [
                HealthCondition(
                    name: "no-adapter", message: "there is no Bluetooth adapter",
                    advice: "plug one in, or look at: rfkill list; dmesg | grep -i bluetooth")
            ]
        case .poweredOff:
            [
                HealthCondition(
                    name: "radio-off", message: "the Bluetooth adapter is powered off",
                    advice: "rfkill unblock bluetooth; bluetoothctl power on")
            ]
        }
    }

    private func storeConditions(_ reading: ClockReading) async -> [HealthCondition] {
        var conditions: [HealthCondition] = []
        let health = await queue.health()
        if let fault = health.fault {
            conditions.append(
                HealthCondition(
                    name: "store-unwritable",
                    message: "\(fault.operation): \(fault.cause); "
                        + "\(health.buffered) samples wait in memory, \(health.refused) are lost",
                    advice: fault.code.advice))
        }
        if let salvage = health.salvage {
            conditions.append(
                HealthCondition(
                    name: "store-salvaged", subject: "\(salvage.id)",
                    message: "the store was broken; \(salvage.carried) samples were saved, "
                        + "\(salvage.lost) that waited are lost",
                    advice: "the card wears out: replace it; \(salvage.brokenFile) is kept; "
                        + "edge-gateway queue acknowledge"))
        }
        if let fill = try? await queue.fill(), fill.isNearlyFull {
            conditions.append(Self.nearlyFull(fill))
        }
        if !reading.isTrusted {
            conditions.append(
                HealthCondition(
                    name: "clock-untrusted",
                    message: "the clock is not synchronised; samples are kept and held",
                    advice: "timedatectl; or set clock.trust: always if this clock is right"))
        }
        return conditions
    }

    private static func nearlyFull(_ fill: StoreFill) -> HealthCondition {
        let percent = Int((fill.fraction ?? 0) * 100)
        return HealthCondition(
            name: fill.isFull ? "queue-full" : "queue-80-percent",
            message: fill.isFull
                ? "the store is full: "
                    + (fill.policy == .refuseNew
                        ? "new samples are refused" : "the oldest that wait are dropped")
                : "\(percent) % of the store are taken by samples that wait",
            advice: "mend the delivery, raise storage.max_megabytes, or export and purge")
    }

    private func laneConditions() async -> [HealthCondition] {
        guard let enrollments = try? await queue.enrollments() else { return [] }
        var conditions: [HealthCondition] = []
        let unreadable = await lanes.unreadable
        for enrollment in enrollments {
            let name = enrollment.terms.name
            if enrollment.state == .enrollAgain {
                conditions.append(
                    HealthCondition(
                        name: "enroll-again", subject: name,
                        message: "\(name): "
                            + (unreadable.contains(enrollment.id)
                                ? "the tokens cannot be read (log: \"load tokens\"); "
                                : "the exchange no longer lets this gateway in; ")
                            + "samples are held",
                        advice: enrollment.terms.kind == .practitionerKey
                            ? "edge-gateway enroll --practitioner-key-file FILE --name \(name)"
                            : "edge-gateway enroll LINK with a new invitation of this patient"))
            } else if let reason = enrollment.holdReason {
                conditions.append(held(name, reason))
            } else if let fault = await lanes.fault(of: enrollment.id) {
                conditions.append(
                    HealthCondition(
                        name: "exchange-unreachable", subject: name,
                        message: "\(name): \(fault); samples are kept",
                        advice:
                            enrollment.terms.kind == .file
                            ? "look at the disk and the file's directory; delivery resumes by itself"
                            : "look at network, DNS, proxy and firewall; delivery resumes by itself"
                    ))
            }
        }
        return conditions
    }

    private func held(_ name: String, _ reason: String) -> HealthCondition {
        if reason == HoldReason.noConsent.rawValue {
            return HealthCondition(
                name: "consent-missing", subject: name,
                message: "\(name): the patient has not consented to heart rate; samples are held",
                advice: "the patient consents at the exchange; delivery resumes by itself")
        }
        return HealthCondition(
            name: "lane-held", subject: name,
            message: "\(name): the exchange takes nothing (\(reason)); samples are held",
            advice: "docs/operations.md, \"Why a lane is held\"")
    }

    private func silent(_ sensor: SensorReport, _ seconds: Double) -> HealthCondition {
        let name = sensor.name.isEmpty ? sensor.address : sensor.name
        return HealthCondition(
            name: "strap-silent", subject: "\(sensor.id)",
            message: "\(name) has sent nothing for \(Terminal.age(seconds)) (\(sensor.link))",
            advice:
                "wear it, moisten the electrodes, end its connection to phones, check its battery"
        )
    }
}
