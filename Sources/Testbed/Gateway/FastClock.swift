import Basics
import BlueZ
import Foundation
import Synchronization

/// The time that a gateway with Tests/Chaos/FastTime lives in, and what time it really is there.
///
/// The world's time is the truth, for the straps and the exchange as well: it begins at ``epoch``. The
/// gateway's uptime runs with it; its wall clock is what the script makes of it.
///
/// A thread moves the world's time on, a small step at a time, and only when the gateway, what works for it, and
/// the test have done what they had to do at the moment before, or after some patience with them. A machine that is busy, or that
/// pauses, therefore makes the world slower; it never makes a moment of the world longer.
public final class FastClock: Sendable {
    /// A midnight, UTC, at least an hour after these tests began. The product has been built by then, and the
    /// certificates of the test servers are valid.
    package static let epoch: UTC = {
        let day: Int64 = 86_400
        let inAnHour = Int64(Date().timeIntervalSince1970) + 3600
        return UTC(microseconds: (inAnHour / day + 1) * day * 1_000_000)
    }()
    /// How old a machine is when the tests begin.
    private static let bootTime = Duration.seconds(20)
    /// The host's time of a step, and how much later a thread may wake for it to count as such.
    private static let step = Duration.milliseconds(2)
    private static let stepMax = Duration.milliseconds(4)
    /// How long a step waits for the tasks of this process: other tests may compute for seconds.
    private static let testPatience = Duration.seconds(60)
    /// How long a step waits for a gateway, and what works for it. They may work without end.
    private static let gatewayPatience = Duration.milliseconds(200)
    /// How long a step waits for a disk: beside others who write, one commit takes seconds.
    private static let diskPatience = Duration.seconds(10)
    /// How often a task may be put back into the queue before its work of a step is done: a frame goes from
    /// the strap's task to bluetoothd's and the bus's.
    private static let turns = 4
    /// How often who waits for the world's time looks at it, by the host's clock.
    private static let pollPause = Duration.microseconds(500)

    /// Seconds of the world for each of an idle host.
    package let speed: Int64
    /// The file that the gateway reads it from.
    package let path: String
    /// Processes that work for the gateway: a message bus, relays.
    private let helpers: @Sendable () -> [pid_t]
    // Safe: the pointer never changes, the page is mapped until `deinit`, and every field in it is one aligned
    // word that one thread at a time writes: the clock's thread, the owner of the lock on `state`, or who sets
    // the world up before the gateway starts. The gateway, another process, reads it at any moment.
    private nonisolated(unsafe) let page: UnsafeMutableRawPointer
    /// Nanoseconds since the world began.
    private let world = Atomic<Int64>(0)
    private let state = Mutex(State())
    private let isStopped = Atomic(false)
    /// The last step by which every task of this process had its turn.
    private let stepDone = Atomic(0)

    private struct State {
        /// Of each boot, the world's time when its uptime was zero, in ns.
        var boots: [(id: String, began: Int64)] = []
        /// How far the wall clock is from the truth.
        var wrong = Duration.zero
        var troubles = 0
        /// The gateway that lived at the last step.
        var living: pid_t?
        /// The last that did not live any more.
        var dead: pid_t?
        var deaths: [UTC] = []
    }

    /// Where the page has what: `struct fast_time` of Tests/Chaos/FastTime.
    private enum Field {
        static let began = 0
        static let speed = 8
        static let wall = 16
        static let synchronised = 24
        static let portFrom = 28
        static let portTo = 30
        static let bootID = 32
        static let world = 72
        static let process = 80
    }

    /// - Parameters:
    ///   - speed: seconds of the world for each of an idle host.
    ///   - path: where the gateway reads it.
    ///   - helpers: processes that work for the gateway: a message bus, relays.
    package init(
        speed: Int64, path: String, helpers: @escaping @Sendable () -> [pid_t]
    ) throws {
        self.speed = speed
        self.path = path
        self.helpers = helpers
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard file >= 0, ftruncate(file, 4096) == 0,
            let page = mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
            page != MAP_FAILED
        else { throw POSIXError(.EIO) }
        self.page = page
        put(speed, at: Field.speed)
        reboot()
        let thread = Thread { [weak self] in
            let watch = ThreadWatch()
            var number = 0
            while let self, !self.isStopped.load(ordering: .relaxed) {
                number += 1
                self.tick(number, watch)
            }
        }
        thread.stackSize = 256 * 1024
        thread.start()
    }

    deinit { munmap(page, 4096) }

    /// Ends the thread; the world's time stands still from then on.
    package func stop() { isStopped.store(true, ordering: .relaxed) }

    /// Environment of a program that lives in this time.
    package var variables: [String: String] {
        let library = GatewayProcess.program("libFastTime.so").path
        return ["LD_PRELOAD": library, "FAST_TIME": path]
    }

    // MARK: The truth

    private var nanoseconds: Int64 { world.load(ordering: .acquiring) }

    /// The true time.
    package var now: UTC { Self.epoch + .nanoseconds(nanoseconds) }
    /// The same for Foundation.
    package var date: Date {
        Date(timeIntervalSince1970: Double(now.microseconds) / 1e6)
    }
    /// Seconds since the world began.
    package var seconds: Double { Double(nanoseconds) / 1e9 }

    /// Waits until the world is so many seconds old, or until the task is cancelled.
    package func sleep(until second: Double) async {
        while seconds < second, !Task.isCancelled {
            try? await Task.sleep(for: hostPause(second - seconds))
        }
    }

    /// Waits for so much of the world's time, or until the task is cancelled.
    package func sleep(for duration: Duration) async {
        await sleep(until: seconds + duration / .seconds(1))
    }

