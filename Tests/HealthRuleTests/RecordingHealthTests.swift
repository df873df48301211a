import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Recording
import Testing

@testable import Health

/// What is read of the parts that record.
@Suite struct RecordingHealthTests {
    /// A strap under an address that the store did not take was not judged: `status` said `well` of one that was
    /// silent and had no battery left.
    @Test func aStrapIsJudgedUnderTheAddressThatBluetoothdKnowsItBy() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "recording-health-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = SystemClock(trust: .always)
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let central = Central(settings: CentralSettings(service: HeartRateService.service))
        let recorder = Recorder(
            queue: queue, central: central, clock: clock, policy: .clinical, needsContact: true,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let (changing, identity) = ("60:00:00:00:00:01", "C0:00:00:00:00:02")
        let sensor = try await queue.addSensor(address: changing)
        // The store does not take the address that bonding reveals: another strap had it.
        _ = try await queue.addSensor(address: identity)
        try await queue.assign(sensor: sensor.id, enrollment: nil)
        await recorder.record(address: changing, sensorID: sensor.id)
        await recorder.take([.bus(isPresent: true), .daemon(isPresent: true)])
        await recorder.take([.renamed(from: changing, to: identity)])
        await central.watch(
            address: identity, service: HeartRateService.service,
            characteristic: HeartRateService.measurement)
        await recorder.noteBattery(9, of: identity)

        var reading = clock.read()
        reading.uptime = reading.uptime + .seconds(90)
        let health = RecordingHealth(recorder: recorder, central: central, queue: queue)
        let (snapshot, _) = await health.read(reading, history: HealthHistory())
        let strap = try #require(snapshot.straps.first { $0.id == sensor.id })
        #expect(strap.silentTime >= .seconds(90))
        #expect(strap.batteryPercent == 9)
        let link = try #require(await central.snapshots().first { $0.address == identity })
        #expect(strap.link == link.state.kind && strap.link != "absent")
        try await queue.close()
    }
}
