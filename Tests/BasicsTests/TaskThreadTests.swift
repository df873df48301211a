import Foundation
import Glibc
import Synchronization
import Testing

@testable import Basics

@Suite struct TaskThreadTests {
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
                    await thread.clock.sleep(.milliseconds(milliseconds))
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
                    await thread.clock.sleep(
                        .milliseconds(due), tolerance: .milliseconds(tolerance))
                    ends.add(.now)
                }
            }
        }
        #expect(ends.all.allSatisfy { $0 - began < .seconds(10) })
    }

    @Test func aThreadEndsWithItsExecutor() async {
        await Task(executorPreference: TaskThread(label: "ends")) {
            #expect(Self.isRunning("ends"))
        }.value
        let until = ContinuousClock.now + .seconds(30)
        while Self.isRunning("ends"), .now < until { await Task.yield() }
        #expect(!Self.isRunning("ends"))
    }

    private static func isRunning(_ label: String) -> Bool {
        let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
        return (threads ?? []).contains {
            let name = try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
            return name == label + "\n"
        }
    }

    @Test func aSleepEndsWithItsTask() async {
        let clock = TaskThread(label: "cancelled").clock
        for isEarly in [true, false] {
            let task = Task { await clock.sleep(.seconds(600)) }
            if !isEarly { try? await Task.sleep(for: .milliseconds(5)) }
            task.cancel()
            await task.value
        }
    }

    /// With stacks of 8 MiB the gateway once had 14 MiB of its own instead of 6, by where they happened to lie.
    @Test func noStackCanHoldAHugePage() async throws {
        let bytes = await OwnThread.value("stack") {
            var local = 0
            let address = withUnsafePointer(to: &local) { UInt(bitPattern: $0) }
            return Self.bytesMapped(around: address)
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
                    if number % 10 == 0 {
                        await threads[number % 2].clock.sleep(.microseconds(number))
                    }
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
    private let thread = TaskThread(label: "counter")
    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }
    private(set) var count = 0

    func add() { count += 1 }
}

private final class Seen<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])
    var all: [Element] { elements.withLock { $0 } }

    func add(_ element: Element) { elements.withLock { $0.append(element) } }
}
