import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing
import Uplink

/// What the gateway reads and writes, judged by people who do not know it (requirements.txt).
@Suite struct ConformanceTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let python = root.appending(path: ".build-oracles/bin/python").path
    private static let products = URL(filePath: CommandLine.arguments[0])
        .resolvingSymlinksInPath().deletingLastPathComponent()

    @Test func theJudgesAreThere() {
        // A missing judge must fail, not skip: nothing else would notice.
        #expect(
            FileManager.default.isExecutableFile(atPath: Self.python),
            "run Tests/Conformance/setup first; make test does")
    }

    @Test func threeOtherDecodersAgreeOnFiftyThousandFrames() async throws {
        let gateway = Self.products.appending(path: "edge-gateway").path
        let outcome = try await Command.run(
            Self.python,
            [
                Self.root.appending(path: "Tests/Conformance/frames.py").path,
                "--frames", "50000", "--decoder", "\(gateway) decode --json -",
            ])
        #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
        #expect(outcome.output.contains(" 0 failed"))
    }

    @Test func homeAssistantsTemplatesReadTheGatewaysState() async throws {
        let destination = try DestinationRegistry.destination(
            "mqtt", ["url": "mqtt://127.0.0.1", "gateway": "ward3", "discovery": "on"])
        let outcome = try await Command.run(
            "/usr/bin/python3",
            [Self.root.appending(path: "Tests/Conformance/home_assistant.py").path],
            input: destination.example)
        #expect(outcome.status == 0, "\(outcome.complaint)")
        #expect(
            outcome.output.split(separator: "\n") == [
                "ward3 backlog 40", "ward3 paired 1", "ward3 problem OFF",
                "ward3 severity none", "ward3 straps 1", "ward3 Bed 7 link streaming",
            ])
    }

    @Test func everyDocumentWeWriteIsAcceptedByOpenMHealthAndFHIR() async throws {
        let straps = [
            StrapDatasheet(),
            StrapDatasheet(manufacturer: "Polar Electro Oy", model: "H10", firmware: "3.1.1"),
            StrapDatasheet(
                manufacturer: "Mödel \"ℍ\" 💓/\\\u{07}\u{2028}", model: "", firmware: "ü"),
        ]
        // The ends of what is delivered, and times around a leap day and a change of year.
        let times: [Int64] = [
            1_793_491_200_000_000, 1_835_395_199_999_999, 1_830_297_599_000_000,
            4_102_444_799_999_000,
        ]
        let contents = times.flatMap { time -> [DataPoint.Content] in
            let start = UTC(microseconds: time / 60_000_000 * 60_000_000)
            let rates = [30, 72, 240].map {
                DataPoint.Content.heartRate(bpm: $0, at: UTC(microseconds: time))
            }
            let averages = [10, 60].map { seconds in
                DataPoint.Content.averageHeartRate(
                    tenths: 723, count: seconds - 1,
                    window: start..<start + .seconds(seconds))
            }
            let intervals = [1, 843, UInt16.max].map {
                DataPoint.Content.interval(ticks: $0, end: UTC(microseconds: time))
            }
            return rates + averages + intervals
        }
        let bundles = BundleWriter(device: "70007", identifierSystem: "urn:edge-gateway:sample")
        var lines: [String] = []
        for strap in straps {
            let points = DataPointWriter(strap: strap)
            var entries: [BundleWriter.Entry] = []
            for content in contents {
                let point = DataPoint(uuid: UUID().uuidString.lowercased(), content)
                lines.append(line("datapoint", points.dataPoint(point)))
                let entry = BundleWriter.Entry(point: point, patient: "40001", writer: points)
                lines.append(line("observation", bundles.observation(entry)))
                entries.append(entry)
            }
            lines.append(line("bundle", bundles.bundle(entries)))
            lines.append(line("bundle", bundles.bundle(Array(entries.prefix(1)))))
        }
        let file = FileManager.default.temporaryDirectory
            .appending(path: "written-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
        let outcome = try await Command.run(
            Self.python,
            [Self.root.appending(path: "Tests/Conformance/documents.py").path, file.path])
        #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
        #expect(outcome.output.contains("\(lines.count) documents accepted"))
    }

    @Test func anHRVProgramReadsTheIntervalsThatWereSent() async throws {
        let gateway = try GatewayProcess(busAddress: nil)
        let directory = gateway.directory
        defer { try? FileManager.default.removeItem(at: directory) }
        let queue = try SampleQueue(
            path: directory.appending(path: "state/queue.sqlite").path, clock: StillClock(),
            bootID: "boot")
        let sensor = try await queue.addSensor(address: "C0:00:00:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        var packer = StrapPacker(heart: try .oneHour(), style: .chest)
        var ticks: [String] = []
        for frame in packer.advance(milliseconds: 1_800_000) {
            var reading = StillClock().read()
            reading.uptime += .milliseconds(frame.atMilliseconds)
            reading.wall += .milliseconds(frame.atMilliseconds)
            try await queue.append(contentsOf: [
                Arrival(sensorID: assignment.sensorID, at: reading, frame: frame.bytes)
            ])
            ticks += frame.ticks.map { "\($0)" }
        }
        try await queue.close()
        let exported = try await gateway.command(["queue", "export", "beats.csv", "--beats"])
        #expect(exported.status == 0, "\(exported.complaint)")
        let sent = directory.appending(path: "ticks.txt")
        try ticks.joined(separator: "\n").write(to: sent, atomically: true, encoding: .utf8)
        let outcome = try await Command.run(
            Self.python,
            [
                Self.root.appending(path: "Tests/Conformance/beats.py").path,
                directory.appending(path: "beats.csv").path, sent.path,
            ])
        #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
        #expect(outcome.output.contains("RMSSD"))
    }

    /// Time that the test counts itself.
    private struct StillClock: GatewayClock {
        func read() -> ClockReading {
            ClockReading(
                uptime: Uptime(microseconds: 100_000_000),
                wall: UTC(microseconds: 1_796_083_200_000_000),
                isTrusted: true)
        }
    }

    private func line(_ kind: String, _ document: [UInt8]) -> String {
        #"{"kind":"\#(kind)","document":\#(String(decoding: document, as: UTF8.self))}"#
    }
}
