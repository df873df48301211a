/// A call that bluetoothd or the bus did not carry out, in words for a log: printable, bounded, and without the address of
/// a sensor.
public struct CallFailure: Sendable, Hashable {
    /// The longest text kept, in characters. bluetoothd's have a few words.
    static let textMax = 120

    /// The method, such as `Connect`.
    public let member: String
    /// The name and the text of the error.
    public let fault: DBusFault

    init(member: String, fault: DBusFault) {
        self.member = member
        self.fault = DBusFault(name: Self.printable(fault.name), text: Self.printable(fault.text))
    }

    private static func printable(_ text: String) -> String {
        let visible = text.unicodeScalars.prefix(8 * textMax).map {
            (0x21...0x7e).contains($0.value) ? Character($0) : " "
        }
        let line = visible.split(separator: " ").map { String($0) }.joined(separator: " ")
        // The ends of addresses, also of those in object paths, tell which sensor it was.
        return String(line.replacing(#/([0-9A-Fa-f]{2}[:_]){4}/#, with: "..").prefix(textMax))
    }
}
