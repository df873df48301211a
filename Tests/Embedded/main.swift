// Linked with Sources/GATTHeartRate as Embedded Swift into one program; see Tests/Embedded/run.

/// Decodes an odd-tailed frame in a program without the Swift runtime.
@main
struct Main {
    static func main() {
        let frame: [UInt8] = [0x16, 0x3e, 0xb1, 0x03, 0xde]
        guard let measurement = try? HeartRateMeasurement(frame: frame),
            measurement.bpm == 62, measurement.contact == .detected,
            measurement.rrIntervals == [945], measurement.anomalies == .oddTail,
            Plausibility.judge(measurement) == []
        else { fatalError("decoded wrongly") }

        var judge = PlausibilityJudge()
        var stream = DoubledStream()
        var line = BeatTimeline()
        guard judge.judge(measurement, at: 0) == [], !stream.note(frame, at: 0),
            line.add(rr: measurement.rrIntervals, arrivedAt: 0).count == 1
        else { fatalError("judged wrongly") }
        print("decoded \(measurement.bpm) bpm without the Swift runtime")
    }
}
