import Basics
import BlueZ
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
    /// How far the beginning that is shown may be from the moment it was provoked, seconds of the gateway:
    /// most items have a patience of their own, and a debug build under load its delays.
    var sinceSecondsMax = 1_200.0
    /// A piece of its advice.
    let advice: String
    /// Makes it real. The daemon is started here.
    let provoke: @Sendable (TestWorld) async throws -> Void

    static let all: [String: Provocation] = {
        // In pieces: the compiler's patience with one large literal is short.
        radio.merging(straps) { $1 }.merging(stores) { $1 }.merging(exchange) { $1 }
    }()

    private static let strap = TestWorld.addresses[0]
    private static let other = TestWorld.addresses[1]

    private static let radio: [String: Provocation] = [
        "bus-absent": Provocation(advice: "systemctl status dbus") { world in
            try await world.gateway.start()
            await world.bus.halt()
        },
        "bluetoothd-absent": Provocation(advice: "systemctl status bluetooth") { world in
            try await world.gateway.start()
            try await world.bluez.setDaemon(running: false)
        },
        "bluetoothd-refuses": Provocation(advice: "D-Bus policy") { world in
            await world.bluez.inject(
                ScriptedFault(
                    "GetManagedObjects", times: nil,
                    .error(DBusFault(name: DBusFault.accessDenied))))
            try await world.gateway.start()
        },
        "no-adapter": Provocation(advice: "plug one in") { world in
            try await world.gateway.start()
            await world.bluez.unplug(TestWorld.adapter)
        },
        "radio-off": Provocation(advice: "rfkill unblock bluetooth") { world in
            try await world.gateway.start()
            await world.bluez.setPowered(TestWorld.adapter, false)
        },
        // A strap is looked for, and not even a stranger is heard.
        "radio-silent": Provocation(advice: "plug the adapter in again") { world in
            try await world.record()
            for address in TestWorld.addresses { await world.bluez.setOnAir(address, false) }
            await world.bluez.drop(strap)
        },
        // Two straps for the one place there is.
        "adapter-full": Provocation(linksMax: 1, advice: "plug in a second adapter") { world in
            try await world.record()
            await world.bluez.setOnAir(strap, false)
            await world.bluez.drop(strap)
            try await world.record(1)
            await world.bluez.setOnAir(strap, true)
        },
    ]

    private static let straps: [String: Provocation] = [
        // As one leaves whose connection parameters the kernel refuses.
        "strap-leaves": Provocation(advice: "MaxConnectionInterval") { world in
            try await world.record()
            for _ in 0..<5 {
                await world.bluez.wait { $0.isSubscribed(strap) }
                try await world.pass(seconds: 60)
                await world.bluez.drop(strap)
                await world.bluez.wait { !$0.isSubscribed(strap) }
            }
        },
        "bond-lost": Provocation(advice: "in its pairing mode") { world in
            var careful = SimulatedStrap(
                address: "C0:00:00:00:00:0B", name: "Careful",
                heart: try RecordedHeart.steady(milliseconds: 1000))
            careful.security = .encrypted
            await world.bluez.add(careful)
            try await world.gateway.start()
            try await world.command("pair", careful.address)
            await world.bluez.forgetBonds(careful.address)
            await world.bluez.drop(careful.address)
        },
        "doubled-stream": Provocation(advice: "systemctl restart bluetooth") { world in
            await world.bluez.setNoise(strap, FrameNoise(framesPerDuplicate: 1))
            try await world.record()
        },
        "battery-low": Provocation(advice: "change the strap's battery") { world in
            try await world.record()
            await world.bluez.setBattery(strap, 9)
        },
        // It is heard again each time before it counts as silent.
        "strap-intermittent": Provocation(advice: "nearer to each other") { world in
            try await world.record()
            for _ in 0..<9 {
                await world.bluez.wait { $0.isSubscribed(strap) }
                try await world.pass(seconds: 5)
                await world.bluez.setOnAir(strap, false)
                await world.bluez.drop(strap)
                try await world.pass(seconds: 35)
                await world.bluez.setOnAir(strap, true)
            }
        },
        "strap-silent": Provocation(advice: "moisten the electrodes") { world in
            try await world.record()
            await world.bluez.setSendsFrames(false)
        },
    ]

    private static let stores: [String: Provocation] = [
        "clock-untrusted": Provocation(advice: "timedatectl") { world in
            try await world.gateway.start()
            world.clock?.loseWall(by: .zero)
        },
        "clock-unknown": Provocation(advice: "edge-gateway queue release") { world in
            let queue = try SampleQueue(
                path: world.storePath, clock: UntrustedClock(), bootID: "earlier")
            let sensor = try await queue.addSensor(address: "C0:00:00:00:00:0F")
            var terms = EnrollmentTerms(
                name: "study", kind: .destination, origin: "file://\(world.storePath).ndjson",
                fhirBase: "", identifierSystem: "urn:x")
            terms.system = "file"
            terms.settings = #"{"path":"\#(world.storePath).ndjson"}"#
            let file = try await queue.enroll(terms)
            let assignment = try await queue.assign(sensor: sensor.id, enrollment: file.id)
            try await queue.append(contentsOf: [
                Arrival(sensorID: assignment.sensorID, at: UntrustedClock().read(), frame: [0, 72])
            ])
            try await queue.close()
            try await world.gateway.start()
        },
        // The log, which has its length from the start, takes what comes in the first half hour.
        "store-unwritable": Provocation(
            onSmallDisk: true, sinceSecondsMax: 3_000, advice: "Free space"
        ) { world in
            try await world.record()
            try await world.disk?.fill()
        },
        "disk-nearly-full": Provocation(onSmallDisk: true, advice: "free space on the disk") {
            try await $0.record()
            try await $0.disk?.fill()
        },
        "queue-80-percent": Provocation(settings: smallStore, advice: "restore delivery") {
            try await fill($0, to: 0.85)
            try await $0.gateway.start()
        },
        "queue-full": Provocation(settings: smallStore, advice: "raise storage.max_megabytes") {
            try await fill($0, to: 1)
            try await $0.gateway.start()
            try await $0.command("pair", strap)
        },
        "samples-lost": Provocation(advice: "edge-gateway queue acknowledge") {
            try await fill($0, to: 1)
            try await $0.gateway.start()
        },
        "store-salvaged": Provocation(advice: "edge-gateway queue acknowledge") { world in
            try Data("no database here".utf8).write(to: URL(filePath: world.storePath))
            try await world.gateway.start()
        },
    ]

    private static let exchange: [String: Provocation] = [
        "enroll-again": Provocation(advice: "edge-gateway enroll LINK") { world in
            try await world.record()
            try await world.delivered()
            // Else the gateway would redeem it again.
            await world.exchange.cancelInvitations(patient: 40001)
            await world.exchange.revokeTokens()
        },
        "consent-missing": Provocation(advice: "the patient consents") { world in
            try await world.record()
            try await world.delivered()
            await world.exchange.withdrawConsent(patient: 40001)
        },
        "patient-held": Provocation(advice: "ask the exchange's operator") { world in
            try await world.recordByKey(patient: 40002)
            try await world.delivered()
            await world.exchange.removePatient(40002)
        },
        "delivery-held": Provocation(advice: "enroll again with --device") { world in
            try await world.record()
            try await world.delivered()
            await world.exchange.setDeviceType(TestWorld.device, to: "other")
        },
        "exchange-unreachable": Provocation(advice: "DNS") { world in
            try await world.record()
            try await world.delivered()
            await world.exchange.cutNetwork()
        },
        "dead-letters": Provocation(advice: "edge-gateway queue dead list") { world in
            try await world.gateway.start()
            try await world.command("pair", strap)
            try await world.inTime("samples") { $0.balance.stored >= 3 }
            try await world.command("queue", "export", "held.ndjson")
            let text = try String(
                contentsOf: world.gateway.directory.appending(path: "held.ndjson"), encoding: .utf8)
            for uuid in text.matches(of: /"uuid":"([^"]+)"/) {
                await world.exchange.refuse(String(uuid.output.1))
            }
            try await world.record()
        },
        "not-enrolled": Provocation(advice: "edge-gateway enroll LINK") { world in
            try await world.gateway.start()
            try await world.command("pair", strap)
        },
    ]

    private static let smallStore = ["EDGE_GATEWAY_STORAGE_MAX_MEGABYTES": "16"]

    /// Fills the store, before the daemon is started, with samples of a strap of another day.
    private static func fill(_ world: TestWorld, to fraction: Double) async throws {
        var settings = QueueSettings()
        settings.maxBytes = 16 << 20
        let clock = SystemClock(trust: .always)
        let queue = try SampleQueue(
            path: world.storePath, settings: settings, clock: clock, bootID: "earlier")
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
                        sensorID: assignment.sensorID,
                        at: now.at(now.uptime + .microseconds($0)), frame: frame)
                })
            try await queue.flush()
        }
        try await queue.close()
    }
}

/// A machine that has just booted and has not reached a time server.
private struct UntrustedClock: GatewayClock {
    func read() -> ClockReading {
        ClockReading(uptime: .zero + .seconds(30), wall: .epoch, isTrusted: false)
    }
}
