import Synchronization
import Testing

@testable import EdgeGateway

@Suite struct KeepRunningTests {
    private struct Broken: Error {}

    private final class Log: Sendable {
        private let state = Mutex<[String]>([])
        var lines: [String] { state.withLock { $0 } }
        func add(_ line: String) { state.withLock { $0.append(line) } }
    }

    @Test func aPartThatThrowsOrReturnsIsReportedAndStartedAgainWithGrowingPauses() async {
        let log = Log()
        let clock = ImmediateClock()
        let task = Task {
            var runs = 0
            await KeepRunning.keepRunning(
                clock: clock.uptime,
                {
                    runs += 1
                    log.add("run")
                    if runs == 1 { throw Broken() }
                    if runs == 8 { withUnsafeCurrentTask { $0?.cancel() } }
                },
                report: { fault in log.add(fault.map { "\($0)" } ?? "again") })
        }
        await task.value
        let expected =
            ["run", "Broken()", "again"]
            + Array(repeating: ["run", "it ended without an error", "again"], count: 6).joined()
            + ["run"]
        #expect(log.lines == expected)
        #expect(clock.slept == [1, 2, 4, 8, 16, 30, 30].map { .seconds($0) })
    }

    @Test func changesAreMadeOneAtATimeInTheirOrder() async {
        let changes = OneAtATime()
        let order = Log()
        let second = await changes.run {
            let second = Task { await changes.run { order.add("second") } }
            await Task.yield()
            order.add("first")
            return second
        }
        await second.value
        await changes.run { #expect(order.lines == ["first", "second"]) }
    }

    @Test func aChangeThatFailsLetsTheNextOneIn() async {
        let changes = OneAtATime()
        await #expect(throws: Broken.self) { try await changes.run { throw Broken() } }
        #expect(await changes.run { true })
    }
}
