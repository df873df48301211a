import Basics
import Foundation
import GATTHeartRate

/// Octets from hexadecimal, for tables. Test tables are trusted, so a bad digit stops the test.
func octets(_ hex: String) -> [UInt8] {
    let digits = hex.filter { $0 != " " }.map { digit -> UInt8 in
        guard let value = digit.hexDigitValue else { preconditionFailure("bad table: \(hex)") }
        return UInt8(value)
    }
    precondition(digits.count % 2 == 0, "bad table: \(hex)")
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func hex(_ octets: [UInt8]) -> String {
    octets.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// Decodes without throwing, so that results can be compared as values.
func decode(
    _ frame: [UInt8], _ policy: DecodePolicy = .clinical
) -> Result<HeartRateMeasurement, FrameFault> {
    do {
        return .success(try HeartRateMeasurement(frame: frame, policy: policy))
    } catch {
        return .failure(error)
    }
}

extension Result {
    var value: Success? { try? get() }

    var fault: Failure? {
        if case .failure(let fault) = self { return fault }
        return nil
    }
}

extension SeededRandom {
    /// The seed in GATT_TEST_SEED, to repeat a failure, or a new one.
    static func fresh() -> SeededRandom {
        let given = ProcessInfo.processInfo.environment["GATT_TEST_SEED"].flatMap { UInt64($0) }
        return SeededRandom(seed: given ?? UInt64.random(in: 0...UInt64.max))
    }

    /// A frame of random octets. Mostly short, sometimes longer than any strap sends.
    mutating func frame() -> [UInt8] {
        let length =
            Int.random(in: 0..<8, using: &self) == 0
            ? Int.random(in: 0...600, using: &self) : Int.random(in: 0...22, using: &self)
        return (0..<length).map { _ in UInt8.random(in: 0...255, using: &self) }
    }
}
