import BlueZ
import GATTHeartRate
import Testing

@testable import Testbed

private typealias Bench = SimulatedBlueZBench

@Suite struct SimulatedBlueZGattTests {
    @Test func framesComeOnlyToASubscriberAndAreAllWrittenDown() throws {
        let bench = try Bench()
        bench.connect()
        bench.wait(seconds: 60)
        #expect(bench.frames.isEmpty)
        #expect(isGood(bench.onMeasurement("StartNotify")))
        bench.wait(seconds: 300)
        #expect((299...301).contains(bench.frames.count))
        #expect(bench.frames == bench.world.sent[Bench.strap]?.map(\.bytes))
        #expect(isGood(bench.onMeasurement("StopNotify")))
        let count = bench.frames.count
        bench.wait(seconds: 60)
        #expect(bench.frames.count == count)
        #expect(bench.onMeasurement("StopNotify")?.fault == BlueZFault.noNotifySession)
    }

    @Test func packedFramesDecodeToTheIntervalsThatWentIn() throws {
        for style in [
            StrapStyle.chest, .wrist, StrapStyle(framesPerEnergy: 1, alwaysWideRate: true),
            StrapStyle(frameIntervalMilliseconds: 20_000),
            StrapStyle(contact: .notSupported),
            StrapStyle(contact: .supported(lostSeconds: [9..<99])),
        ] {
            let heart = try RecordedHeart.oneHour()
            var packer = StrapPacker(heart: heart, style: style)
            let frames = packer.advance(milliseconds: 3_500_000)
            for frame in frames {
                let measurement = try HeartRateMeasurement(frame: frame.bytes, policy: .strict)
                #expect(Array(measurement.rrIntervals) == frame.ticks)
                #expect(measurement.anomalies.isEmpty)
            }
            let everything = heart.intervals.map(RecordedHeart.ticks(milliseconds:))
            let sent = frames.flatMap(\.ticks)
            if case .supported(let lost) = style.contact, !lost.isEmpty {
                #expect(sent.count < everything.count - 60)
            } else {
                #expect(sent.starts(with: everything.prefix(style.sendsRRIntervals ? 4500 : 0)))
            }
        }
    }

    @Test func oneSignalServesAllSubscribers() throws {
        let bench = try Bench(sendsFrames: false)
        bench.connect()
        #expect(isGood(bench.onMeasurement("StartNotify")))
        #expect(isGood(bench.onMeasurement("StartNotify")), "twice is once")
        #expect(isGood(bench.onMeasurement("StartNotify", from: ":1.8")))
        #expect(bench.emit([0, 60]))
        #expect(isGood(bench.onMeasurement("StopNotify")))
        #expect(bench.emit([0, 61]))
        #expect(isGood(bench.onMeasurement("StopNotify", from: ":1.8")))
        #expect(!bench.emit([0, 62]))
        bench.wait(seconds: 0)
        #expect(bench.frames == [[0, 60], [0, 61]])
    }

    @Test func equalAndEmptyFramesAreToldToo() throws {
        let bench = try Bench(sendsFrames: false)
        bench.connect()
        _ = bench.onMeasurement("StartNotify")
        for frame: [UInt8] in [[0, 60], [0, 60], [], []] {
            #expect(bench.emit(frame))
        }
        bench.wait(seconds: 0)
        #expect(bench.frames == [[0, 60], [0, 60], [], []])
    }

    @Test func aSubscriptionOutlivesTheLink() throws {
        let bench = try Bench(sendsFrames: false)
        bench.connect()
        _ = bench.onMeasurement("StartNotify")
        bench.world.drop(Bench.strap)
        #expect(!bench.emit([0, 60]))
        #expect(bench.onMeasurement("StartNotify")?.fault == BlueZFault.inProgress)
        #expect(isGood(bench.onMeasurement("StartNotify", from: ":1.8")), "arms at reconnect")
        #expect(isGood(bench.onDevice("Connect")))
        #expect(bench.emit([0, 61]))
        #expect(isGood(bench.onMeasurement("StartNotify")))
    }

