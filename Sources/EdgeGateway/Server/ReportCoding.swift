import Basics
import Foundation

/// The JSON of the control API and of every `--json` output: one set of types for both, in the
/// `…Reports.swift` of each feature. Fields are a stable contract (docs/api.yaml): new ones may appear, none
/// changes.
enum ReportCoding {
    /// Snake-case keys, RFC 3339 dates, sorted so that output is the same from run to run.
    static func encoder(pretty: Bool = false) -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting =
            pretty
            ? [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
            : [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    static func decoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        // With a fraction of a second or without: a newer daemon may say more of a time.
        decoder.dateDecodingStrategy = .custom { decoder in
            let value = try decoder.singleValueContainer()
            let text = try value.decode(String.self)
            guard
                let date = (try? Date(text, strategy: .iso8601))
                    ?? (try? Date(text, strategy: MillisecondTime.style))
            else {
                throw DecodingError.dataCorruptedError(in: value, debugDescription: "no time")
            }
            return date
        }
        return decoder
    }
}

/// A time with its milliseconds, where a second is too coarse.
struct MillisecondTime: Codable, Equatable {
    static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    var date: Date

    init(_ date: Date) { self.date = date }

    init(from decoder: any Decoder) throws {
        date = try decoder.singleValueContainer().decode(Date.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(date.formatted(Self.style))
    }
}

extension Date {
    /// An instant of a wall clock, as reports word it.
    init(_ utc: UTC) { self.init(timeIntervalSince1970: Double(utc.microseconds) / 1_000_000) }
}
