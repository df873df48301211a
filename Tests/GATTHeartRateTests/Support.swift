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

/// SplitMix64: a small generator whose whole state is the seed that a failure prints.
struct SeededGenerator: RandomNumberGenerator {
    let seed: UInt64
    private var state: UInt64

    init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// The seed in GATT_TEST_SEED, to repeat a failure, or a new one.
    static func fresh() -> SeededGenerator {
        let given = ProcessInfo.processInfo.environment["GATT_TEST_SEED"].flatMap { UInt64($0) }
        return SeededGenerator(seed: given ?? UInt64.random(in: 0...UInt64.max))
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A frame of random octets. Mostly short, sometimes longer than any strap sends.
    mutating func frame() -> [UInt8] {
        let length =
            Int.random(in: 0..<8, using: &self) == 0
            ? Int.random(in: 0...600, using: &self) : Int.random(in: 0...22, using: &self)
        return (0..<length).map { _ in UInt8.random(in: 0...255, using: &self) }
    }
}
