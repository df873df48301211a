import BlueZ
import Foundation
import Synchronization

/// The time a gateway lives in that runs with Tests/Chaos/FastTime, and what time it really is there.
///
/// The world's time is the truth: it begins at ``epoch`` and runs `speed` times as fast as the host's,
/// for the straps and the exchange as well. The gateway's uptime runs with it; its wall clock is what
/// the script makes of it.
package final class FastClock: Sendable {
    /// 2026-12-01T00:00:00Z in µs: later than the product was built.
    package static let epoch: Int64 = 1_796_083_200_000_000
    /// How old a machine is when the gateway begins to be looked at, in seconds.
    private static let bootSeconds: Int64 = 20

    /// Seconds of the world for each of the host.
    package let speed: Int64
    /// The file that the gateway reads it from.
    package let path: String
    private let began: Int64
    private let file: Int32
    private let state = Mutex(State())

    private struct State {
        var boots: [(id: String, began: Int64)] = []
        var wrong: Int64 = 0
        var troubles = 0
    }

    /// - Parameters:
    ///   - speed: seconds of the world for each of the host.
    ///   - path: where the gateway reads it.
    package init(speed: Int64, path: String) throws {
        self.speed = speed
        self.path = path
        began = Self.host()
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0, ftruncate(file, 4096) == 0 else { throw POSIXError(.EIO) }
        put(speed, at: 8)
        reboot()
    }

    deinit { close(file) }

    /// Environment of a program that lives in this time.
    package var variables: [String: String] {
        let library = GatewayProcess.program("libFastTime.so").path
        return ["LD_PRELOAD": library, "FAST_TIME": path]
    }

    // MARK: The truth

    /// UTC in µs.
    package var now: Int64 { Self.epoch + (Self.host() - began) * speed / 1000 }
    /// Seconds since the world began.
    package var seconds: Double { Double(now - Self.epoch) / 1e6 }

    /// Waits until the world is so many seconds old.
    package func sleep(until second: Double) async {
        let pause = (second - seconds) / Double(speed)
        if pause > 0 { try? await Task.sleep(for: .seconds(pause)) }
    }

    /// UTC in µs when the machine had this uptime in this boot; nil for a boot that never was.
    package func truth(boot: String, uptime: Int64) -> Int64? {
        state.withLock { state in
            guard let boot = state.boots.first(where: { $0.id == boot }) else { return nil }
            return Self.epoch + (boot.began - began) * speed / 1000 + uptime
        }
    }

    // MARK: The machine's clocks

    /// The machine starts anew: another boot, an uptime of seconds. Only while the gateway is dead.
    package func reboot() {
        state.withLock { state in
            let start = Self.host() - Self.bootSeconds * 1_000_000_000 / speed
            let id = "chaos-boot-\(state.boots.count + 1)"
            state.boots.append((id, start))
            put(start, at: 0)
            var name = Array(id.utf8)
            name += Array(repeating: 0, count: 40 - name.count)
            pwrite(file, name, name.count, 32)
            putWall(state)
        }
    }

    /// How wrong the wall clock is while the kernel calls it synchronised, in µs.
    package func step(by wrong: Int64) {
        state.withLock { state in
            guard state.troubles == 0 else { return }
            state.wrong = wrong
            putWall(state)
        }
    }

    /// Nothing disciplines the wall clock any more, and it is wrong by so many µs.
    package func loseWall(by wrong: Int64) {
        state.withLock { state in
            state.troubles += 1
            put(Int32(0), at: 24)
            state.wrong = wrong
            putWall(state)
        }
    }

    /// Ends one ``loseWall(by:)``; with the last of them the clock is right again and synchronised.
    package func regainWall() {
        state.withLock { state in
            state.troubles -= 1
            guard state.troubles == 0 else { return }
            state.wrong = 0
            putWall(state)
            put(Int32(1), at: 24)
        }
    }

    /// Leads connections from one port of 127.0.0.1 to another.
    package func lead(port: Int, to other: Int) {
        put(UInt16(other), at: 30)
        put(UInt16(port), at: 28)
    }

    /// Begins with a clock that is right.
    package func setSynchronised() { put(Int32(1), at: 24) }

    private func putWall(_ state: State) {
        guard let boot = state.boots.last else { return }
        put((Self.epoch + state.wrong) * 1000 + (boot.began - began) * speed, at: 16)
    }

    private func put(_ value: some BitwiseCopyable, at offset: Int) {
        withUnsafeBytes(of: value) { _ = pwrite(file, $0.baseAddress, $0.count, off_t(offset)) }
    }

    private static func host() -> Int64 { Uptime.microseconds() * 1000 }
}
