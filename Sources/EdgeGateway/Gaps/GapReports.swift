import Foundation

/// An interval without samples.
struct GapReport: Codable, Equatable {
    var sensor: Int64
    var address: String
    var name: String
    /// Such as `out-of-range`; docs/operate/operations.md lists them.
    var cause: String
    /// Left out where the clock of that boot is not trusted.
    var from: Date?
    var until: Date?
    /// Left out where its length is unknown.
    var seconds: Double?
    /// It goes on.
    var open: Bool
}

/// How much of one UTC day of one sensor there is data for.
struct CoverageReport: Codable, Equatable {
    var sensor: Int64
    var address: String
    var name: String
    /// The day's beginning.
    var day: Date
    /// Seconds in which the sensor was to be recorded, and those with data.
    var expectedSeconds: Double
    var coveredSeconds: Double
    /// Left out where nothing was to be recorded.
    var percent: Double?
    var longestGapSeconds: Double
    var secondsByCause: [String: Double]
}

/// `GET /v1/gaps`
struct GapsReport: Codable, Equatable {
    /// Oldest first.
    var gaps: [GapReport]
    /// There are more than were listed.
    var more: Bool
    /// A sensor and day each, oldest day first.
    var coverage: [CoverageReport]
}
