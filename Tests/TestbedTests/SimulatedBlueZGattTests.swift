import BlueZ
import GATTHeartRate
import Testing

@testable import Testbed

private typealias Fixture = SimulatedBlueZFixture

@Suite struct SimulatedBlueZGattTests {
    @Test func framesComeOnlyToASubscriberAndAreAllWrittenDown() throws {
        let fixture = try Fixture()
        fixture.connect()
        fixture.wait(seconds: 60)
        #expect(fixture.frames.isEmpty)
        #expect(isGood(fixture.onMeasurement("StartNotify")))
        fixture.wait(seconds: 300)
        #expect((299...301).contains(fixture.frames.count))
        #expect(fixture.frames == fixture.world.sent[Fixture.strap]?.map(\.bytes))
        #expect(isGood(fixture.onMeasurement("StopNotify")))
        let count = fixture.frames.count
        fixture.wait(seconds: 60)
        #expect(fixture.frames.count == count)
        #expect(fixture.onMeasurement("StopNotify")?.fault == BlueZFault.noNotifySession)
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
        let fixture = try Fixture(sendsFrames: false)
        fixture.connect()
        #expect(isGood(fixture.onMeasurement("StartNotify")))
        #expect(isGood(fixture.onMeasurement("StartNotify")), "twice is once")
        #expect(isGood(fixture.onMeasurement("StartNotify", from: ":1.8")))
        #expect(fixture.emit([0, 60]))
        #expect(isGood(fixture.onMeasurement("StopNotify")))
        #expect(fixture.emit([0, 61]))
        #expect(isGood(fixture.onMeasurement("StopNotify", from: ":1.8")))
        #expect(!fixture.emit([0, 62]))
        fixture.wait(seconds: 0)
        #expect(fixture.frames == [[0, 60], [0, 61]])
    }

    @Test func equalAndEmptyFramesAreToldToo() throws {
        let fixture = try Fixture(sendsFrames: false)
        fixture.connect()
        _ = fixture.onMeasurement("StartNotify")
        for frame: [UInt8] in [[0, 60], [0, 60], [], []] {
            #expect(fixture.emit(frame))
        }
        fixture.wait(seconds: 0)
        #expect(fixture.frames == [[0, 60], [0, 60], [], []])
    }

    @Test func aSubscriptionOutlivesTheLink() throws {
        let fixture = try Fixture(sendsFrames: false)
        fixture.connect()
        _ = fixture.onMeasurement("StartNotify")
        fixture.world.drop(Fixture.strap)
        #expect(!fixture.emit([0, 60]))
        #expect(fixture.onMeasurement("StartNotify")?.fault == BlueZFault.inProgress)
        #expect(isGood(fixture.onMeasurement("StartNotify", from: ":1.8")), "arms at reconnect")
        #expect(isGood(fixture.onDevice("Connect")))
        #expect(fixture.emit([0, 61]))
        #expect(isGood(fixture.onMeasurement("StartNotify")))
    }

    @Test func aSubscriptionEndsWithItsClient() throws {
        let fixture = try Fixture(sendsFrames: false)
        fixture.connect()
        _ = fixture.onMeasurement("StartNotify")
        fixture.world.receive(
            .signal(
                path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
                member: "NameOwnerChanged",
                body: [.string(":1.7"), .string(":1.7"), .string("")]))
        #expect(!fixture.emit([0, 60]))
        #expect(fixture.property("Connected")?.flag == true, "the link stays")
    }

    @Test func whatIsReadIsToldAsWell() throws {
        let fixture = try Fixture()
        fixture.connect()
        let path = fixture.world.straps[Fixture.strap]?.table
            .path(of: GattTable.batteryLevel, device: Fixture.device)
        let battery = try #require(path)
        fixture.world.setBattery(Fixture.strap, 41)
        let answer = fixture.call(
            "ReadValue", battery, BlueZName.characteristic, [.properties([:])])
        #expect(try answer?.get() == [.bytes([41])])
        #expect(fixture.changes(battery, BlueZName.characteristic) == [["Value": .bytes([41])]])
        #expect(
            fixture.changes(Fixture.device, BlueZName.battery) == [["Percentage": .byte(41)]])
    }

    @Test func theControlPointKnowsOneCommand() throws {
        let fixture = try Fixture()
        fixture.connect()
        let path = fixture.world.straps[Fixture.strap]?.table
            .path(of: GattTable.controlPoint, device: Fixture.device)
        let control = try #require(path)
        func write(_ bytes: [UInt8]) -> Result<[DBusValue], DBusFault>? {
            fixture.call(
                "WriteValue", control, BlueZName.characteristic,
                [.bytes(bytes), .properties([:])])
        }
        #expect(isGood(write([1])))
        #expect(write([2])?.fault == BlueZFault.att(0x80))
        #expect(write([])?.fault == BlueZFault.att(0x80))
    }

    @Test func anEncryptedStrapRefusesUntilItIsPaired() throws {
        var strap = SimulatedStrap(
            address: Fixture.strap, name: "HR-01", heart: try .fiveMinutes())
        strap.security = .encrypted
        let fixture = try Fixture(straps: [strap], sendsFrames: false)
        fixture.connect()
        #expect(fixture.onMeasurement("StartNotify")?.fault == BlueZFault.notPaired)
        #expect(!fixture.emit([0, 60]))
        #expect(isGood(fixture.onDevice("Pair")))
        #expect(isGood(fixture.onMeasurement("StartNotify")))
        #expect(fixture.emit([0, 60]))
    }

    @Test func subscribingWithoutABondMayNeverBeAnswered() throws {
        var strap = SimulatedStrap(
            address: Fixture.strap, name: "HR-01", heart: try .fiveMinutes())
        strap.security = .encrypted
        let fixture = try Fixture(straps: [strap]) { $0.encryptedStartNotifyHangs = true }
        fixture.connect()
        let start = fixture.begin("StartNotify", Fixture.measurement, BlueZName.characteristic)
        fixture.wait(seconds: 600)
        #expect(fixture.answer(start) == nil)
    }

    @Test func aReadThatLosesItsLinkEndsWithAnError() throws {
        let fixture = try Fixture()
        fixture.connect()
        let start = fixture.begin("StartNotify", Fixture.measurement, BlueZName.characteristic)
        fixture.world.drop(Fixture.strap)
        fixture.wait(seconds: 1)
        #expect(fixture.answer(start)?.fault == BlueZFault.att(0x0e))
    }

    @Test func noiseIsMixedInAndWrittenDown() throws {
        let fixture = try Fixture()
        fixture.connect()
        fixture.world.straps[Fixture.strap]?.strap.noise = FrameNoise(
            framesPerMalformed: 5, framesPerDuplicate: 7, framesPerEmpty: 11)
        _ = fixture.onMeasurement("StartNotify")
        fixture.wait(seconds: 77.5)
        let frames = fixture.frames
        #expect(frames.count == 77 + 15 + 11 + 7)
        #expect(frames.count { $0.isEmpty } == 7)
        #expect(frames == fixture.world.sent[Fixture.strap]?.map(\.bytes))
    }
}
