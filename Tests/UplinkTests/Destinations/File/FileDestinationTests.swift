import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct FileDestinationTests {
    private static func point(_ number: Int) -> OutgoingPoint {
        OutgoingPoint(
            DataPoint(
                uuid: identifier(number),
                .heartRate(
                    bpm: 60 + number % 100,
                    at: UTC(microseconds: 1_795_000_000_000_000) + .seconds(number))),
            patient: "40001", sensorID: 7,
            strap: StrapDatasheet(manufacturer: "Polär \"E\"", model: "H10"))
    }

    private static func identifier(_ number: Int) -> String {
        "00000000-0000-8000-8000-" + String(100_000_000_000 + number)
    }

    private static func points(_ range: Range<Int>) -> [OutgoingPoint] { range.map(point) }

    private static func lines(_ path: String) throws -> [[String: Any]] {
        let text = try String(contentsOfFile: path, encoding: .ascii)
        #expect(text.isEmpty || text.hasSuffix("\n"))
        return try text.split(separator: "\n").map {
            try #require(
                try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    private static func identifiers(_ path: String) throws -> [String?] {
        try lines(path).map { line in
            let point = line["data_point"] as? [String: Any]
            return (point?["header"] as? [String: Any])?["uuid"] as? String
        }
    }

    private static func verdicts(_ answer: DeliveryAnswer) -> [EntryVerdict]? {
        guard case .entries(let entries) = answer else { return nil }
        return entries.map(\.verdict)
    }

    @Test func aLineHoldsTheDataPointItsPatientAndItsSensor() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let file = FileDestination(path: path)
        let answer = await file.deliver(Self.points(0..<2), alone: false)
        #expect(Self.verdicts(answer) == [.stored, .stored])
        let line = try #require(try Self.lines(path).first)
        #expect(line["patient"] as? String == "40001")
        let sensor = try #require(line["sensor"] as? [String: Any])
        #expect(sensor["id"] as? Int == 7)
        #expect(sensor["manufacturer"] as? String == "Polär \"E\"")
        #expect(sensor["firmware"] == nil)
        let point = try #require(line["data_point"] as? [String: Any])
        let same = DataPointWriter(strap: Self.point(0).strap).dataPoint(Self.point(0).point)
        let expected = try #require(
            try JSONSerialization.jsonObject(with: Data(same)) as? NSDictionary)
        #expect(point as NSDictionary == expected)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test func whatIsDeliveredAgainIsNotWrittenAgain() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let first = FileDestination(path: path)
        _ = await first.deliver(Self.points(0..<100), alone: false)
        let again = await first.deliver(Self.points(90..<110), alone: false)
        #expect(Self.verdicts(again)?.count { $0 == .storedBefore } == 10)
        #expect(try Self.identifiers(path) == (0..<110).map(Self.identifier))
    }

    @Test func afterACrashTheFileItselfSaysWhatItHas() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        do {
            let before = FileDestination(path: path)
            _ = await before.deliver(Self.points(0..<100), alone: false)
            await before.close()
        }
        // A crash in the middle of a write leaves whole lines and a part of one.
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        for cut in [whole.count - 1, whole.count - 200, whole.count / 2, 10, 0] {
            try whole.prefix(cut).write(to: URL(fileURLWithPath: path))
            let after = FileDestination(path: path)
            let answer = await after.deliver(Self.points(0..<100), alone: false)
            let kept = whole.prefix(cut).count { $0 == 0x0A }
            await after.close()
            #expect(Self.verdicts(answer)?.count { $0 == .storedBefore } == kept)
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == whole)
        }
    }

    @Test(
        "a failure at any step takes nothing, and the next attempt takes all once",
        // Nothing is put aside here.
        arguments: AppendFile.Step.allCases.filter { ![.rotate, .recognize].contains($0) },
        [ENOSPC, EIO])
    func failure(step: AppendFile.Step, number: Int32) async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        do {
            let before = FileDestination(path: path)
            _ = await before.deliver(Self.points(0..<10), alone: false)
            await before.close()
        }
        // The start of a line, so that there is something to cut off.
        let handle = try #require(FileHandle(forWritingAtPath: path))
        handle.seekToEndOfFile()
        handle.write(Data("{\"pat".utf8))
        try handle.close()

        let isFailing = Box(true)
        let file = FileDestination(path: path) { $0 == step && isFailing.now ? number : 0 }
        #expect(
            await file.deliver(Self.points(5..<20), alone: false)
                == .notSent(retryAt: nil))
        #expect(await file.lastFault == AppendFile.Fault(step: step, errno: number))
        isFailing.set(false)
        #expect(await file.deliver(Self.points(5..<20), alone: false) != .tooLarge)
        #expect(try Self.identifiers(path) == (0..<20).map(Self.identifier))
        #expect(await file.lastFault == nil)
    }

    @Test func aFullDiskLeavesTheFileAsItWas() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let writes = Box(0)
        let file = FileDestination(path: path) { step in
            guard step == .sync else { return 0 }
            return writes.change { count in
                count += 1
                // The first is that of the opening.
                return count == 2 ? ENOSPC : 0
            }
        }
        #expect(
            await file.deliver(Self.points(0..<5), alone: false)
                == .notSent(retryAt: nil))
        #expect(try Self.identifiers(path).isEmpty)
        #expect(
            Self.verdicts(await file.deliver(Self.points(0..<5), alone: false))
                == Array(repeating: .stored, count: 5))
    }

    /// As long as before it was emptied it became, of zeros, and was no file of data points any more.
    @Test func aFileThatAnotherProgramEmptiesIsLeftEmptyByAFailedAppend() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let isFailing = Box(false)
        let file = FileDestination(path: path) { $0 == .sync && isFailing.now ? ENOSPC : 0 }
        _ = await file.deliver(Self.points(0..<5), alone: false)
        #expect(truncate(path, 0) == 0)
        isFailing.set(true)
        #expect(
            await file.deliver(Self.points(5..<8), alone: false) == .notSent(retryAt: nil))
        #expect(try Data(contentsOf: URL(filePath: path)).isEmpty)
        isFailing.set(false)
        #expect(
            Self.verdicts(await file.deliver(Self.points(5..<8), alone: false))
                == Array(repeating: .stored, count: 3))
        #expect(try Self.identifiers(path) == (5..<8).map(Self.identifier))
    }

    @Test(arguments: [
        "{\"a\": 1}", "name,rate\nAda,72", "{\"patient\":\"1\"}\nsomething", "{\"patients\"",
    ])
    func aFileOfSomethingElseIsLeftAsItIs(text: String) async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        try Data(text.utf8).write(to: URL(filePath: path))
        let file = FileDestination(path: path)
        #expect(await !file.isHealthy())
        #expect(await file.deliver(Self.points(0..<3), alone: false) == .notSent(retryAt: nil))
        #expect(await file.fault == "the file holds something other than data points")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        // Nor is it waited for what opens the other end.
        try #require(mkfifo(scratch.path + "/pipe.ndjson", 0o600) == 0)
        #expect(await !FileDestination(path: scratch.path + "/pipe.ndjson").isHealthy())
    }

    @Test(arguments: [
        ("/var/lib/edge-gateway/points.ndjson", false), ("/var/tmp/points.ndjson", true),
        ("/tmp/x/points.ndjson", true), ("/run/edge-gateway/points.ndjson", true),
        ("/dev/shm/points.ndjson", true), ("/running/points.ndjson", false),
        ("/points.ndjson", false), ("/tmpfiles/points.ndjson", false),
    ])
    func filesThatVanishWithTheServiceAreKnown(path: String, vanishes: Bool) {
        let mounts = """
            24 1 254:1 / / ro,relatime - ext4 /dev/root rw
            31 24 254:1 /var/lib/edge-gateway /var/lib/edge-gateway rw - ext4 /dev/root rw
            32 24 254:1 /tmp/systemd-private-ab12-edge-gateway.service-x/tmp /tmp rw - ext4 /dev/root rw
            33 24 254:1 /var/tmp/systemd-private-ab12-edge-gateway.service-y/tmp /var/tmp rw - ext4 x rw
            broken
            """
        #expect(FilePlace.isTemporary(path, mounts: mounts) == vanishes)
        #expect(!FilePlace.isTemporary("/var/tmp/points.ndjson", mounts: ""))
    }

    @Test func aLongTableOfTheKernelsIsReadToItsEnd() throws {
        // Of several pages, as the mounts of a service that systemd confines can be.
        let maps = FilePlace.wholeText(ofKernelFile: "/proc/self/maps")
        #expect(maps.utf8.count > 8192)
        #expect(maps.contains("[stack]"))
        #expect(FilePlace.wholeText(ofKernelFile: "/proc/no-such-file").isEmpty)
    }

    @Test func aFileMovedAwayIsFollowedByANewOne() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let file = FileDestination(path: path)
        _ = await file.deliver(Self.points(0..<3), alone: false)
        try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
        _ = await file.deliver(Self.points(3..<5), alone: false)
        #expect(try Self.identifiers(path + ".1").count == 3)
        #expect(try Self.identifiers(path) == (3..<5).map(Self.identifier))
    }

    @Test func aSecondGatewayIsKeptOutAndALinkIsNotFollowed() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let first = FileDestination(path: path)
        #expect(await first.isHealthy())
        let second = FileDestination(path: path)
        #expect(await !second.isHealthy())
        _ = await second.deliver(Self.points(0..<1), alone: false)
        #expect(await second.lastFault?.step == .lock)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path + "/link", withDestinationPath: path)
        #expect(await !FileDestination(path: scratch.path + "/link").isHealthy())
        #expect(
            await FileDestination(path: "/nonexistent/points").isMended(.exchangeFault) == false)
    }

    @Test func aSampleWithoutAPatientBelongsToTheEnrollmentsPatient() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        var sample = Self.point(1)
        sample.patient = nil
        _ = await FileDestination(path: path, patient: "40002").deliver([sample], alone: false)
        #expect(try Self.lines(path).first?["patient"] as? String == "40002")
        _ = await FileDestination(path: path + "2").deliver([sample], alone: false)
        #expect(try Self.lines(path + "2").first?["patient"] is NSNull)
    }

    @Test func aSampleTwiceInOneDeliveryIsWrittenOnce() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let twice = await FileDestination(path: path).deliver(
            [Self.point(1), Self.point(1)], alone: false)
        #expect(Self.verdicts(twice) == [.stored, .storedBefore])
        #expect(try Self.identifiers(path).count == 1)
    }

    @Test func theLastIdentifiersAreFoundInALongFile() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        do {
            let file = FileDestination(path: path)
            for start in stride(from: 0, to: 12_000, by: 1000) {
                _ = await file.deliver(Self.points(start..<(start + 1000)), alone: false)
            }
        }
        let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
        #expect(try #require(size) > 2 * AppendFile.tailBytes)
        let answer = await FileDestination(path: path).deliver(
            Self.points(11_000..<12_000), alone: false)
        #expect(Self.verdicts(answer)?.allSatisfy { $0 == .storedBefore } == true)
    }

    @Test func aDeliveryDeliversIntoAFileThatFailsNowAndThen() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let clock = StillClock()
        let queue = try SampleQueue(
            path: scratch.path + "/queue.sqlite", clock: clock, bootID: UUID().uuidString)
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "file", origin: "https://clinic.example",
                fhirBase: "https://clinic.example/FHIR/R5", clientID: "none", patient: "1",
                device: nil, codeSystem: nil, code: nil, identifierSystem: "urn:x"))
        let sensor = try await queue.addSensor(
            address: "A0:9E:1A:00:00:01", details: SensorDetails())
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        for _ in 0..<250 {
            clock.advance(by: .seconds(1))
            try await queue.append(contentsOf: [
                Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: [0, 60])
            ])
        }
        try await queue.flush()
        let random = Box(SeededRandom(seed: 3))
        let destination = FileDestination(path: path) { _ in
            random.change { $0.next() % 8 == 0 ? EIO : 0 }
        }
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        for _ in 0..<1000 where try await queue.balance().unsent > 0 {
            clock.advance(to: await runner.advance())
        }
        #expect(try await queue.balance().delivered == 250)
        let identifiers = try Self.identifiers(path)
        #expect(identifiers.count == 250 && Set(identifiers).count == 250)
    }
}
