import Basics
import Testing

@testable import BlueZ

@Suite("One adapter's radio")
struct AdapterRadioTests {
    typealias Radio = AdapterRadio<String>
    var radio = Radio()
    var now = Uptime.seconds(5)

    init() { _ = radio.handle(.usable(true), at: now) }

    mutating func tell(_ event: Radio.Event) -> [Radio.Action] { radio.handle(event, at: now) }

    mutating func wait(_ microseconds: Int64) -> [Radio.Action] {
        now += .microseconds(microseconds)
        guard let due = radio.nextDeadline, due <= now else { return [] }
        return radio.handle(.tick, at: now)
    }

    mutating func startScan() {
        #expect(tell(.wantScan(true)) == [.startScan])
        #expect(tell(.scanStarted) == [])
    }

    @Test("scans while wanted")
    mutating func scanning() {
        startScan()
        #expect(tell(.wantScan(true)) == [])
        #expect(tell(.wantScan(false)) == [.stopScan])
        #expect(tell(.scanStopped) == [])
        #expect(radio.scan == .off)
        #expect(radio.nextDeadline == nil)
    }

    @Test("pauses the scan, waits 250 ms, connects, and scans again")
    mutating func pausing() {
        startScan()
        #expect(tell(.request("a", isAwaited: false)) == [.stopScan])
        #expect(tell(.scanStopped) == [])
        #expect(wait(249_999) == [])
        #expect(wait(1) == [.grant("a")])
        #expect(tell(.done("a")) == [.startScan])
    }

    @Test("one connect at a time, in the order of asking")
    mutating func queueing() {
        #expect(tell(.request("a", isAwaited: false)) == [.grant("a")])
        #expect(tell(.request("b", isAwaited: false)) == [])
        #expect(tell(.request("c", isAwaited: false)) == [])
        #expect(tell(.request("b", isAwaited: false)) == [])
        #expect(tell(.withdraw("b")) == [])
        #expect(tell(.done("a")) == [.grant("c")])
        #expect(tell(.done("c")) == [])
    }

    /// An absent strap that was tried again and again took the turn of the one that a technician paired.
    @Test("who a person waits for is next, whoever asked before")
    mutating func awaited() {
        #expect(tell(.request("a", isAwaited: false)) == [.grant("a")])
        #expect(tell(.request("b", isAwaited: false)) == [])
        #expect(tell(.request("c", isAwaited: true)) == [])
        #expect(tell(.request("d", isAwaited: true)) == [])
        #expect(tell(.request("b", isAwaited: true)) == [])
        #expect(radio.queue == ["c", "d", "b"])
        #expect(tell(.done("a")) == [.grant("c")])
        #expect(tell(.request("c", isAwaited: false)) == [])
        #expect(radio.queue == ["d", "b", "c"])
    }

    @Test("who fails may ask again before it is done, and is not lost")
    mutating func askingAgain() {
        #expect(tell(.request("a", isAwaited: false)) == [.grant("a")])
        #expect(tell(.request("a", isAwaited: false)) == [])
        #expect(tell(.done("a")) == [.grant("a")])
        #expect(tell(.withdraw("a")) == [])
        #expect(radio.holder == nil)
    }

    @Test("a scan that is being started is not stopped before it has")
    mutating func requestWhileStarting() {
        #expect(tell(.wantScan(true)) == [.startScan])
        #expect(tell(.request("a", isAwaited: false)) == [])
        #expect(tell(.scanStarted) == [.stopScan])
    }

    @Test("a failed start is never stopped, and tried again after 1, 2, 4 … 30 s")
    mutating func failedStart() {
        #expect(tell(.wantScan(true)) == [.startScan])
        for seconds: Int64 in [1, 2, 4, 8, 16, 30, 30] {
            #expect(tell(.scanFailed) == [])
            #expect(wait(seconds * 1_000_000 - 1) == [])
            #expect(wait(1) == [.startScan])
        }
        #expect(tell(.wantScan(false)) == [])
        #expect(tell(.scanFailed) == [])
    }

    @Test("a session that ended by itself is begun anew, not stopped")
    mutating func lostScan() {
        startScan()
        #expect(tell(.scanLost) == [])
        #expect(wait(1_000_000) == [.startScan])
    }

    @Test("a scan is renewed after ten minutes")
    mutating func renewing() {
        startScan()
        #expect(wait(599_999_999) == [])
        #expect(wait(1) == [.stopScan])
        #expect(tell(.scanStopped) == [.startScan])
    }

    @Test("connects do not starve the scan")
    mutating func fairness() {
        startScan()
        #expect(tell(.request("0", isAwaited: false)) == [.stopScan])
        #expect(tell(.scanStopped) == [])
        var actions = wait(250_000)
        for number in 0..<Radio.connectsInRowMax {
            #expect(actions == [.grant("\(number)")])
            _ = tell(.request("\(number + 1)", isAwaited: false))
            actions = tell(.done("\(number)"))
        }
        #expect(actions == [.startScan])
        #expect(tell(.scanStarted) == [])
        #expect(wait(1_999_999) == [])
        #expect(wait(1) == [.stopScan])
        #expect(tell(.scanStopped) == [])
        #expect(wait(250_000) == [.grant("\(Radio.connectsInRowMax)")])
    }

    @Test("an adapter that goes off takes everything with it; nothing is called on it")
    mutating func unusable() {
        startScan()
        #expect(tell(.usable(false)) == [])
        #expect(tell(.request("a", isAwaited: false)) == [])
        #expect(radio.nextDeadline == nil)
        #expect(tell(.usable(true)) == [.grant("a")] || radio.scan == .starting)
    }
}
