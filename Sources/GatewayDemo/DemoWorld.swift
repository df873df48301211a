import Testbed

/// The simulated surroundings: three people with straps, a bus with bluetoothd, and an exchange.
struct DemoWorld {
    /// A person, the strap worn, and where the recording starts.
    struct Wearer {
        var patient: Int
        var name: String
        var address: String
        var recording: String
        var firstBeat: Int
    }

    static let wearers = [
        Wearer(
            patient: 40001, name: "Ada", address: "C0:00:00:00:00:01", recording: "five-minutes",
            firstBeat: 0),
        Wearer(
            patient: 40002, name: "Ben", address: "C0:00:00:00:00:02", recording: "one-hour",
            firstBeat: 0),
        Wearer(
            patient: 40004, name: "Cleo", address: "C0:00:00:00:00:03", recording: "one-hour",
            firstBeat: 2000),
    ]

    let bus: PrivateBus
    let bluez: SimulatedBlueZ
    let exchange: StandInExchange

    static func start() async throws -> DemoWorld {
        var straps: [SimulatedStrap] = []
        for wearer in wearers {
            straps.append(
                SimulatedStrap(
                    address: wearer.address, name: "Strap \(wearer.name)",
                    heart: try RecordedHeart(named: wearer.recording),
                    firstBeat: wearer.firstBeat))
        }
        var seed = ExchangeSeed.standard
        var cleo = seed.patients[0]
        cleo.id = 40004
        cleo.userID = 10009
        cleo.email = "cleo@example.com"
        seed.patients.append(cleo)
        for index in seed.studies.indices { seed.studies[index].patients.append(40004) }
        seed.consents.append((40004, 30001, "omh:heart-rate:2.0"))
        let bus = try await PrivateBus.start()
        return DemoWorld(
            bus: bus, bluez: try await SimulatedBlueZ.start(on: bus, straps: straps),
            exchange: try await StandInExchange.start(seed: seed))
    }

    func stop() async {
        await exchange.stop()
        await bluez.stop()
        await bus.stop()
    }
}
