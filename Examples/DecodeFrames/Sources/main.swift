// Reads notifications of 0x2A37, one a line in hexadecimal, and prints what they say:
//   printf '165a3403\n06\n' | swift run --package-path Examples/DecodeFrames
import GATTHeartRate

/// The octets of a line of hexadecimal digits; nil if it is not one.
func octets(_ line: String) -> [UInt8]? {
    let digits = line.compactMap { $0.hexDigitValue.map(UInt8.init) }
    guard digits.count == line.count, digits.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

// Judges each measurement beside those before it, as if one came a second.
var judge = PlausibilityJudge()
var uptimeMicroseconds: Int64 = 0

while let line = readLine() {
    guard let frame = octets(line) else {
        print("\(line): not hexadecimal")
        continue
    }
    uptimeMicroseconds += 1_000_000
    do {
        let measurement = try HeartRateMeasurement(frame: frame)
        let intervals = measurement.rrIntervals.map { "\(Int($0) * 1000 / 1024)" }
        let doubts = judge.judge(measurement, at: uptimeMicroseconds).names
        print(
            "\(line): \(measurement.bpm) bpm",
            intervals.isEmpty ? "" : ", RR \(intervals.joined(separator: " ")) ms",
            doubts.isEmpty ? "" : ", doubtful: \(doubts.joined(separator: ", "))", separator: "")
    } catch {
        print("\(line): not a measurement: \(error)")
    }
}
