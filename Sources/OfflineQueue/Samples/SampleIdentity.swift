import Basics
import GRDB

/// The kind of a data point made from a sample; part of its identity, since one frame may give several.
public struct DataPointKind: RawRepresentable, Sendable, Hashable {
    /// The byte that goes into the identity.
    public let rawValue: UInt8

    /// A kind by its byte.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    // Kinds are never reused. 3…15 are reserved.

    /// One heart rate from one frame.
    public static let heartRate = DataPointKind(rawValue: 0)
    /// The average over ten seconds, named by its first sample.
    public static let tenSecondAverage = DataPointKind(rawValue: 1)
    /// The average over a minute, named by its first sample.
    public static let sixtySecondAverage = DataPointKind(rawValue: 2)

    /// RR intervals of a frame that have an identity. A notification of 512 octets could hold 255;
    /// no heart puts 240 beats into one.
    public static let intervalsMax = 240

    /// The RR interval at `index` of a frame, counted from the oldest; nil from ``intervalsMax`` on.
    public static func interval(_ index: Int) -> DataPointKind? {
        (0..<intervalsMax).contains(index) ? DataPointKind(rawValue: UInt8(16 + index)) : nil
    }
}

/// The identifier under which a data point is known to every server, for ever.
///
/// An RFC 9562 §5.8 version 8 UUID. Its 122 free bits hold, from the left: the run's nonce (60), the
/// sample's id (54), the kind (8). It is computed anew for every attempt and always the same:
///
///     nnnnnnnn-nnnn-8nnn-Vsss-sssssssssskk      V: the variant 10 and the id's top 2 bits
public struct SampleIdentity: Sendable, Hashable, CustomStringConvertible {
    /// The largest sample id that fits, 2⁵⁴ − 1: at 1,000 samples a second, 571,000 years.
    public static let sampleMax: Int64 = (1 << 54) - 1
    /// The bits of a run's nonce that count.
    public static let nonceMask: UInt64 = (1 << 60) - 1
    /// The smallest nonce a run gets: larger than the number of any row that names another, by which the two
    /// are told apart in the pages of a broken store. It takes nothing from the randomness that one in four
    /// billion would notice.
    private static let nonceMin: Int64 = 1 << 32

    /// Whether a run has such a nonce: the rule of whoever reads pages of a broken store, or a file.
    static func isNonce(_ number: Int64) -> Bool {
        (nonceMin...Int64(nonceMask)).contains(number)
    }

    /// The nonce in a row of `run`; fails as SQLite does on a broken page if it is none: a page of another table has
    /// taken the place of one of `run`.
    static func nonce(stored number: Int64?) throws -> UInt64 {
        guard let number, isNonce(number) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a run has no nonce")
        }
        return UInt64(number)
    }

    /// The nonce of a new run.
    static func newNonce(seed: UInt64 = .random(in: .min ... .max)) -> UInt64 {
        var random = SeededRandom(seed: seed)
        return .random(in: UInt64(nonceMin)...nonceMask, using: &random)
    }

    /// Octets 0–7, big end first.
    public let high: UInt64
    /// Octets 8–15, big end first.
    public let low: UInt64

    /// The identity of the data point of `kind` made from `sample`, stored in the run of `runNonce`.
    ///
    /// Only the low 60 bits of `runNonce` and the low 54 of `sample` count; the store never hands
    /// out more.
    public init(runNonce: UInt64, sample: Int64, kind: DataPointKind = .heartRate) {
        let nonce = runNonce & Self.nonceMask
        let number = UInt64(bitPattern: sample) & UInt64(bitPattern: Self.sampleMax)
        high = (nonce >> 12) << 16 | 0x8000 | (nonce & 0xFFF)
        low = 0b10 << 62 | number << 8 | UInt64(kind.rawValue)
    }

    /// The identity with this ``description``; nil for any other text.
    public init?(text: String) {
        var words: (high: UInt64, low: UInt64) = (0, 0)
        var count = 0
        for byte in text.utf8 {
            let isDash = count == 8 || count == 13 || count == 18 || count == 23
            count += 1
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "-") where isDash: continue
            case UInt8(ascii: "0")...UInt8(ascii: "9") where !isDash:
                digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f") where !isDash:
                digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if count <= 18 {
                words.high = words.high << 4 | UInt64(digit)
            } else {
                words.low = words.low << 4 | UInt64(digit)
            }
        }
        guard count == 36, words.high >> 12 & 0xF == 8, words.low >> 62 == 0b10 else { return nil }
        (high, low) = words
    }

    /// The UUID in its usual form, in lower case.
    public var description: String {
        let digits: StaticString = "0123456789abcdef"
        return String(unsafeUninitializedCapacity: 36) { text in
            var at = 0
            for nibble in 0..<32 {
                if nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20 {
                    text[at] = UInt8(ascii: "-")
                    at += 1
                }
                let word = nibble < 16 ? high : low
                let value = Int(word >> UInt64((15 - nibble % 16) * 4) & 0xF)
                text[at] = digits.utf8Start[value]
                at += 1
            }
            return at
        }
    }
}
