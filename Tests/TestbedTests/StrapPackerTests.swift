import Testbed
import Testing

@Suite struct StrapPackerTests {
    @Test func aChestStrapSendsAboutOneFrameASecondAndEveryIntervalOnceInOrder() throws {
        let heart = try RecordedHeart.oneHour()
        var packer = StrapPacker(heart: heart)
        // 3,599 s: the hour's series lasts a little less than 3,600 s and then starts over.
        let frames = packer.advance(milliseconds: 3_599_000)
        let expected = heart.intervals.map(RecordedHeart.ticks(milliseconds:))
        let sent = frames.flatMap(\.ticks)
        #expect(frames.count == 3599)
        #expect(sent.count > 4600)
        #expect(sent == Array(expected.prefix(sent.count)))
        #expect(packer.emitted == frames)
    }

    @Test func theSameStepsOrOneLongStepGiveTheSameBytes() throws {
        let heart = try RecordedHeart.fiveMinutes()
        var once = StrapPacker(heart: heart, startingAt: 7)
        var often = StrapPacker(heart: heart, startingAt: 7)
        _ = once.advance(milliseconds: 600_000)
        for _ in 0..<60_000 { _ = often.advance(milliseconds: 10) }
        #expect(once.emitted == often.emitted)
    }

    @Test func everyTenthFrameHasTheEnergyAndItGrows() throws {
        var packer = StrapPacker(heart: try .steady(milliseconds: 1000))
        let frames = packer.advance(milliseconds: 600_000)
        for (index, frame) in frames.enumerated() {
            #expect((frame.bytes[0] & 0b1000 != 0) == ((index + 1) % 10 == 0))
        }
        #expect(frames[599].bytes == [0b1_1110, 60, 50, 0, 0, 4])
        packer.resetEnergy()
        let after = packer.advance(milliseconds: 10_000)
        #expect(after[9].bytes == [0b1_1110, 60, 0, 0, 0, 4])
    }

    @Test func theEnergySaturates() throws {
        var packer = StrapPacker(
            heart: try .steady(milliseconds: 1000), style: .init(kilojoulesPerMinute: 1_000_000))
        let frames = packer.advance(milliseconds: 10_000)
        #expect(frames[9].bytes[2...3] == [0xff, 0xff])
    }

    @Test(arguments: [
        (wide: false, energy: false, room: 9), (wide: false, energy: true, room: 8),
        (wide: true, energy: false, room: 8), (wide: true, energy: true, room: 7),
    ])
    func aFullFrameHoldsWhatTheServiceSays(wide: Bool, energy: Bool, room: Int) throws {
        #expect(StrapPacker.capacity(wideRate: wide, energy: energy) == room)
        let style = StrapStyle(
            framesPerEnergy: energy ? 1 : nil, alwaysWideRate: wide,
            frameIntervalMilliseconds: 5000)
        var packer = StrapPacker(heart: try .steady(milliseconds: 250), style: style)
        let frames = packer.advance(milliseconds: 5000)
        #expect(frames.map(\.ticks.count) == [room, room, 20 - 2 * room].filter { $0 > 0 })
        #expect(frames[0].bytes.count <= StrapPacker.frameBytesMax)
    }

    @Test func aRateAbove255IsWide() throws {
        var packer = StrapPacker(heart: try .steady(milliseconds: 210))
        let frame = packer.advance(milliseconds: 1000)[0]
        #expect(frame.bytes[0] == 0b1_0111)
        #expect(frame.bytes[1...2] == [0x1e, 0x01], "286 beats")
    }

    @Test func withoutContactThereIsNoRateAndNoInterval() throws {
        let style = StrapStyle(contact: .supported(lostSeconds: [3..<5]))
        var packer = StrapPacker(heart: try .steady(milliseconds: 1000), style: style)
        let frames = packer.advance(milliseconds: 6000)
        #expect(frames[1].bytes == [0b1_0110, 60, 0, 4])
        #expect(frames[2].bytes == [0b100, 0])
        #expect(frames[3].bytes == [0b100, 0])
        #expect(frames[4].bytes == [0b1_0110, 60, 0, 4])
    }

    @Test func aStrapMayFreezeItsRateOffTheSkin() throws {
        let style = StrapStyle(
            contact: .supported(lostSeconds: [3..<5]), rateWithoutContact: .frozen)
        var packer = StrapPacker(heart: try .steady(milliseconds: 1000), style: style)
        #expect(packer.advance(milliseconds: 4000)[3].bytes == [0b100, 60])
    }

    @Test func aWristSensorSendsTheBareRate() throws {
        var packer = StrapPacker(heart: try .steady(milliseconds: 750), style: .wrist)
        #expect(packer.advance(milliseconds: 3000).map(\.bytes) == [[0, 80], [0, 80], [0, 80]])
    }

    @Test func aSlowHeartLeavesFramesWithoutIntervals() throws {
        var packer = StrapPacker(heart: try .steady(milliseconds: 2000))
        let frames = packer.advance(milliseconds: 4000)
        #expect(frames.map(\.ticks) == [[], [2048], [], [2048]])
        #expect(frames[2].bytes == [0b110, 30])
    }
}
