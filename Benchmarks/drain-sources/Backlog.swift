import Foundation

/// What 34 days of a watch leave behind when no network came for it: 30,186 heart rates of one patient,
/// one each 97 s, as a gateway's export file.
struct Backlog {
    /// How many a whole one is.
    static let samplesFull = 30_186
    /// 34 days over so many samples, in µs.
    private static let intervalMicroseconds: Int64 = 97_317_000
    /// Runs of a day, as of a gateway that is restarted every night.
    private static let samplesPerRun = 888
    private static let nonce: UInt64 = 0x00C0_FFEE_0000_0000

    /// How many samples there are.
    let samples: Int
    /// Which of several straps has them, from 0.
    var strap = 0

    /// Writes the file.
    func write(to path: String, patient: Int) throws {
        let end = Date()
        var text = #"{"format":"edge-gateway-samples","version":1}"# + "\n"
        for index in 0..<samples {
            let age = Int64(samples - index) * Self.intervalMicroseconds
            let bpm = 55 + index * 7 % 60
            let run = UInt64(strap << 16 + index / Self.samplesPerRun)
            let number = index % Self.samplesPerRun + 1
            text += #"{"uuid":"\#(Self.identity(Self.nonce + run, number))""#
            text += #","time":"\#(Self.time(end, age))""#
            let uptime = Int64(number) * Self.intervalMicroseconds
            text += #","boot":"boot-\#(run)","uptime_us":\#(uptime)"#
            text +=
                #","sensor":"C0:00:00:00:00:0\#(strap + 1)","assignment":1,"patient":"\#(patient)""#
            text += #","flags":0,"frame":"06\#(String(bpm, radix: 16))","state":"pending"}"# + "\n"
        }
        text += #"{"samples":\#(samples),"damaged":0}"# + "\n"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
    }

    /// The identity of a sample (docs/develop/architecture.md, "Identity").
    private static func identity(_ nonce: UInt64, _ number: Int) -> String {
        func hex(_ value: UInt64, _ digits: Int) -> String {
            let text = String(value, radix: 16)
            return String(repeating: "0", count: digits - text.count) + text
        }
        let high = hex((nonce >> 12) << 16 | 0x8000 | nonce & 0xFFF, 16)
        let low = hex(0b10 << 62 | UInt64(number) << 8, 16)
        return "\(high.prefix(8))-\(high.dropFirst(8).prefix(4))-\(high.suffix(4))"
            + "-\(low.prefix(4))-\(low.suffix(12))"
    }

    private static func time(_ end: Date, _ ageMicroseconds: Int64) -> String {
        let now = Int64(end.timeIntervalSince1970) * 1_000_000
        let (seconds, rest) = (now - ageMicroseconds).quotientAndRemainder(dividingBy: 1_000_000)
        let whole = Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(.iso8601)
        return whole.dropLast() + "." + String(String(1_000_000 + rest).dropFirst()) + "Z"
    }
}
