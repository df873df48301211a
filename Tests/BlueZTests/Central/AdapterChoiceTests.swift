import Basics
import Testing

@testable import BlueZ

extension Central {
    /// As if bluetoothd had told of these devices, each on an adapter that is on, and of when it was heard.
    fileprivate func take(_ told: [(device: Device, heard: Uptime?)]) {
        for (device, heard) in told {
            var adapter = Adapter(path: device.adapter)
            adapter.isPowered = true
            adapters[device.adapter] = WatchedAdapter(object: adapter)
            devices[device.address, default: [:]][device.path] = device
            heardAt[device.path] = heard
        }
    }
}

@Suite("Which of several adapters connects to a strap")
struct AdapterChoiceTests {
    private static let address = "C0:00:00:00:00:01"
    private static let now = Uptime.zero + .seconds(1_000)
    private static let lately = now - Central.heardFor + .milliseconds(1)
    private static let longAgo = now - Central.heardFor

    private func device(on adapter: Int, isPaired: Bool, isConnected: Bool = false) -> Device {
        var device = Device(path: "/org/bluez/hci\(adapter)/dev_1")
        device.address = Self.address
        device.adapter = "/org/bluez/hci\(adapter)"
        device.isPaired = isPaired
        device.isConnected = isConnected
        return device
    }

    /// The adapter over which the strap is connected to.
    private func choice(of told: [(Device, Uptime?)]) async -> String? {
        let clock = UptimeClock(now: { Self.now }, sleep: { _, _ in })
        let central = Central(settings: CentralSettings(service: Stage.service), clock: clock)
        await central.take(told.map { (device: $0.0, heard: $0.1) })
        return await central.bestPlace(of: Self.address)?.adapter
    }

    @Test(
        "of two that have a bond with the strap, the one that hears it goes first",
        arguments: [0, 1], [longAgo, nil] as [Uptime?])
    func heardBond(hears: Int, other: Uptime?) async {
        let found = await choice(
            of: [0, 1].map { (device(on: $0, isPaired: true), $0 == hears ? Self.lately : other) })
        #expect(found == "/org/bluez/hci\(hears)")
    }

    @Test(
        "of two that have a bond with the strap, the one that is connected goes first",
        arguments: [0, 1])
    func connectedBond(connected: Int) async {
        let found = await choice(
            of: [0, 1].map {
                (device(on: $0, isPaired: true, isConnected: $0 == connected), Self.longAgo)
            })
        #expect(found == "/org/bluez/hci\(connected)")
    }

    @Test(
        "one that has a bond goes before one that only hears the strap", arguments: [0, 1])
    func bond(bonded: Int) async {
        let found = await choice(
            of: [0, 1].map {
                (device(on: $0, isPaired: $0 == bonded), $0 == bonded ? nil : Self.lately)
            })
        #expect(found == "/org/bluez/hci\(bonded)")
    }
}
