/// The reaction that an error of BlueZ or the bus calls for. Every error has exactly one class.
public enum BlueZErrorClass: String, Sendable, Hashable, CaseIterable {
    /// The radio or the other side: try again soon.
    case transientRadio
    /// bluetoothd is at it already: end that first, then try once.
    case busy
    /// The adapter is off: wait for it.
    case notPowered
    /// The adapter carries no more links: try again later, and say so.
    case slots
    /// The object is not there any more: wait until it is seen again.
    case gone
    /// Pairing or encryption: a person has to look.
    case auth
    /// bluetoothd remembers services that the device does not have.
    case cache
    /// bluetoothd or the bus does not answer.
    case daemon
    /// Not allowed or not possible, now or later.
    case permission
    /// Another program has the notifications to itself: a person has to end it.
    case taken
    /// bluetoothd chose classic Bluetooth for a device that has both: a person has to look.
    case classic
    /// The bus does not let us ask: a person has to look.
    case denied
    /// Not in the table: counted, logged, tried again.
    case unknown
}

extension BlueZErrorClass {
    /// The class of an error.
    public init(_ fault: DBusFault) {
        if fault.name == "org.bluez.Error.Failed" {
            self = Self.ofFailure(fault.text)
        } else if fault.name == Self.notPermitted, fault.text == Self.notifyAcquired {
            self = .taken
        } else {
            self = Self.names[fault.name] ?? .unknown
        }
    }

    private static let notPermitted = "org.bluez.Error.NotPermitted"
    /// The answer of `StartNotify` while another client holds the socket of `AcquireNotify`. Source: BlueZ
    /// `src/gatt-client.c`.
    private static let notifyAcquired = "Notify acquired"

    private static func byText(
        _ texts: KeyValuePairs<BlueZErrorClass, [String]>
    ) -> [String: BlueZErrorClass] {
        Dictionary(
            uniqueKeysWithValues: texts.flatMap { one in one.value.map { ($0, one.key) } })
    }

    /// By error name. Source: BlueZ `src/error.c` and the D-Bus Specification.
    static let names = byText([
        .busy: [
            "org.bluez.Error.InProgress", "org.bluez.Error.Busy",
            "org.bluez.Error.AlreadyConnected", "org.bluez.Error.AlreadyExists",
        ],
        .notPowered: ["org.bluez.Error.NotReady", "org.bluez.Error.Blocked"],
        .transientRadio: [
            "org.bluez.Error.NotConnected", "org.bluez.Error.ConnectionAttemptFailed",
            "org.bluez.Error.NotAvailable",
        ],
        .gone: [
            "org.bluez.Error.DoesNotExist", "org.bluez.Error.NoSuchAdapter",
            "org.freedesktop.DBus.Error.UnknownObject",
            "org.freedesktop.DBus.Error.UnknownInterface",
            "org.freedesktop.DBus.Error.UnknownMethod",
        ],
        .auth: [
            "org.bluez.Error.AuthenticationFailed", "org.bluez.Error.AuthenticationCanceled",
            "org.bluez.Error.AuthenticationRejected", "org.bluez.Error.AuthenticationTimeout",
            "org.bluez.Error.NotAuthorized",
        ],
        .permission: [
            notPermitted, "org.bluez.Error.NotSupported", "org.bluez.Error.NotAcquired",
            "org.bluez.Error.Rejected",
        ],
        .denied: [DBusFault.accessDenied, "org.freedesktop.DBus.Error.AuthFailed"],
        .daemon: [
            "org.freedesktop.DBus.Error.ServiceUnknown",
            "org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.Timeout",
            "org.freedesktop.DBus.Error.TimedOut", "org.freedesktop.DBus.Error.NoServer",
            "org.freedesktop.DBus.Error.NoMemory", "org.freedesktop.DBus.Error.IOError",
            DBusFault.noReply, DBusFault.disconnected, DBusFault.limitsExceeded,
            DBusFault.cancelled, DBusFault.stale,
        ],
    ])

    /// By the text of `org.bluez.Error.Failed` after `le-connection-`, and after `br-connection-` what
    /// concerns the adapter. Source: BlueZ `doc/errors.txt`, which keeps these stable for retry policies.
    static let connectionTexts = byText([
        .transientRadio: [
            "abort-by-local", "aborted-by-local", "abort-by-remote", "aborted-by-remote", "timeout",
            "page-timeout", "refused", "canceled", "link-layer-protocol-error",
            "lmp-protocol-error", "gatt-browsing", "sdp-search", "create-socket", "bad-socket",
            "unknown",
        ],
        .busy: ["busy", "already-connected"],
        .notPowered: ["adapter-not-powered"],
        .slots: ["concurrent-connection-limit"],
        .auth: ["key-missing"],
        .classic: ["profile-unavailable"],
        .daemon: ["memory-allocation"],
        .permission: ["not-supported", "invalid-arguments", "invalid-argument"],
    ])

    /// By other texts of `org.bluez.Error.Failed`: errno and ATT errors put into words.
    static let otherTexts = byText([
        .transientRadio: [
            "Software caused connection abort", "Connection timed out", "Connection refused",
            "Connection reset by peer", "Host is down", "Input/output error",
            "Transport endpoint is not connected", "Not connected", "Function not implemented",
            "Operation failed with ATT error: 0x0e",
        ],
        .busy: [
            "Operation already in progress", "Operation now in progress", "Device or resource busy",
        ],
        .notPowered: ["Resource Not Ready", "Network is down"],
        .gone: ["No discovery started", "No such device"],
        .slots: ["Too many links"],
        .auth: [
            "Operation failed with ATT error: 0x05", "Operation failed with ATT error: 0x08",
            "Operation failed with ATT error: 0x0c", "Operation failed with ATT error: 0x0f",
        ],
        .cache: ["Operation failed with ATT error: 0x01", "Operation failed with ATT error: 0x0a"],
        .permission: ["Operation not permitted"],
    ])

    private static func ofFailure(_ text: String) -> BlueZErrorClass {
        if text.hasPrefix("le-connection-") { return ofConnection(text) }
        if text.hasPrefix("br-connection-") {
            // bluetoothd cancels every link in these words, and what the adapter lacks, it lacks for both. The rest is of
            // a link that no strap has.
            let kind = ofConnection(text)
            let isOfAny =
                text.hasSuffix("-canceled") || [.notPowered, .busy, .daemon].contains(kind)
            return isOfAny ? kind : .classic
        }
        return otherTexts[text] ?? .unknown
    }

    private static func ofConnection(_ text: String) -> BlueZErrorClass {
        connectionTexts[String(text.dropFirst("le-connection-".count))] ?? .unknown
    }
}
