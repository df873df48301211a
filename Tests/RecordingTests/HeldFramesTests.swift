import Basics
import Testing

@testable import BlueZ
@testable import Recording

@Suite("Frames that wait while their sensor's assignment changes")
struct HeldFramesTests {
    private static let address = "C0:00:00:00:00:01"

    private func frame(_ second: Int) -> SensorFrame {
        SensorFrame(
            address: Self.address, bytes: [0, 60], uptime: .zero + .seconds(second),
            connectionNumber: 1)
    }

    private func seconds(_ held: HeldFrames) -> [Int64] {
        held.frames.map { $0.uptime.microseconds / 1_000_000 }
    }

    @Test("are those from its beginning on")
    func beginning() {
        var held = HeldFrames(of: Self.address, since: .zero + .seconds(10), hasBeginning: true)
        #expect([9, 10, 11].map { held.take(frame($0)) } == [false, true, true])
        #expect(seconds(held) == [10, 11])
    }

    @Test("of a sensor without an assignment are the newest, until one begins")
    func newest() {
        var held = HeldFrames(of: Self.address, since: .zero, hasBeginning: false)
        for second in 1...300 { _ = held.take(frame(second)) }
        #expect(seconds(held) == Array(61...300))
        #expect(held.begin(pairedSince: .zero) == .zero + .seconds(61))
        for second in 301...400 { _ = held.take(frame(second)) }
        #expect(seconds(held) == Array(61...400))
    }

    @Test("are counted where there is no room, and when they came is known")
    func refusals() {
        var held = HeldFrames(of: Self.address, since: .zero, hasBeginning: true)
        let last = HeldFrames.oldestMax + 3
        for second in 1...last { _ = held.take(frame(second)) }
        let (frames, refused) = held.remove()
        #expect(frames.count == HeldFrames.oldestMax)
        #expect(
            refused
                == HeldFrames.Refused(
                    count: 3, from: .zero + .seconds(last - 2), through: .zero + .seconds(last)))
        #expect(held.frames.isEmpty && held.refused == nil)
    }

    @Test("keep their order when two addresses turn out to be one sensor's")
    func joining() {
        var held = HeldFrames(of: "4F:00:00:00:00:02", since: .zero, hasBeginning: false)
        var other = HeldFrames(of: Self.address, since: .zero + .seconds(2), hasBeginning: true)
        for second in [1, 4, 5] { _ = held.take(frame(second)) }
        for second in [2, 3, 6] { _ = other.take(frame(second)) }
        let both = held.joined(with: other)
        #expect(seconds(both) == Array(1...6) && both.since == .zero)
        #expect(held.joined(with: nil).address == held.address)
    }
}
