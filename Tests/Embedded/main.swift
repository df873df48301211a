// Built as Embedded Swift, for this machine and for aarch64; see Tests/Embedded/run.

import GATTHeartRate

@_extern(c) func getchar() -> CInt

/// Frames on standard input, one a line in hexadecimal digits. Prints each as `edge-gateway decode --json`
/// does, then what is made of all of them, three times over, as the stream of a strap.
@main
struct Main {
    static func main() {
        var frames: [[UInt8]] = []
        while let line = line() {
            guard let frame = DecodeReport.octets(hexadecimal: line) else {
                fatalError("not a frame")
            }
            frames.append(frame)
            print(DecodeReport(frame: frame).json)
        }

        var judge = PlausibilityJudge()
        var doubled = DoubledStream()
        var timeline = BeatTimeline()
        var now: Int64 = 0
        for frame in frames + frames + frames {
            // A second, and the jitter of a radio.
            now += 900_000 + now % 200_003
            guard let measurement = try? HeartRateMeasurement(frame: frame) else { continue }
            let names = judge.judge(measurement, at: now).names
            let isDoubled = doubled.note(frame, at: now)
            let beats = timeline.add(rr: measurement.rrIntervals, arrivedAt: now)
            print("\(now) \(names.joined(separator: " ")) \(isDoubled)")
            for beat in beats {
                print(" beat \(beat.uptimeMicroseconds) ± \(beat.uncertaintyMicroseconds)")
            }
        }
        print("lost \(timeline.estimatedLostFrames), anchors \(timeline.reanchorCount)")
    }

    private static func line() -> String? {
        var octets: [UInt8] = []
        while case let next = getchar(), next >= 0, next != 10 {
            octets.append(UInt8(truncatingIfNeeded: next))
        }
        return octets.isEmpty ? nil : String(decoding: octets, as: UTF8.self)
    }
}
