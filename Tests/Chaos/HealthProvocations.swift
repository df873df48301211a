import Foundation
import OfflineQueue
import Testbed

/// How each health item comes about, in the testbed.
struct Provocation: Sendable {
    /// Links the adapter carries.
    var linksMax = 16
    /// On a file system of its own, which takes root.
    var onSmallDisk = false
    var settings: [String: String] = [:]
    /// A piece of its advice.
    let advice: String
    /// Makes it real. The daemon is started here.
    let provoke: @Sendable (HealthBench) async throws -> Void

    static let all: [String: Provocation] = {
        // In pieces: the compiler's patience with one large literal is short.
        radio.merging(straps) { $1 }.merging(stores) { $1 }.merging(exchange) { $1 }
    }()

    private static let strap = HealthBench.addresses[0]
    private static let other = HealthBench.addresses[1]

    private static let radio: [String: Provocation] = [
        "bus-absent": Provocation(advice: "systemctl status dbus") { bench in
            try await bench.gateway.start()
            await bench.bus.halt()
        },
        "bluetoothd-absent": Provocation(advice: "systemctl status bluetooth") { bench in
            try await bench.gateway.start()
            try await bench.bluez.setDaemon(running: false)
        },
        "no-adapter": Provocation(advice: "plug one in") { bench in
            try await bench.gateway.start()
            await bench.bluez.unplug(HealthBench.adapter)
        },
        "radio-off": Provocation(advice: "rfkill unblock bluetooth") { bench in
            try await bench.gateway.start()
            await bench.bluez.setPowered(HealthBench.adapter, false)
        },
        // A strap is looked for, and not even a stranger is heard.
        "radio-silent": Provocation(advice: "plug the adapter in again") { bench in
            try await bench.record()
            for address in HealthBench.addresses { await bench.bluez.setOnAir(address, false) }
            await bench.bluez.drop(strap)
        },
        // Two straps for the one place there is.
        "adapter-full": Provocation(linksMax: 1, advice: "plug in a second adapter") { bench in
            try await bench.record()
            await bench.bluez.setOnAir(strap, false)
            await bench.bluez.drop(strap)
            try await bench.record(1)
            await bench.bluez.setOnAir(strap, true)
        },
    ]

    private static let straps: [String: Provocation] = [
        // As one leaves whose connection parameters the kernel refuses.
        "strap-leaves": Provocation(advice: "MaxConnectionInterval") { bench in
            try await bench.record()
            for _ in 0..<5 {
                await bench.bluez.wait { $0.isSubscribed(strap) }
                await bench.pass(seconds: 60)
                await bench.bluez.drop(strap)
                await bench.bluez.wait { !$0.isSubscribed(strap) }
            }
        },
        "bond-lost": Provocation(advice: "in its pairing mode") { bench in
            var careful = SimulatedStrap(
                address: "C0:00:00:00:00:0B", name: "Careful",
                heart: try RecordedHeart.steady(milliseconds: 1000))
            careful.security = .encrypted
            await bench.bluez.add(careful)
            try await bench.gateway.start()
            try await bench.command("pair", careful.address)
            await bench.bluez.forgetBonds(careful.address)
            await bench.bluez.drop(careful.address)
        },
        "doubled-stream": Provocation(advice: "systemctl restart bluetooth") { bench in
            await bench.bluez.setNoise(strap, FrameNoise(framesPerDuplicate: 1))
            try await bench.record()
        },
        "battery-low": Provocation(advice: "change the strap's battery") { bench in
            try await bench.record()
            await bench.bluez.setBattery(strap, 9)
        },
        "strap-silent": Provocation(advice: "moisten the electrodes") { bench in
            try await bench.record()
            await bench.bluez.setSendsFrames(false)
        },
    ]

