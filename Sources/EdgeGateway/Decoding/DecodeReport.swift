import GATTHeartRate

/// One frame as `edge-gateway decode` prints it.
struct DecodeReport {
    /// The octets that were decoded.
    let frame: [UInt8]
    /// Their meaning, or the reason why they have none.
    let result: Result<HeartRateMeasurement, FrameFault>

    init(frame: [UInt8], policy: DecodePolicy = .clinical) {
        self.frame = frame
        do {
            result = .success(try HeartRateMeasurement(frame: frame, policy: policy))
        } catch {
            result = .failure(error)
        }
    }

    /// The octets that `text` spells in hexadecimal, nil when it does not: two digits an octet. Blanks, colons,
    /// dashes and commas separate octets, and never stand within one; `0x` may stand before any group of digits,
    /// and `(0x)` before all of them, so that what other tools print can be pasted in.
    static func octets(hexadecimal text: some StringProtocol) -> [UInt8]? {
        var rest = Array(text.utf8)[...]
        if rest.starts(with: byteOrderMark) { rest = rest.dropFirst(byteOrderMark.count) }
        var octets: [UInt8] = []
        for group in rest.split(whereSeparator: { separators.contains($0) }) {
            var digits = group
            let isFirst = octets.isEmpty
            for prefix in isFirst ? leadingPrefixes : prefixes
            where digits.starts(with: prefix.utf8) {
                digits = digits.dropFirst(prefix.utf8.count)
                break
            }
            // A prefix may stand apart from the digits, before the first of them.
            if digits.isEmpty, isFirst { continue }
            guard !digits.isEmpty, digits.count % 2 == 0 else { return nil }
            var high: UInt8?
            for digit in digits {
                guard let value = nibble(digit) else { return nil }
                if let first = high {
                    octets.append(first << 4 | value)
                    high = nil
                } else {
                    high = value
                }
            }
        }
        return octets
    }

    /// One JSON object on one line, ASCII only, keys always in this order. Every key is always
    /// there, except `fault`, which only invalid frames have.
    var json: String {
        let hex = Self.hexadecimal(frame)
        switch result {
        case .success(let measurement):
            let contact = measurement.contact.detected.map { $0 ? "true" : "false" } ?? "null"
            let energy = measurement.energyKilojoules.map { String($0) } ?? "null"
            let intervals = measurement.rrIntervals.map { String($0) }.joined(separator: ",")
            return
                #"{"hex":"\#(hex)","valid":true,"bpm":\#(measurement.bpm),"contact":\#(contact),"#
                + #""energy_kj":\#(energy),"rr_1024":[\#(intervals)],"#
                + #""anomalies":\#(Self.list(measurement.anomalies))}"#
        case .failure(let fault):
            var anomalies: FrameAnomalies = []
            if case .refused(let refused) = fault { anomalies = refused }
            return #"{"hex":"\#(hex)","valid":false,"bpm":null,"contact":null,"energy_kj":null,"#
                + #""rr_1024":[],"anomalies":\#(Self.list(anomalies)),"fault":"\#(fault.reason)"}"#
        }
    }

    /// Whether a measurement could be read.
    var isValid: Bool { (try? result.get()) != nil }

    /// One line for people.
    var text: String {
        let hex = Self.hexadecimal(frame)
        switch result {
        case .success(let measurement):
            var words = ["\(measurement.bpm) bpm"]
            if let contact = measurement.contact.detected {
                words.append(contact ? "contact" : "no contact")
            }
            if let energy = measurement.energyKilojoules { words.append("\(energy) kJ") }
            if !measurement.rrIntervals.isEmpty {
                let intervals = measurement.rrIntervals.map {
                    "\(Int(RRIntervals.milliseconds($0).rounded()))"
                }
                words.append("RR \(intervals.joined(separator: " ")) ms")
            }
            words += measurement.anomalies.texts
            return "\(hex): \(words.joined(separator: ", "))"
        case .failure(let fault):
            return "\(hex): not valid: \(fault.text)"
        }
    }

    private static let separators: Set<UInt8> = Set(" \t\r\n:-,".utf8)
    private static let prefixes = ["0x", "0X"]
    private static let leadingPrefixes = prefixes + ["(0x)", "(0X)"]
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private static func nibble(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): return digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): return digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): return digit - UInt8(ascii: "A") + 10
        default: return nil
        }
    }

    private static func hexadecimal(_ octets: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let text = octets.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }

    // Names of anomalies are plain words and need no escaping.
    private static func list(_ anomalies: FrameAnomalies) -> String {
        "[" + anomalies.names.map { "\"\($0)\"" }.joined(separator: ",") + "]"
    }
}

extension FrameFault {
    /// The reason, for people.
    fileprivate var text: String {
        switch self {
        case .empty: "it has no bytes"
        case .heartRateTruncated: "it ends before the heart rate does"
        case .energyTruncated: "it ends before the energy that its flags announce"
        case .refused(let anomalies): anomalies.texts.joined(separator: ", ")
        }
    }
}

extension FrameAnomalies {
    /// The members in the order of ``names``, for people.
    fileprivate var texts: [String] {
        let all: [(FrameAnomalies, String)] = [
            (.oddTail, "half an RR interval at the end"),
            (.rrMissing, "no RR intervals, though its flags announce them"),
            (.rfu, "reserved flags are set"),
            (.trailing, "bytes left over at the end"),
            (.energyTruncated, "it ends before the energy that its flags announce"),
        ]
        return all.filter { contains($0.0) }.map { $0.1 }
    }
}
