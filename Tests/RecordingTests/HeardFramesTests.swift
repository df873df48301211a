import Basics
import Testing

@testable import BlueZ
@testable import Recording

@Suite("Frames of a strap that is being paired")
struct HeardFramesTests {
    private static let address = "C0:00:00:00:00:01"

    private func frame(_ second: Int) -> SensorFrame {
        SensorFrame(
            address: Self.address, bytes: [0, 60], uptime: .zero + .seconds(second))
    }

    private func seconds(_ heard: HeardFrames) -> [Int64] {
        heard.frames.map { $0.uptime.microseconds / 1_000_000 }
    }

    @Test("are those from its beginning on")
    func beginning() {
        var heard = HeardFrames(of: Self.address, since: .zero + .seconds(10))
        for second in [9, 10, 11] { heard.take(frame(second)) }
        #expect(seconds(heard) == [10, 11])
    }

    @Test("are the newest where there is no room for all")
    func newest() {
        var heard = HeardFrames(of: Self.address, since: .zero)
        let last = HeardFrames.countMax + 60
        for second in 1...last { heard.take(frame(second)) }
        #expect(seconds(heard) == Array(61...Int64(last)))
    }

    @Test("keep their order when two addresses turn out to be one strap's")
    func joining() {
        var heard = HeardFrames(of: "4F:00:00:00:00:02", since: .zero)
        var other = HeardFrames(of: Self.address, since: .zero + .seconds(2))
        for second in [1, 4, 5] { heard.take(frame(second)) }
        for second in [2, 3, 6] { other.take(frame(second)) }
        let both = heard.joined(with: other)
        #expect(seconds(both) == Array(1...6) && both.since == .zero)
        #expect(heard.joined(with: nil).address == heard.address)
    }
}
