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

    /// By error name. Source: BlueZ `src/error.c` and the D-Bus Specification.
    static let names: [String: BlueZErrorClass] = [
        "org.bluez.Error.InProgress": .busy,
        "org.bluez.Error.Busy": .busy,
        "org.bluez.Error.AlreadyConnected": .busy,
        "org.bluez.Error.AlreadyExists": .busy,
        "org.bluez.Error.NotReady": .notPowered,
        "org.bluez.Error.Blocked": .notPowered,
        "org.bluez.Error.NotConnected": .transientRadio,
        "org.bluez.Error.ConnectionAttemptFailed": .transientRadio,
        "org.bluez.Error.NotAvailable": .transientRadio,
        "org.bluez.Error.DoesNotExist": .gone,
        "org.bluez.Error.NoSuchAdapter": .gone,
        "org.freedesktop.DBus.Error.UnknownObject": .gone,
        "org.freedesktop.DBus.Error.UnknownInterface": .gone,
        "org.freedesktop.DBus.Error.UnknownMethod": .gone,
        "org.bluez.Error.AuthenticationFailed": .auth,
        "org.bluez.Error.AuthenticationCanceled": .auth,
        "org.bluez.Error.AuthenticationRejected": .auth,
        "org.bluez.Error.AuthenticationTimeout": .auth,
        "org.bluez.Error.NotAuthorized": .auth,
        notPermitted: .permission,
        "org.bluez.Error.NotSupported": .permission,
        "org.bluez.Error.NotAcquired": .permission,
        "org.bluez.Error.Rejected": .permission,
        DBusFault.accessDenied: .denied,
        "org.freedesktop.DBus.Error.AuthFailed": .denied,
        "org.freedesktop.DBus.Error.ServiceUnknown": .daemon,
        "org.freedesktop.DBus.Error.NameHasNoOwner": .daemon,
        "org.freedesktop.DBus.Error.Timeout": .daemon,
        "org.freedesktop.DBus.Error.TimedOut": .daemon,
        "org.freedesktop.DBus.Error.NoServer": .daemon,
        "org.freedesktop.DBus.Error.NoMemory": .daemon,
        "org.freedesktop.DBus.Error.IOError": .daemon,
        DBusFault.noReply: .daemon,
        DBusFault.disconnected: .daemon,
        DBusFault.limitsExceeded: .daemon,
        DBusFault.cancelled: .daemon,
        DBusFault.stale: .daemon,
    ]

    /// By the text of `org.bluez.Error.Failed` after `le-connection-`, and after `br-connection-` what
    /// concerns the adapter. Source: BlueZ `doc/errors.txt`, which keeps these stable for retry policies.
    static let connectionTexts: [String: BlueZErrorClass] = [
        "abort-by-local": .transientRadio,
        "aborted-by-local": .transientRadio,
        "abort-by-remote": .transientRadio,
        "aborted-by-remote": .transientRadio,
        "timeout": .transientRadio,
        "page-timeout": .transientRadio,
        "refused": .transientRadio,
        "canceled": .transientRadio,
        "link-layer-protocol-error": .transientRadio,
        "lmp-protocol-error": .transientRadio,
        "gatt-browsing": .transientRadio,
        "sdp-search": .transientRadio,
        "create-socket": .transientRadio,
        "bad-socket": .transientRadio,
        "unknown": .transientRadio,
        "busy": .busy,
        "already-connected": .busy,
        "adapter-not-powered": .notPowered,
        "concurrent-connection-limit": .slots,
        "key-missing": .auth,
        "profile-unavailable": .classic,
        "memory-allocation": .daemon,
        "not-supported": .permission,
        "invalid-arguments": .permission,
        "invalid-argument": .permission,
    ]

    /// By other texts of `org.bluez.Error.Failed`: errno and ATT errors put into words.
    static let otherTexts: [String: BlueZErrorClass] = [
        "Software caused connection abort": .transientRadio,
        "Connection timed out": .transientRadio,
        "Connection refused": .transientRadio,
        "Connection reset by peer": .transientRadio,
        "Host is down": .transientRadio,
        "Input/output error": .transientRadio,
        "Transport endpoint is not connected": .transientRadio,
        "Not connected": .transientRadio,
        "Function not implemented": .transientRadio,
        "Operation already in progress": .busy,
        "Operation now in progress": .busy,
        "Device or resource busy": .busy,
        "Resource Not Ready": .notPowered,
        "Network is down": .notPowered,
        "No discovery started": .gone,
        "No such device": .gone,
        "Too many links": .slots,
        "Operation failed with ATT error: 0x05": .auth,
        "Operation failed with ATT error: 0x08": .auth,
        "Operation failed with ATT error: 0x0c": .auth,
        "Operation failed with ATT error: 0x0f": .auth,
        "Operation failed with ATT error: 0x01": .cache,
        "Operation failed with ATT error: 0x0a": .cache,
        "Operation failed with ATT error: 0x0e": .transientRadio,
        "Operation not permitted": .permission,
    ]

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
