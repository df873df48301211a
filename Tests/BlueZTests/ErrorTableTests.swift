import Testing

@testable import BlueZ

@Suite("Error classes")
struct ErrorTableTests {
    static let rows: [(DBusFault, BlueZErrorClass)] = [
        (DBusFault(name: "org.bluez.Error.InProgress"), .busy),
        (DBusFault(name: "org.bluez.Error.InProgress", text: "br-connection-busy"), .busy),
        (DBusFault(name: "org.bluez.Error.NotReady", text: "Resource Not Ready"), .notPowered),
        (DBusFault(name: "org.bluez.Error.NotConnected"), .transientRadio),
        (
            DBusFault(name: "org.bluez.Error.ConnectionAttemptFailed", text: "Page Timeout"),
            .transientRadio
        ),
        (DBusFault(name: "org.bluez.Error.AlreadyConnected"), .busy),
        (DBusFault(name: "org.bluez.Error.DoesNotExist"), .gone),
        (DBusFault(name: "org.bluez.Error.AuthenticationFailed"), .auth),
        (DBusFault(name: "org.bluez.Error.AuthenticationCanceled"), .auth),
        (DBusFault(name: "org.bluez.Error.AuthenticationRejected"), .auth),
        (DBusFault(name: "org.bluez.Error.AuthenticationTimeout"), .auth),
        (DBusFault(name: "org.bluez.Error.NotAuthorized"), .auth),
        (DBusFault(name: "org.bluez.Error.NotPermitted", text: "Notify acquired"), .taken),
        (DBusFault(name: "org.bluez.Error.NotPermitted", text: "Not paired"), .permission),
        (DBusFault(name: "org.bluez.Error.NotSupported"), .permission),
        (DBusFault(name: "org.freedesktop.DBus.Error.AccessDenied"), .denied),
        (DBusFault(name: "org.freedesktop.DBus.Error.UnknownObject"), .gone),
        (DBusFault(name: "org.freedesktop.DBus.Error.UnknownMethod"), .gone),
        (DBusFault(name: "org.freedesktop.DBus.Error.ServiceUnknown"), .daemon),
        (DBusFault(name: "org.freedesktop.DBus.Error.NameHasNoOwner"), .daemon),
        (DBusFault(name: DBusFault.noReply), .daemon),
        (DBusFault(name: DBusFault.disconnected), .daemon),
        (DBusFault(name: DBusFault.stale), .daemon),
        (failed("le-connection-abort-by-local"), .transientRadio),
        (failed("le-connection-abort-by-remote"), .transientRadio),
        (failed("le-connection-timeout"), .transientRadio),
        (failed("le-connection-refused"), .transientRadio),
        (failed("le-connection-busy"), .busy),
        (failed("le-connection-concurrent-connection-limit"), .slots),
        (failed("le-connection-gatt-browsing"), .transientRadio),
        (failed("le-connection-key-missing"), .auth),
        (failed("le-connection-adapter-not-powered"), .notPowered),
        (failed("le-connection-link-layer-protocol-error"), .transientRadio),
        (failed("le-connection-not-supported"), .permission),
        (failed("le-connection-unknown"), .transientRadio),
        (failed("br-connection-canceled"), .transientRadio),
        (failed("br-connection-page-timeout"), .classic),
        (failed("br-connection-profile-unavailable"), .classic),
        (failed("br-connection-of-the-third-kind"), .classic),
        (failed("br-connection-adapter-not-powered"), .notPowered),
        (failed("br-connection-busy"), .busy),
        (failed("le-connection-of-the-third-kind"), .unknown),
        (failed("Software caused connection abort"), .transientRadio),
        (failed("Not connected"), .transientRadio),
        (failed("Operation already in progress"), .busy),
        (failed("No discovery started"), .gone),
        (failed("Operation failed with ATT error: 0x05"), .auth),
        (failed("Operation failed with ATT error: 0x0f"), .auth),
        (failed("Operation failed with ATT error: 0x0e"), .transientRadio),
        (failed("Operation failed with ATT error: 0x01"), .cache),
        (failed("something new"), .unknown),
        (failed(""), .unknown),
        (DBusFault(name: "org.bluez.Error.SomethingNew"), .unknown),
        (DBusFault(name: ""), .unknown),
    ]

    static func failed(_ text: String) -> DBusFault {
        DBusFault(name: "org.bluez.Error.Failed", text: text)
    }

    @Test("every error has its class", arguments: rows)
    func row(fault: DBusFault, expected: BlueZErrorClass) {
        #expect(BlueZErrorClass(fault) == expected)
    }

    @Test("every class but the unknown is reached by the table")
    func coverage() {
        let reached = Set(Self.rows.map { BlueZErrorClass($0.0) }).subtracting([.unknown])
        #expect(reached == Set(BlueZErrorClass.allCases).subtracting([.unknown]))
    }
}
