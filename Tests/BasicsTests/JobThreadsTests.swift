import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Basics

@Suite struct JobThreadsTests {
    @Test func tasksOfOneThreadRunInTheOrderInWhichTheyWereMade() async {
        let thread = TaskThread(label: "order")
        let seen = Seen<Int>()
        let tasks = (0..<1_000).map { number in
            Task(executorPreference: thread) { seen.add(number) }
        }
        for task in tasks { await task.value }
        #expect(seen.all == Array(0..<1_000))
    }

    @Test func whatSleepsLongerEndsLater() async {
        let thread = TaskThread(label: "timers")
        let seen = Seen<Int>()
        await withTaskGroup { group in
            for milliseconds in [30, 10, 20] {
                group.addTask(executorPreference: thread) {
                    let began = ContinuousClock.now
                    try? await Task.sleep(for: .milliseconds(milliseconds))
                    #expect(ContinuousClock.now - began >= .milliseconds(milliseconds))
                    seen.add(milliseconds)
                }
            }
        }
        #expect(seen.all == [10, 20, 30])
    }

    @Test func whatMaySleepLongerEndsWithAnother() async {
        let thread = TaskThread(label: "tolerance")
        let ends = Seen<ContinuousClock.Instant>()
        let began = ContinuousClock.now
        await withTaskGroup { group in
            for (due, tolerance) in [(5, 10_000), (40, 0)] {
                group.addTask(executorPreference: thread) {
                    try? await Task.sleep(
                        for: .milliseconds(due), tolerance: .milliseconds(tolerance))
                    ends.add(.now)
                }
            }
        }
        #expect(ends.all.allSatisfy { $0 - began < .seconds(10) })
    }

    @Test func twoThatWaitForEachOtherRunAtTheSameTime() {
        let threads = JobThreads(label: "both", threadsMax: 2)
        defer { threads.end() }
        let runner = Runner(threads)
        let (first, second) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let ended = DispatchSemaphore(value: 0)
        runner.start {
            second.signal()
            first.wait()
            ended.signal()
        }
        runner.start {
            first.signal()
            second.wait()
            ended.signal()
        }
        for _ in 1...2 { #expect(ended.wait(timeout: .now() + 30) == .success) }
    }

    @Test func whatAJobLeavesToItsThreadRunsThoughTheJobNeverEnds() {
        let threads = JobThreads(label: "left", threadsMax: 2, lookPause: .milliseconds(20))
        defer { threads.end() }
        let runner = Runner(threads)
        let (left, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        runner.start {
            runner.start { left.signal() }
            left.wait()
            ended.signal()
        }
        #expect(ended.wait(timeout: .now() + 30) == .success)
    }

    @Test func aTimerEndsThoughTheThreadThatWaitedForItIsBusy() {
        let threads = JobThreads(label: "late", threadsMax: 2, lookPause: .milliseconds(20))
        defer { threads.end() }
        let runner = Runner(threads)
        let (late, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        runner.start(after: .milliseconds(30)) { late.signal() }
        runner.start {
            late.wait()
            ended.signal()
        }
        #expect(ended.wait(timeout: .now() + 30) == .success)
    }

    @Test func threadsEndWithTheirExecutor() async {
        weak var threads: JobThreads?
        do {
            let begun = JobThreads(label: "ends", threadsMax: 1)
            threads = begun
            await Task(executorPreference: TaskThread(begun)) {}.value
        }
        let until = ContinuousClock.now + .seconds(30)
        while threads != nil, .now < until { await Task.yield() }
        #expect(threads == nil)
    }

    /// With stacks of 8 MiB the gateway once had 14 MiB of its own instead of 6, by where they happened to lie.
    @Test func noStackCanHoldAHugePage() async throws {
        let bytes = await withCheckedContinuation { continuation in
            let started = OwnThread.start("stack") {
                var local = 0
                let address = withUnsafePointer(to: &local) { UInt(bitPattern: $0) }
                continuation.resume(returning: Self.bytesMapped(around: address))
            }
            if case .failure = started { continuation.resume(returning: nil) }
        }
        #expect(try #require(bytes) < 2 << 20)
    }

    private static func bytesMapped(around address: UInt) -> UInt? {
        guard let file = fopen("/proc/self/maps", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, 512, file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
            let ends = text.prefix { $0 != " " }.split(separator: "-")
                .compactMap { UInt($0, radix: 16) }
            if ends.count == 2, ends[0]..<ends[1] ~= address { return ends[1] - ends[0] }
        }
        return nil
    }

    @Test func nothingIsLostBetweenManyThreads() async {
        let threads = [TaskThread(label: "many-1"), TaskThread(label: "many-2")]
        let counter = Counter()
        await withTaskGroup { group in
            for number in 0..<2_000 {
                group.addTask(executorPreference: threads[number % 2]) {
                    if number % 10 == 0 { try? await Task.sleep(for: .microseconds(number)) }
                    await counter.add()
                    await Task.yield()
                    await counter.add()
                }
            }
        }
        #expect(await counter.count == 4_000)
    }
}

/// An actor with a thread of its own.
private actor Counter {
    private let thread = SerialThread(label: "counter")
    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }
    private(set) var count = 0

    func add() { count += 1 }
}

private final class Seen<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])
    var all: [Element] { elements.withLock { $0 } }

    func add(_ element: Element) { elements.withLock { $0.append(element) } }
}

/// Starts bodies as jobs of threads.
private final class Runner: TaskExecutor, JobRunner {
    private let threads: JobThreads

    init(_ threads: JobThreads) { self.threads = threads }

    func start(after pause: Duration? = nil, _ body: @escaping @Sendable () -> Void) {
        if let pause { return Later(threads, pause).start(body) }
        Task(executorPreference: self) { body() }
    }

    func enqueue(_ job: consuming ExecutorJob) { threads.run(UnownedJob(job), by: self) }

    func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }

    /// Has its tasks begin later.
    private final class Later: TaskExecutor {
        private let threads: JobThreads
        private let pause: Duration

        init(_ threads: JobThreads, _ pause: Duration) {
            (self.threads, self.pause) = (threads, pause)
        }

        func start(_ body: @escaping @Sendable () -> Void) {
            Task(executorPreference: self) { body() }
        }

        func enqueue(_ job: consuming ExecutorJob) {
            threads.run(UnownedJob(job), at: .now() + pause, tolerance: .zero)
        }
    }
}
