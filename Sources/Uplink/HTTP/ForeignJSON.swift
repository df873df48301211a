import Foundation

/// A member of foreign JSON: nil where it is missing, null or of another type.
///
/// One member that has the wrong form leaves the others readable.
@propertyWrapper
struct IfAny<Value: Decodable & Sendable>: Decodable, Sendable {
    var wrappedValue: Value?

    init(wrappedValue: Value? = nil) { self.wrappedValue = wrappedValue }

    init(from decoder: any Decoder) { wrappedValue = try? Value(from: decoder) }
}

extension KeyedDecodingContainer {
    func decode<Value>(_ type: IfAny<Value>.Type, forKey key: Key) throws -> IfAny<Value> {
        try decodeIfPresent(type, forKey: key) ?? IfAny()
    }
}

extension Decodable {
    /// Reads foreign JSON, whose `a_name` is our `aName`.
    ///
    /// - Throws: what `JSONDecoder` does, also for what is nested deeper than it reads (512 levels).
    init(json bytes: [UInt8]) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(bytes))
    }
}
