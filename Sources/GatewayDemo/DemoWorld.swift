import Foundation
import Testbed

/// The gateway's surroundings: people with straps, a bus with bluetoothd, and an exchange; simulated
/// unless real ones are configured.
///
/// `DEMO_STRAPS` names the addresses of real straps on this machine's Bluetooth, separated by
/// commas; `DEMO_LINK_FILE` a file with the invitation link of a real exchange.
struct DemoWorld {
    /// A person, the strap worn, and the enrollment its samples go through.
    struct PairedPatient {
        var name: String
        var address: String
        var enrollment: String
        /// The stand-in's patient; nil at a real exchange.
        var patient: Int?
    }

    /// A simulated strap plays this recording from this beat on.
    private struct Recording {
        var name: String
        var patient: Int
        var series: String
        var firstBeat: Int
    }

    private static let recordings = [
        Recording(name: "Ada", patient: 40001, series: "five-minutes", firstBeat: 0),
        Recording(name: "Ben", patient: 40002, series: "one-hour", firstBeat: 0),
        Recording(name: "Cleo", patient: 40004, series: "one-hour", firstBeat: 2000),
    ]

    let patients: [PairedPatient]
    /// The invitation links by the name of the enrollment.
    let links: [(enrollment: String, link: String)]
    /// The private bus; nil when the straps are real.
    let bus: PrivateBus?
    let bluez: SimulatedBlueZ?
    /// Nil when the exchange is real.
    let exchange: StandInExchange?

    /// A description of the simulated parts, in one line.
    var description: String {
        let radio =
            bluez == nil ? "This machine's Bluetooth" : "Real dbus-daemon, simulated bluetoothd"
        let target = exchange == nil ? "the exchange of the link" : "stand-in exchange"
        return "\(radio), \(patients.count) straps, \(target)."
    }

    static func start(environment: [String: String]) async throws -> DemoWorld {
        let realStraps = environment["DEMO_STRAPS"]?.split(separator: ",").map(String.init)
        let realLink = try environment["DEMO_LINK_FILE"].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        var patients: [PairedPatient] = []
        for index in 0..<(realStraps?.count ?? recordings.count) {
            let recording = index < recordings.count ? recordings[index] : nil
            patients.append(
                PairedPatient(
                    name: recording?.name ?? "Strap \(index + 1)",
                    address: realStraps?[index] ?? "C0:00:00:00:00:0\(index + 1)",
                    enrollment: realLink != nil ? "e1" : "e\(index % recordings.count + 1)",
                    patient: realLink != nil ? nil : recordings[index % recordings.count].patient))
        }
        let exchange = realLink == nil ? try await StandInExchange.start(seed: seed()) : nil
        var links: [(String, String)] = realLink.map { [("e1", $0)] } ?? []
        if let exchange {
            for (index, recording) in recordings.enumerated() {
                links.append(("e\(index + 1)", await exchange.invite(patient: recording.patient)))
            }
        }
        guard realStraps == nil else {
            return DemoWorld(
                patients: patients, links: links, bus: nil, bluez: nil, exchange: exchange)
        }
        let bus = try await PrivateBus.start()
        let bluez = try await SimulatedBlueZ.start(on: bus, straps: straps(of: patients))
        return DemoWorld(
            patients: patients, links: links, bus: bus, bluez: bluez, exchange: exchange)
    }

    private static func straps(of patients: [PairedPatient]) throws -> [SimulatedStrap] {
        try zip(patients, recordings).map { patient, recording in
            SimulatedStrap(
                address: patient.address, name: "Strap \(patient.name)",
                heart: try RecordedHeart(named: recording.series), firstBeat: recording.firstBeat)
        }
    }

    /// The standard seed has two patients who consented; a third joins them.
    private static func seed() -> ExchangeSeed {
        var seed = ExchangeSeed.standard
        var cleo = seed.patients[0]
        cleo.id = 40004
        cleo.userID = 10009
        cleo.email = "cleo@example.com"
        seed.patients.append(cleo)
        for index in seed.studies.indices { seed.studies[index].patients.append(cleo.id) }
        seed.consents.append((cleo.id, 30001, "omh:heart-rate:2.0"))
        return seed
    }

    func stop() async {
        await exchange?.stop()
        await bluez?.stop()
        await bus?.stop()
    }
}
