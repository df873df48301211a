import BlueZ
import OfflineQueue

/// Listens for sensors nearby.
struct ScanService: Sendable {
    let queue: SampleQueue
    let central: Central
    let radio: RadioReadiness

    /// Listens for heart-rate sensors.
    ///
    /// - Parameter seconds: 1 to 60.
    func scan(seconds: Int) async throws -> [SightingReport] {
        guard (1...60).contains(seconds) else {
            throw ProblemReport(
                code: .badRequest, message: "a scan takes 1 to 60 seconds",
                advice: "edge-gateway scan --for 10s")
        }
        try await radio.wait()
        let sightings = await central.scan(for: .seconds(seconds))
        let known = Set(try await queue.sensors().map(\.address))
        return sightings.map {
            SightingReport(
                address: $0.address, name: $0.name ?? "", rssi: $0.rssi,
                known: known.contains($0.address), connected: $0.isConnected, bonded: $0.isPaired)
        }
    }
}