    private static let stores: [String: Provocation] = [
        "clock-untrusted": Provocation(advice: "timedatectl") { bench in
            try await bench.gateway.start()
            bench.clock.loseWall(by: 0)
        },
        "store-unwritable": Provocation(onSmallDisk: true, advice: "Free space") { bench in
            try await bench.record()
            try await bench.disk?.fill()
        },
        "queue-80-percent": Provocation(settings: smallStore, advice: "mend the delivery") {
            try await fill($0, to: 0.85)
            try await $0.gateway.start()
        },
        "queue-full": Provocation(settings: smallStore, advice: "raise storage.max_megabytes") {
            try await fill($0, to: 1)
            try await $0.gateway.start()
            try await $0.command("pair", strap)
        },
        "store-salvaged": Provocation(advice: "edge-gateway queue acknowledge") { bench in
            try Data("no database here".utf8).write(to: bench.store)
            try await bench.gateway.start()
        },
    ]

    private static let exchange: [String: Provocation] = [
        "enroll-again": Provocation(advice: "edge-gateway enroll LINK") { bench in
            try await bench.record()
            try await bench.delivered()
            // Else the gateway would redeem it again.
            await bench.exchange.cancelInvitations(patient: 40001)
            await bench.exchange.revokeTokens()
        },
        "consent-missing": Provocation(advice: "the patient consents") { bench in
            try await bench.record()
            try await bench.delivered()
            await bench.exchange.withdrawConsent(patient: 40001)
        },
        "patient-held": Provocation(advice: "share an organization") { bench in
            try await bench.recordByKey(patient: 40002)
            try await bench.delivered()
            await bench.exchange.removePatient(40002)
        },
        "lane-held": Provocation(advice: "Why a lane is held") { bench in
            try await bench.record()
            try await bench.delivered()
            await bench.exchange.setDeviceType(HealthBench.device, to: "other")
        },
        "exchange-unreachable": Provocation(advice: "DNS") { bench in
            try await bench.record()
            try await bench.delivered()
            await bench.exchange.cutNetwork()
        },
        "dead-letters": Provocation(advice: "edge-gateway queue dead list") { bench in
            try await bench.gateway.start()
            try await bench.command("pair", strap)
            try await bench.eventually("samples") { $0.balance.stored >= 3 }
            try await bench.command("queue", "export", "held.ndjson")
            let text = try String(
                contentsOf: bench.gateway.directory.appending(path: "held.ndjson"), encoding: .utf8)
            for uuid in text.matches(of: /"uuid":"([^"]+)"/) {
                await bench.exchange.refuse(String(uuid.output.1))
            }
            try await bench.record()
        },
        "not-enrolled": Provocation(advice: "edge-gateway enroll LINK") { bench in
            try await bench.gateway.start()
            try await bench.command("pair", strap)
        },
    ]

    private static let smallStore = ["EDGE_GATEWAY_STORAGE_MAX_MEGABYTES": "16"]

    /// Fills the store, before the daemon is started, with samples of a strap of another day.
    private static func fill(_ bench: HealthBench, to fraction: Double) async throws {
        var settings = QueueSettings()
        settings.maxBytes = 16 << 20
        let clock = SystemClock(trust: .always)
        let queue = try SampleQueue(
            path: bench.store.path, settings: settings, clock: clock, bootID: "earlier")
        let sensor = try await queue.addSensor(
            address: "C0:00:00:00:00:0F", details: SensorDetails(name: "Earlier"))
        let assignment = try await queue.assign(
            sensor: sensor.id, enrollment: nil, patient: nil, since: nil)
        let frame: [UInt8] = [0, 72] + Array(repeating: 0, count: 500)
        while try await queue.fill().fraction ?? 0 < fraction, await queue.health().refused == 0 {
            let now = clock.read()
            try await queue.append(
                contentsOf: (0..<500).map {
                    Arrival(
                        assignmentID: assignment.id,
                        at: now.at(uptime: now.uptimeMicroseconds + $0), frame: frame)
                })
            try await queue.flush()
        }
        try await queue.close()
    }
}
