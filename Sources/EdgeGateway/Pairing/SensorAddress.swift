/// A sensor's Bluetooth address, as requests name it.
enum SensorAddress {
    /// An address in upper case: six octets with colons.
    static func checked(_ text: String) throws -> String {
        let octets = text.uppercased().split(separator: ":", omittingEmptySubsequences: false)
        guard octets.count == 6, octets.allSatisfy({ $0.count == 2 && UInt8($0, radix: 16) != nil })
        else {
            throw ProblemReport(
                code: .badAddress, message: "this is not a Bluetooth address",
                advice: "edge-gateway scan shows addresses such as C0:00:00:00:00:01")
        }
        return octets.joined(separator: ":")
    }
}
