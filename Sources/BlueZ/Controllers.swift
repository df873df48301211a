import CBlueZ

/// A controller as the kernel sees it, bluetoothd running or not.
public struct Controller: Sendable, Hashable {
    /// The number in `hci0`, `hci1`, …
    public let index: Int
    /// Upper-case hexadecimal with colons.
    public let address: String
    /// Whether it is powered up.
    public let isUp: Bool

    /// At most this many are listed, which is the kernel's own bound.
    static let countMax = 16

    /// The kernel's list. Where it cannot be had (no Bluetooth in the kernel, say) the list is empty
    /// and `errno` says why.
    public static func list() -> (controllers: [Controller], errno: Int32?) {
        var raw = [cbz_controller](repeating: cbz_controller(), count: countMax)
        let found = cbz_controllers(&raw, Int32(raw.count))
        guard found >= 0 else { return ([], -found) }
        let controllers = raw.prefix(Int(found)).map { controller in
            let address = withUnsafeBytes(of: controller.address) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            return Controller(
                index: Int(controller.index), address: address, isUp: controller.up)
        }
        return (controllers, nil)
    }
}
