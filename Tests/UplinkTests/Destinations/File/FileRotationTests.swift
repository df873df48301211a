import Basics
import Foundation
import Testbed
import Testing

@testable import Uplink

@Suite struct FileRotationTests {
    private static func points(_ range: Range<Int>) -> [OutgoingPoint] {
        range.map {
            OutgoingPoint(
                DataPoint(
                    uuid: identifier($0),
                    .heartRate(bpm: 72, at: UTC(microseconds: 1_795_000_000_000_000) + .seconds($0))
                ),
                patient: "40001", sensorID: 7)
        }
    }

    private static func identifier(_ number: Int) -> String {
        "00000000-0000-8000-8000-" + String(100_000_000_000 + number)
    }

    private static func names(_ scratch: Scratch) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: scratch.path).sorted()
    }

    /// The identifiers in all files of a directory, compressed ones too.
    private static func identifiers(_ scratch: Scratch) async throws -> [String] {
        var found: [String] = []
        for name in try names(scratch) {
            let outcome = try await Command.run("/usr/bin/zcat", ["-f", scratch.path + "/" + name])
            #expect(outcome.status == 0 && outcome.output.hasSuffix("\n"))
            found += outcome.output.split(separator: "\n").compactMap {
                FileDestination.identifier(in: Array($0.utf8)[...])
            }
        }
        return found
    }

    private static func isStored(_ answer: DeliveryAnswer) -> [EntryVerdict] {
        guard case .entries(let entries) = answer else { return [] }
        return entries.map(\.verdict)
    }

    /// Waits for gzip.
    private static func eventually(_ holds: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !holds(), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    @Test func aFileIsPutAsideBeforeItGrowsBeyondItsSizeAndOlderOnesAreCompressed() async throws {
        let scratch = try Scratch()
        let clock = StillClock(wall: UTC(microseconds: 1_795_334_400_000_000))
        let file = FileDestination(
            path: scratch.path + "/points.ndjson",
            rotation: FileRotation(bytesMax: 10_000, compresses: true), clock: clock)
        for start in stride(from: 0, to: 200, by: 10) {
            clock.advance(by: .seconds(10))
            let answer = await file.deliver(Self.points(start..<(start + 10)), alone: false)
            #expect(Self.isStored(answer) == Array(repeating: .stored, count: 10))
        }
        try await Self.eventually {
            try Self.names(scratch).count { $0.hasSuffix("Z.ndjson") } == 1
        }
        await file.finish()
        let names = try Self.names(scratch)
        #expect(names.last == "points.ndjson")
        let aside = names.dropLast()
        #expect(aside.count >= 4)
        #expect(aside.allSatisfy { $0.hasPrefix("points-2026112") })
        // The newest stays as it is.
        #expect(aside.count { $0.hasSuffix("Z.ndjson") } == 1)
        #expect(aside.count { $0.hasSuffix("Z.ndjson.gz") } == aside.count - 1)
        for name in names where !name.hasSuffix(".gz") {
            let attributes = try FileManager.default.attributesOfItem(
                atPath: scratch.path + "/" + name)
            #expect(try #require(attributes[.size] as? Int) <= 10_000)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
        let identifiers = try await Self.identifiers(scratch)
        #expect(identifiers.count == 200 && Set(identifiers).count == 200)
    }

    @Test func eachDayHasAFileOfItsOwn() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points"
        let clock = StillClock()
        let file = FileDestination(
            path: path, rotation: FileRotation(isDaily: true), clock: clock)
        for day in 0..<3 {
            _ = await file.deliver(Self.points(day * 10..<(day * 10 + 5)), alone: false)
            _ = await file.deliver(Self.points(day * 10 + 5..<(day * 10 + 10)), alone: false)
            #expect(try Self.names(scratch).count == day + 1)
            clock.advance(by: .seconds(86_400))
        }
        #expect(try Self.names(scratch).first == "points")
        #expect(try await Self.identifiers(scratch).count == 30)
    }

    /// The delivery had no answer and sends the same again.
    @Test func aCrashRightAfterAFileWasPutAsideRepeatsNothing() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let rotation = FileRotation(bytesMax: 3000)
        do {
            let file = FileDestination(path: path, rotation: rotation)
            _ = await file.deliver(Self.points(0..<10), alone: false)
            await file.close()
        }
        // It was killed between the two moves of a rotation.
        try FileManager.default.moveItem(
            atPath: path, toPath: scratch.path + "/points-20261123T170000Z.ndjson")
        let file = FileDestination(path: path, rotation: rotation)
        let answer = await file.deliver(Self.points(0..<12), alone: false)
        #expect(
            Self.isStored(answer)
                == Array(repeating: .storedBefore, count: 10)
                + Array(repeating: .stored, count: 2))
        #expect(try await Self.identifiers(scratch).count == 12)
    }

    @Test func whateverStepFailsNothingIsLostOrWrittenTwice() async throws {
        let scratch = try Scratch()
        let random = Box(SeededRandom(seed: 11))
        let clock = StillClock(wall: UTC(microseconds: 1_795_334_400_000_000))
        let file = FileDestination(
            path: scratch.path + "/points.ndjson", rotation: FileRotation(bytesMax: 5000),
            clock: clock
        ) { _ in random.change { $0.next() % 6 == 0 ? EIO : 0 } }
        for start in stride(from: 0, to: 300, by: 5) {
            var answer = DeliveryAnswer.notSent(retryAt: nil)
            for _ in 0..<200 where answer == .notSent(retryAt: nil) {
                clock.advance(by: .seconds(1))
                answer = await file.deliver(Self.points(start..<(start + 5)), alone: false)
            }
            #expect(Self.isStored(answer).count == 5)
        }
        let identifiers = try await Self.identifiers(scratch)
        #expect(identifiers.count == 300 && Set(identifiers).count == 300)
        #expect(try Self.names(scratch).count > 5)
    }

    /// gzip was killed: what it left is not taken for a whole file.
    @Test func aHalfCompressedFileIsCompressedAnew() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let old = scratch.path + "/points-20261120T170000Z.ndjson"
        do {
            let file = FileDestination(path: old)
            _ = await file.deliver(Self.points(0..<10), alone: false)
            await file.close()
        }
        try Data([0x1F, 0x8B, 8, 0]).write(to: URL(filePath: old + ".gz"))
        #expect(await FileCompression.compress(old) == nil)
        #expect(try await Self.identifiers(scratch).count == 10)
        #expect(await FileCompression.compress(path + "-missing") == "gzip left with 1")
    }

    /// A researcher took it over, or looks at it.
    @Test func anAsideFileThatCannotBeReadOrIsLockedStopsNothing() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/points.ndjson"
        let aside = scratch.path + "/points-20261120T170000Z.ndjson"
        try FileManager.default.createSymbolicLink(
            atPath: aside, withDestinationPath: scratch.path + "/nowhere")
        let rotation = FileRotation(isDaily: true)
        do {
            let file = FileDestination(path: path, rotation: rotation)
            let answer = await file.deliver(Self.points(0..<3), alone: false)
            #expect(Self.isStored(answer).count == 3)
            await file.close()
        }
        try FileManager.default.removeItem(atPath: aside)
        let holder = FileDestination(path: aside)
        _ = await holder.deliver(Self.points(3..<6), alone: false)
        let file = FileDestination(path: path, rotation: rotation)
        let answer = await file.deliver(Self.points(0..<9), alone: false)
        #expect(
            Self.isStored(answer)
                == Array(repeating: .storedBefore, count: 6)
                + Array(repeating: .stored, count: 3))
    }

    @Test func otherFilesBesideItAreLeftAlone() throws {
        let scratch = try Scratch()
        for name in [
            "points-20261120T170000Z.ndjson.gz", "points-backup.ndjson", "points.ndjson.1",
            "other-20261120T170000Z.ndjson", "points-20261120T170000Z-2.ndjson",
        ] {
            try Data("x".utf8).write(to: URL(filePath: scratch.path + "/" + name))
        }
        let rotated = RotatedFiles(path: scratch.path + "/points.ndjson")
        #expect(rotated.plain() == [scratch.path + "/points-20261120T170000Z-2.ndjson"])
        // Taken, compressed.
        let time = UTC(microseconds: 1_795_194_000_000_000)
        let free = rotated.free(at: time)
        #expect(free == scratch.path + "/points-20261120T170000Z-3.ndjson")
    }

    @Test(arguments: [
        (["megabytes": "0"], "from 1 to"), (["megabytes": "x"], "from 1 to"),
        (["megabytes": "99999999999999999999"], "from 1 to"), (["daily": "maybe"], "yes, no"),
        (["compress": "yes"], "daily=yes"),
    ])
    func settingsThatCannotBeAreNamed(_ settings: [String: String], _ advice: String) throws {
        let given = settings.merging(["path": "/var/lib/x.ndjson"]) { $1 }
        let values = try SettingValues(given, for: FileKind.fields)
        #expect {
            _ = try FileKind(values)
        } throws: {
            ($0 as? DestinationProblem)?.description.contains(advice) == true
        }
    }
}
