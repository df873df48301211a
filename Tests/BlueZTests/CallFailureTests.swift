import Testing

@testable import BlueZ

@Suite("Failed calls, in words for a log")
struct CallFailureTests {
    @Test("tell no address of a sensor, neither as such nor in an object path")
    func addresses() {
        let failure = CallFailure(
            member: "Connect",
            fault: DBusFault(
                name: "org.freedesktop.DBus.Error.UnknownObject",
                text: "no /org/bluez/hci0/dev_C0_12_34_56_78_9A, that is c0:12:34:56:78:9a"))
        #expect(failure.fault.text == "no /org/bluez/hci0/dev_..78_9A, that is ..78:9a")
        #expect(failure.fault.name == "org.freedesktop.DBus.Error.UnknownObject")
    }

    @Test("are one printable line that is not long")
    func hostile() {
        let long = CallFailure(
            member: "Pair",
            fault: DBusFault(name: "a.B", text: String(repeating: "x\u{1b}[2J\n", count: 10_000)))
        #expect(long.fault.text.count == CallFailure.textMax)
        #expect(long.fault.text.hasPrefix("x [2J x [2J"))
    }
}
