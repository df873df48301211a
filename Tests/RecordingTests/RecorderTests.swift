import Basics
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Synchronization
import Testing

@testable import BlueZ
@testable import Recording

@Suite struct RecorderTests {
    private static let address = "C0:00:00:00:00:01"

    /// A power cut soon after the strap came back must not cost the sample that ended the interruption.
    @Test func theFirstFrameOfALinkIsDurableAtOnceAndTheNextOnesWaitForTheirGroup() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "recorder-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = HandClock()
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let central = Central(
            settings: CentralSettings(service: HeartRateService.service),
            connect: { () async throws(DBusFault) in throw DBusFault(name: DBusFault.disconnected) }
        )
        let recorder = Recorder(
            queue: queue, central: central, clock: clock, policy: .clinical,
            needsContact: true, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let sensor = try await queue.addSensor(address: Self.address, details: SensorDetails())
        try await queue.assign(sensor: sensor.id, enrollment: nil)
        await recorder.record(address: Self.address, sensorID: sensor.id)

        for link in 0..<2 {
            let began = 110 + Double(link) * 60
            func uptime(_ seconds: Double) -> Uptime { .zero + .seconds(began + seconds) }
            clock.set(began)
            await recorder.take([
                .link(
                    LinkChange(
                        address: Self.address, state: .streaming(lastFrameAt: uptime(0)),
                        reason: .progress, uptime: uptime(0)))
            ])
            #expect(await queue.nextCommitDeadline == nil)
            for second in 1...3 {
                clock.set(began + Double(second))
                await recorder.take([
                    .frame(
                        SensorFrame(
                            address: Self.address, bytes: [0, 60 + UInt8(second)],
                            uptime: uptime(Double(second))))
                ])
                // The first ones come to their times a moment later.
                await recorder.finish()
                let isWaiting = await queue.nextCommitDeadline != nil
                #expect(isWaiting == (second > 1), "link \(link), frame \(second)")
            }
            clock.set(began + 4)
            await recorder.take([
                .link(
                    LinkChange(
                        address: Self.address, state: .absent, reason: .heard, uptime: uptime(4)))
            ])
        }
        #expect(try await queue.balance().stored == 6)
        try await queue.close()
    }

    /// `status` knew of the hang, and `pair` and `scan` said that bluetoothd is not running, or blamed the strap.
    @Test func aBluetoothdThatHangsIsNeitherAbsentNorReady() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "recorder-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = HandClock()
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let recorder = Recorder(
            queue: queue,
            central: Central(settings: CentralSettings(service: HeartRateService.service)),
            clock: clock, policy: .clinical, needsContact: true,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let began = Uptime.zero + .seconds(60)
        await recorder.take([.bus(isPresent: true), .daemonHung(since: began)])
        #expect(await recorder.radio == .hung(since: began), "when the gateway came")
        await recorder.take([
            .daemonHung(since: nil), .daemon(isPresent: true), .daemonHung(since: began),
        ])
        #expect(await recorder.radio == .hung(since: began))
        await recorder.take([.daemonHung(since: nil)])
        #expect(await recorder.radio == .noAdapter)
        await recorder.take([.bus(isPresent: false)])
        #expect(await recorder.radio == .noBus)
        // The clock of the test is at 100 s.
        await recorder.take([.bus(isPresent: true)])
        #expect(await recorder.radio == .unknown, "it may answer in a moment")
        clock.set(106)
        #expect(await recorder.radio == .hung(since: .zero + .seconds(100)))
        await recorder.take([.daemon(isPresent: false)])
        #expect(await recorder.radio == .noDaemon)
        try await queue.close()
    }
}