    @Test func aSubscriptionEndsWithItsClient() throws {
        let bench = try Bench(sendsFrames: false)
        bench.connect()
        _ = bench.onMeasurement("StartNotify")
        bench.world.receive(
            .signal(
                path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
                member: "NameOwnerChanged",
                body: [.string(":1.7"), .string(":1.7"), .string("")]))
        #expect(!bench.emit([0, 60]))
        #expect(bench.property("Connected")?.flag == true, "the link stays")
    }

    @Test func acquireNotifyIsNotOffered() throws {
        let bench = try Bench()
        bench.connect()
        #expect(bench.onMeasurement("AcquireNotify")?.fault == BlueZFault.notSupported)
    }

    @Test func whatIsReadIsToldAsWell() throws {
        let bench = try Bench()
        bench.connect()
        let path = bench.world.straps[Bench.strap]?.table
            .path(of: GattTable.batteryLevel, device: Bench.device)
        let battery = try #require(path)
        bench.world.setBattery(Bench.strap, 41)
        let answer = bench.call(
            "ReadValue", battery, BlueZName.characteristic, [.properties([:])])
        #expect(try answer?.get() == [.bytes([41])])
        #expect(bench.changes(battery, BlueZName.characteristic) == [["Value": .bytes([41])]])
        #expect(
            bench.changes(Bench.device, BlueZName.battery) == [["Percentage": .byte(41)]])
    }

    @Test func theControlPointKnowsOneCommand() throws {
        let bench = try Bench()
        bench.connect()
        let path = bench.world.straps[Bench.strap]?.table
            .path(of: GattTable.controlPoint, device: Bench.device)
        let control = try #require(path)
        func write(_ bytes: [UInt8]) -> Result<[DBusValue], DBusFault>? {
            bench.call(
                "WriteValue", control, BlueZName.characteristic,
                [.bytes(bytes), .properties([:])])
        }
        #expect(isGood(write([1])))
        #expect(write([2])?.fault == BlueZFault.att(0x80))
        #expect(write([])?.fault == BlueZFault.att(0x80))
    }

    @Test func anEncryptedStrapRefusesUntilItIsPaired() throws {
        var strap = SimulatedStrap(
            address: Bench.strap, name: "HR-01", heart: try .fiveMinutes())
        strap.security = .encrypted
        let bench = try Bench(straps: [strap], sendsFrames: false)
        bench.connect()
        #expect(bench.onMeasurement("StartNotify")?.fault == BlueZFault.notPaired)
        #expect(!bench.emit([0, 60]))
        #expect(isGood(bench.onDevice("Pair")))
        #expect(isGood(bench.onMeasurement("StartNotify")))
        #expect(bench.emit([0, 60]))
    }

    @Test func subscribingWithoutABondMayNeverBeAnswered() throws {
        var strap = SimulatedStrap(
            address: Bench.strap, name: "HR-01", heart: try .fiveMinutes())
        strap.security = .encrypted
        let bench = try Bench(straps: [strap]) { $0.encryptedStartNotifyHangs = true }
        bench.connect()
        let start = bench.begin("StartNotify", Bench.measurement, BlueZName.characteristic)
        bench.wait(seconds: 600)
        #expect(bench.answer(start) == nil)
    }

    @Test func aReadThatLosesItsLinkEndsWithAnError() throws {
        let bench = try Bench()
        bench.connect()
        let start = bench.begin("StartNotify", Bench.measurement, BlueZName.characteristic)
        bench.world.drop(Bench.strap)
        bench.wait(seconds: 1)
        #expect(bench.answer(start)?.fault == BlueZFault.att(0x0e))
    }

    @Test func noiseIsMixedInAndWrittenDown() throws {
        let bench = try Bench()
        bench.connect()
        bench.world.straps[Bench.strap]?.strap.noise = FrameNoise(
            framesPerMalformed: 5, framesPerDuplicate: 7, framesPerEmpty: 11)
        _ = bench.onMeasurement("StartNotify")
        bench.wait(seconds: 77.5)
        let frames = bench.frames
        #expect(frames.count == 77 + 15 + 11 + 7)
        #expect(frames.count { $0.isEmpty } == 7)
        #expect(frames == bench.world.sent[Bench.strap]?.map(\.bytes))
    }
}
