import BlueZ
import OfflineQueue
import Recording

/// What is not well with adapters and straps, beyond silence.
extension Gateway {
    func adapterConditions() async -> [HealthCondition] {
        let links = await central.snapshots()
        let uptime = clock.read().uptimeMicroseconds
        return await central.adapterSnapshots().flatMap { state -> [HealthCondition] in
            var found: [HealthCondition] = []
            let name = "adapter " + Recorder.masked(state.adapter.address)
            if let since = state.silentSince {
                let age = Terminal.age(Double(uptime - since) / 1_000_000)
                found.append(
                    HealthCondition(
                        name: "radio-silent", subject: state.adapter.address,
                        message: "\(name) has heard no Bluetooth device at all for \(age)",
                        advice: "plug the adapter in again, or restart the machine; a USB adapter "
                            + "on an extension lead hangs less often"))
            }
            let isRefused = links.contains {
                $0.adapter == state.adapter.address && $0.reason == .error(.slots)
            }
            if isRefused || state.isFull && links.contains(where: { !Self.isUp($0) }) {
                found.append(
                    HealthCondition(
                        name: "adapter-full", subject: state.adapter.address,
                        message: "\(name) carries \(state.linkCount) links and takes no more",
                        advice: "plug in a second adapter, or forget a strap that is not used"))
            }
            return found
        }
    }

    private static func isUp(_ link: LinkSnapshot) -> Bool {
        if case .streaming = link.state { true } else { false }
    }

    func strapConditions(_ sensors: [SensorReport]) async -> [HealthCondition] {
        let links = await central.snapshots()
        var found: [HealthCondition] = []
        for sensor in sensors {
            let name = sensor.name.isEmpty ? sensor.address : sensor.name
            let link = links.first { $0.address == sensor.address }
            if let percent = sensor.batteryPercent, percent < settings.batteryLowPercent {
                found.append(
                    HealthCondition(
                        name: "battery-low", subject: "\(sensor.id)",
                        message: "\(name): battery at \(percent) %",
                        advice: "change the strap's battery; recording goes on until it is empty"))
            }
            if link?.isBondLost == true {
                found.append(
                    HealthCondition(
                        name: "bond-lost", subject: "\(sensor.id)",
                        message: "\(name) is heard and refuses the bond it had with this gateway",
                        advice:
                            "edge-gateway pair \(sensor.address), with the strap in its pairing "
                            + "mode; a new battery or a pairing elsewhere makes straps forget"))
            }
            if let age = link?.fixedAge {
                found.append(
                    HealthCondition(
                        name: "strap-leaves", subject: "\(sensor.id)",
                        message:
                            "\(name) ends its link \(age / 1_000_000) s after each connect: the "
                            + "kernel refuses the connection parameters it asks for",
                        advice: "update the kernel, or set MaxConnectionInterval=400 under [LE] in "
                            + "/etc/bluetooth/main.conf and restart bluetooth"))
            }
            if await recorder.session(of: sensor.address)?.isDoubled == true {
                found.append(
                    HealthCondition(
                        name: "doubled-stream", subject: "\(sensor.id)",
                        message: "\(name): every frame comes twice",
                        advice: "systemctl restart bluetooth; end other programs that read it"))
            }
        }
        return found
    }
}
