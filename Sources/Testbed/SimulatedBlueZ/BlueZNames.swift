import BlueZ

/// Names on the bus that BlueZ uses.
enum BlueZName {
    static let service = "org.bluez"
    static let adapter = "org.bluez.Adapter1"
    static let device = "org.bluez.Device1"
    static let battery = "org.bluez.Battery1"
    static let gattService = "org.bluez.GattService1"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let descriptor = "org.bluez.GattDescriptor1"
    static let agentManager = "org.bluez.AgentManager1"
    static let objectManager = "org.freedesktop.DBus.ObjectManager"
    static let properties = "org.freedesktop.DBus.Properties"
    static let introspectable = "org.freedesktop.DBus.Introspectable"
    static let peer = "org.freedesktop.DBus.Peer"
    static let root = "/org/bluez"
}

/// The answers of bluetoothd when something is wrong, in its own names and words (`src/error.c`,
/// `src/gatt-client.c` and `gdbus/object.c` of BlueZ).
public enum BlueZFault {
    /// `org.bluez.Error.` and a name.
    public static func of(_ name: String, _ text: String) -> DBusFault {
        DBusFault(name: "org.bluez.Error.\(name)", text: text)
    }

    public static let invalidArguments = of(
        "InvalidArguments", "Invalid arguments in method call")
    /// A second `StartDiscovery`.
    public static let busy = of("InProgress", "Operation already in progress")
    /// A second `Connect`, `Pair` or `StartNotify`.
    public static let inProgress = of("InProgress", "In Progress")
    public static let alreadyExists = of("AlreadyExists", "Already Exists")
    public static let notSupported = of("NotSupported", "Operation is not supported")
    public static let notConnected = of("NotConnected", "Not Connected")
    public static let doesNotExist = of("DoesNotExist", "Does Not Exist")
    public static let notReady = of("NotReady", "Resource Not Ready")
    public static let notPaired = of("NotPermitted", "Not paired")
    /// Another client holds the socket of `AcquireNotify`.
    public static let notifyAcquired = of("NotPermitted", "Notify acquired")
    public static let noDiscovery = failed("No discovery started")
    public static let noNotifySession = failed("No notify session started")
    public static let gattNotConnected = failed("Not connected")
    public static let abortByLocal = failed("le-connection-abort-by-local")
    public static let tooManyLinks = failed("le-connection-concurrent-connection-limit")
    /// The answer to a pending `Connect` when `Disconnect` is called, on LE too.
    public static let connectCanceled = failed("br-connection-canceled")
    public static let authenticationCanceled = of(
        "AuthenticationCanceled", "Authentication Canceled")

    /// `org.bluez.Error.Failed` and a text.
    public static func failed(_ text: String) -> DBusFault {
        of("Failed", text)
    }

    /// An operation that the sensor refused, or that was not answered (0x0e).
    public static func att(_ code: UInt8) -> DBusFault {
        let digits = String(code, radix: 16)
        let padded = String(repeating: "0", count: max(0, 2 - digits.count)) + digits
        return failed("Operation failed with ATT error: 0x\(padded)")
    }

    static func unknownObject(_ call: DBusMessage) -> DBusFault {
        DBusFault(
            name: "org.freedesktop.DBus.Error.UnknownObject", text: methodText(call))
    }

    static func unknownMethod(_ call: DBusMessage) -> DBusFault {
        DBusFault(
            name: "org.freedesktop.DBus.Error.UnknownMethod", text: methodText(call))
    }

    static func noInterface(_ name: String) -> DBusFault {
        DBusFault(
            name: "org.freedesktop.DBus.Error.InvalidArgs", text: "No such interface '\(name)'")
    }

    static func noProperty(_ name: String) -> DBusFault {
        DBusFault(
            name: "org.freedesktop.DBus.Error.InvalidArgs", text: "No such property '\(name)'")
    }

    static func readOnly(_ name: String) -> DBusFault {
        DBusFault(
            name: "org.freedesktop.DBus.Error.PropertyReadOnly",
            text: "Property '\(name)' is not writable")
    }

    private static func methodText(_ call: DBusMessage) -> String {
        let signature = call.body.map(\.signature).joined()
        return "Method \"\(call.member ?? "")\" with signature \"\(signature)\" on interface "
            + "\"\(call.interface ?? "")\" doesn't exist\n"
    }
}
