import Basics

/// Something that happens to the bytes of one connection.
public struct ConnectionFault: Sendable, Hashable {
    /// The event.
    public enum Act: Sendable, Hashable, CaseIterable {
        /// Nothing comes through any more, and neither side gets an error.
        case drop
        /// The rest comes late, but before the client gives up.
        case delay
        /// The rest comes when the client has given up.
        case delayBeyondPatience
        /// Both connections break.
        case cut
        /// One byte becomes a control character, which neither HTTP nor JSON may hold. Damage that
        /// is well-formed goes unseen without TLS, so no client can be asked to see it.
        case garble
        /// A request is passed on once more when it has been answered, as proxies do that try
        /// again; the client gets the second answer. Of an answer, the client gets the first half
        /// of the rest again in place of the second.
        case duplicate
    }

    /// Which way the bytes were going.
    public enum Direction: Sendable, Hashable, CaseIterable {
        /// From the client to the server.
        case request
        /// From the server to the client.
        case answer
    }

    /// Where in the message it happens.
    public enum Place: Sendable, Hashable, CaseIterable {
        /// In the request line or the status line.
        case startLine
        /// In the header fields, or the empty line after them.
        case headers
        /// At the first byte of the body.
        case bodyStart
        /// Inside the body.
        case bodyMiddle
        /// At the last byte of the body.
        case bodyEnd
    }

    /// The event.
    public var act: Act
    /// Which way the bytes were going.
    public var direction: Direction
    /// Where in the message.
    public var place: Place
    /// Where in that part of the message, 0…1.
    public var position: Double

    public init(_ act: Act, _ direction: Direction, _ place: Place, position: Double = 0.5) {
        self.act = act
        self.direction = direction
        self.place = place
        self.position = position
    }

    /// The byte of `message` it happens at: 0 up to, but not including, the message's length; nil
    /// for an empty message. A message without a body has it at its last byte instead.
    public func offset(in message: [UInt8]) -> Int? {
        guard !message.isEmpty else { return nil }
        let last = message.count - 1
        let lineEnd = message.firstIndex(of: 0x0A) ?? last
        let bodyStart = Self.bodyStart(of: message) ?? message.count
        let range =
            switch place {
            case .startLine: 0...lineEnd
            case .headers: min(lineEnd + 1, last)...max(min(bodyStart - 1, last), 0)
            case .bodyStart: min(bodyStart, last)...min(bodyStart, last)
            case .bodyMiddle: min(bodyStart, last)...last
            case .bodyEnd: last...last
            }
        let within = Int(Double(range.count) * min(max(position, 0), 1))
        return min(range.lowerBound + within, range.upperBound)
    }

    static func bodyStart(of message: [UInt8]) -> Int? {
        guard message.count >= 4 else { return nil }
        return (4...message.count).first {
            message[($0 - 4)..<$0].elementsEqual([0x0D, 0x0A, 0x0D, 0x0A])
        }
    }
}

extension ConnectionFault: CustomStringConvertible {
    /// For a failed test.
    public var description: String { "\(act) \(direction) \(place) \(position)" }
}

/// Which connections go wrong, and how; the same for the same seed.
public struct NetworkFaultScript: Sendable, Hashable {
    /// The fault of each connection in turn, nil being nothing; nothing after the last.
    public var faults: [ConnectionFault?]

    /// A script of so many connections.
    public init(_ faults: [ConnectionFault?]) {
        self.faults = faults
    }

    /// A script whose connections go wrong with the given probability, no two in the same way until
    /// all ways have been seen.
    public init(seed: UInt64, connections: Int, probability: Double = 0.6) {
        var random = SeededRandom(seed: seed)
        var deck: [ConnectionFault] = []
        faults = (0..<connections).map { _ in
            guard random.happens(probability) else { return nil }
            if deck.isEmpty { deck = Self.everyWay.shuffled(using: &random) }
            var fault = deck.removeLast()
            fault.position = Double.random(in: 0...1, using: &random)
            return fault
        }
    }

    /// Every act in both directions at every place.
    public static let everyWay: [ConnectionFault] =
        ConnectionFault.Act.allCases.flatMap { act in
            ConnectionFault.Direction.allCases.flatMap { direction in
                ConnectionFault.Place.allCases.map { ConnectionFault(act, direction, $0) }
            }
        }
}