    /// Blocks this thread for so much of the world's time.
    package func block(for duration: Duration) {
        let end = seconds + duration / .seconds(1)
        while seconds < end, !isStopped.load(ordering: .relaxed) {
            Thread.sleep(forTimeInterval: hostPause(end - seconds) / .seconds(1))
        }
    }

    /// How long so many seconds of the world take at least.
    private func hostPause(_ seconds: Double) -> Duration {
        max(.seconds(seconds / Double(speed)), Self.pollPause)
    }

    /// The true time when the machine had this uptime in this boot; nil for a boot that never was.
    package func truth(boot: String, uptime: Uptime) -> UTC? {
        state.withLock { state in
            guard let boot = state.boots.first(where: { $0.id == boot }) else { return nil }
            return Self.epoch + .nanoseconds(boot.began) + (uptime - .zero)
        }
    }

    /// When the gateway died, of each time, exact to a step: a task that looked would be late, by seconds of the
    /// world, on a busy host.
    package var deaths: [UTC] { state.withLock { $0.deaths } }

    /// The exchange's time, when it lives in this world.
    package var exchangeTime: ExchangeTime {
        ExchangeTime(
            now: { self.date },
            sleep: { await self.sleep(for: $0) })
    }

    // MARK: How time passes

    /// One step: a short sleep, then a wait for who is still at work.
    private func tick(_ number: Int, _ watch: ThreadWatch) {
        let began = Uptime.now()
        // Its turn comes after those that are ready to run.
        Task.detached {
            for _ in 1..<Self.turns { await Task.yield() }
            self.stepDone.store(number, ordering: .releasing)
        }
        Self.sleep(Self.step)
        let slept = Uptime.now()
        wait(atMost: Self.testPatience) { stepDone.load(ordering: .acquiring) < number }
        let isAtWork = {
            watch.hasThread(of: self.process, in: "RD")
                || self.helpers().contains { watch.hasThread(of: $0, in: "R") }
        }
        if !wait(atMost: Self.gatewayPatience, while: isAtWork) {
            wait(atMost: Self.diskPatience) { watch.hasThread(of: process, in: "D") }
        }
        noteDeath()
        // A little late is usual; more than that is a pause of the host, which the world skips.
        let next = nanoseconds + min(slept - began, Self.stepMax).microseconds * 1000 * speed
        // Nothing that the gateway sees may be earlier than what was noted here.
        page.storeBytes(of: next, toByteOffset: Field.world, as: Int64.self)
        world.store(next, ordering: .releasing)
    }

    private static func sleep(_ pause: Duration) { usleep(UInt32(pause.microseconds)) }

    /// Returns whether the work was done in time.
    @discardableResult
    private func wait(atMost patience: Duration, while isAtWork: () -> Bool) -> Bool {
        let end = Uptime.now() + patience
        while isAtWork() {
            guard Uptime.now() < end, !isStopped.load(ordering: .relaxed) else { return false }
            Self.sleep(Self.pollPause)
        }
        return true
    }

    private var process: pid_t { page.load(fromByteOffset: Field.process, as: pid_t.self) }

    private func noteDeath() {
        let process = process
        state.withLock { state in
            if let living = state.living, living != process || !Self.isAlive(living) {
                state.deaths.append(now)
                state.living = nil
                state.dead = living
            }
            if state.living == nil, process > 0, process != state.dead, Self.isAlive(process) {
                state.living = process
            }
        }
    }

    /// One that waits for its parent (Z), or is just going (X), is dead.
    private static func isAlive(_ process: pid_t) -> Bool {
        let file = open("/proc/\(process)/stat", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        return ThreadWatch.state(in: file).map { !"ZX".utf8.contains($0) } ?? false
    }

    // MARK: The machine's clocks

    /// The machine starts anew: another boot, an uptime of seconds. Only while the gateway is dead.
    package func reboot() {
        state.withLock { state in
            let start = nanoseconds - Self.bootTime.microseconds * 1000
            let id = "chaos-boot-\(state.boots.count + 1)"
            state.boots.append((id, start))
            put(start, at: Field.began)
            for (index, byte) in (id.utf8 + Array(repeating: 0, count: 40 - id.utf8.count))
                .enumerated()
            {
                put(byte, at: Field.bootID + index)
            }
            putWall(state)
        }
    }

    /// How wrong the wall clock is while the kernel calls it synchronised.
    package func step(by wrong: Duration) {
        state.withLock { state in
            guard state.troubles == 0 else { return }
            state.wrong = wrong
            putWall(state)
        }
    }

    /// Nothing disciplines the wall clock any more, and it is wrong by so much.
    package func loseWall(by wrong: Duration) {
        state.withLock { state in
            state.troubles += 1
            put(Int32(0), at: Field.synchronised)
            state.wrong = wrong
            putWall(state)
        }
    }

    /// Ends one ``loseWall(by:)``; with the last of them the clock is right again and synchronised.
    package func regainWall() {
        state.withLock { state in
            state.troubles -= 1
            guard state.troubles == 0 else { return }
            state.wrong = .zero
            putWall(state)
            put(Int32(1), at: Field.synchronised)
        }
    }

    /// Leads connections from one port of 127.0.0.1 to another.
    package func lead(port: Int, to other: Int) {
        put(UInt16(other), at: Field.portTo)
        put(UInt16(port), at: Field.portFrom)
    }

    /// Begins with a clock that is right.
    package func setSynchronised() { put(Int32(1), at: Field.synchronised) }

    private func putWall(_ state: borrowing State) {
        guard let boot = state.boots.last else { return }
        put((Self.epoch + state.wrong).microseconds * 1000 + boot.began, at: Field.wall)
    }

    private func put<Value: BitwiseCopyable>(_ value: Value, at offset: Int) {
        page.storeBytes(of: value, toByteOffset: offset, as: Value.self)
    }
}
