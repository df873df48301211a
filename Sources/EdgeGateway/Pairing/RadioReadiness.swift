import Basics
import Recording

/// Whether there is a radio to scan and pair with.
struct RadioReadiness: Sendable {
    /// After a start, bluetoothd and its adapters take a moment to show. One that does not answer by then is said to hang
    /// after five seconds.
    private static let grace = Duration.seconds(6)
    private static let pause = Duration.milliseconds(100)

    let recorder: Recorder
    let clock: UptimeClock

    /// Waits a moment for the radio.
    ///
    /// - Throws: ``ProblemReport`` that says what is missing.
    func wait() async throws {
        let deadline = clock.now() + Self.grace
        while await recorder.radio != .ready, clock.now() < deadline {
            await clock.sleep(Self.pause)
            try Task.checkCancellation()
        }
        switch await recorder.radio {
        case .ready: return
        case .unknown, .noBus:
            throw ProblemReport(
                code: .busAbsent, message: "the system bus does not answer",
                advice: "systemctl status dbus")
        case .noDaemon:
            throw ProblemReport(
                code: .bluetoothdAbsent, message: "bluetoothd is not running",
                advice: "systemctl start bluetooth")
        case .hung:
            throw ProblemReport(
                code: .bluetoothdHung, message: "bluetoothd runs but does not answer",
                advice: "systemctl restart bluetooth")
        case .refused:
            throw ProblemReport(
                code: .bluetoothdRefuses,
                message: "bluetoothd or the D-Bus policy does not let the gateway in",
                advice: "edge-gateway status says what to do")
        case .noAdapter:
            throw ProblemReport(
                code: .noAdapter, message: "there is no Bluetooth adapter",
                advice: "plug one in, or check: rfkill list; dmesg | grep -i bluetooth")
        case .poweredOff:
            throw ProblemReport(
                code: .radioOff, message: "the Bluetooth adapter is powered off",
                advice: "rfkill unblock bluetooth; bluetoothctl power on")
        }
    }
}
