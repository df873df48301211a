/// The meaning of a broker's answer with a reason code (MQTT 5.0 §2.4), in one of four packets.
struct MQTTReason: Hashable, Sendable {
    /// The packet that the code stands in.
    enum Packet: String, Sendable {
        /// The answer to a connection.
        case connack = "CONNACK"
        /// The answer to a message.
        case puback = "PUBACK"
        /// The answer to a subscription.
        case suback = "SUBACK"
        /// The broker ends the connection.
        case disconnect = "DISCONNECT"
    }

    /// The packet that the code stands in.
    let packet: Packet
    /// The code; from 128 on it is a refusal.
    let code: Int

    init(_ packet: Packet, _ code: Int) {
        self.packet = packet
        self.code = code
    }

    /// A return code of MQTT 3.1.1's CONNACK (§3.2.2.3), in the numbers of MQTT 5.
    init(returnCode: Int) {
        let codes = [0, 132, 133, 136, 134, 135]
        self.init(.connack, codes.indices.contains(returnCode) ? codes[returnCode] : 128)
    }

    /// A row of the table; the first that matches counts.
    struct Row: Sendable {
        var codes: ClosedRange<Int>
        /// The packet, if that matters.
        var packet: Packet?
        var meaning: AnswerMeaning
    }

    /// Another client came with the same identifier.
    static let takenOver = 142

    static let table: [Row] = [
        // 16, no matching subscribers: the broker took it, and nobody listens.
        Row(codes: 0...127, packet: .puback, meaning: .stored),
        Row(codes: 0...127, packet: .connack, meaning: .stored),
        // The version, and the client identifier.
        Row(codes: 132...133, meaning: .held(.requestRefused)),
        // Brokers also say "not authorized" of a password that is wrong.
        Row(codes: 134...135, packet: .connack, meaning: .unauthorized),
        Row(codes: 140...140, meaning: .unauthorized),
        Row(codes: 135...135, meaning: .held(.forbidden)),
        Row(codes: 136...137, meaning: .throttled),
        // Banned.
        Row(codes: 138...138, meaning: .held(.forbidden)),
        Row(codes: Self.takenOver...Self.takenOver, meaning: .held(.nameTaken)),
        // A topic that is not taken.
        Row(codes: 143...144, meaning: .held(.notFound)),
        Row(codes: 149...149, meaning: .tooLarge),
        Row(codes: 150...150, meaning: .throttled),
        // The quota is exceeded.
        Row(codes: 151...151, meaning: .held(.planExceeded)),
        // Administrative action.
        Row(codes: 152...152, meaning: .held(.forbidden)),
        Row(codes: 153...153, meaning: .suspect),
        // Neither retained messages nor quality of service 1.
        Row(codes: 154...155, meaning: .held(.requestRefused)),
        // Use another server; the server has moved.
        Row(codes: 156...157, meaning: .held(.notFound)),
        Row(codes: 159...159, meaning: .throttled),
    ]

    /// The meaning for the messages it is about.
    var meaning: AnswerMeaning {
        Self.table.first { $0.codes ~= code && $0.packet ?? packet == packet }?.meaning ?? .unclear
    }
}

extension MQTTReason: CustomStringConvertible {
    /// Such as `CONNACK 135 (not authorized)`.
    var description: String { "\(packet.rawValue) \(code)" + (words.map { " (\($0))" } ?? "") }

    /// The standard's names of the codes that a person may have to act on.
    private var words: String? {
        switch code {
        case 132: "protocol version not supported"
        case 133: "client identifier not valid"
        case 134: "bad user name or password"
        case 135: "not authorized"
        case 136: "server unavailable"
        case 137: "server busy"
        case 138: "banned"
        case 142: "session taken over"
        case 144: "topic name invalid"
        case 149: "packet too large"
        case 150: "message rate too high"
        case 151: "quota exceeded"
        case 152: "administrative action"
        case 154: "retain not supported"
        case 155: "quality of service not supported"
        case 156: "use another server"
        case 157: "server moved"
        default: nil
        }
    }
}
