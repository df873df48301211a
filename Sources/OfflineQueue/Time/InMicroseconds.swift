import Basics

/// A length of time that a file has as its number of microseconds.
@propertyWrapper
struct InMicroseconds: Sendable, Hashable, Codable {
    var wrappedValue: Duration

    init(wrappedValue: Duration) { self.wrappedValue = wrappedValue }

    init(from decoder: any Decoder) throws {
        let microseconds = try decoder.singleValueContainer().decode(Int64.self)
        self.init(wrappedValue: .microseconds(microseconds))
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(wrappedValue.microseconds)
    }
}
