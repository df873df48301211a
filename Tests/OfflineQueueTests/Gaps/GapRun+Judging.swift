import Basics
import Testing

@testable import OfflineQueue

extension GapRun {
    func agrees(_ comment: String) async throws -> Bool {
        for (assignment, line) in lines.sorted(by: { $0.key < $1.key }) {
            var expected = line.past
            var openCount = 0
            if line.run != nil {
                let gaps = try gaps(
                    of: assignment, until: now, waiting: await queue.health().buffered)
                openCount = gaps.last?.until == now ? 1 : 0
                expected += gaps
            }
            let gaps = try await queue.gaps(assignment: assignment, limit: 100_000)
            let found = gaps.map {
                Expected(
                    cause: $0.cause, fromBoot: $0.fromBootID, from: $0.fromUptime.microseconds,
                    untilBoot: $0.untilBootID, until: $0.untilUptime.microseconds)
            }
            expected = expected.enumerated().map { index, gap in
                judged(gap, found: index < found.count ? found[index].cause : nil)
            }
            guard found == expected else {
                let index = zip(found, expected).prefix { $0 == $1 }.count
                Issue.record(
                    """
                    \(comment), assignment \(assignment), gap \(index) of \(found.count): \
                    \(found.dropFirst(index).prefix(3)) instead of \
                    \(expected.dropFirst(index).prefix(3))
                    """)
                return false
            }
            #expect(gaps.count(where: \.isOpen) == openCount, "\(comment)")
        }
        return true
    }

    /// Whether the time between two boots can be told. Where a clock stepped within a boot, either answer is right.
    private func judged(_ gap: Expected, found: GapCause?) -> Expected {
        guard gap.fromBoot != gap.untilBoot else { return gap }
        let untils = offsets[gap.untilBoot, default: []]
        let orders = offsets[gap.fromBoot, default: []].flatMap { from in
            untils.map { gap.until + $0 >= gap.from + from }
        }
        let isTold =
            Set(orders).count > 1 ? found != .clockUnknown : orders.first ?? false
        var gap = gap
        if !isTold { gap.cause = .clockUnknown }
        return gap
    }

    /// Each day adds up; all days together are the assignment's length, and what they say is covered is
    /// what is in no gap, if the clocks of its boots are known and in order.
    func checkCoverage() async throws {
        try await checkCoverageOfAll()
        for (assignment, line) in lines {
            var expected = 0.0
            var covered = 0.0
            for day in -3..<10 as Range<Int64> {
                let coverage = try await queue.coverage(
                    of: .assignment(assignment),
                    dayStartingAt: ManualClock.midnight + Coverage.day * Int(day))
                let gaps = coverage.secondsByCause.values.reduce(0, +)
                #expect(abs(gaps + coverage.coveredSeconds - coverage.expectedSeconds) < 1e-3)
                #expect(coverage.expectedSeconds <= 86_400)
                #expect(coverage.longestGapSeconds <= gaps + 1e-3)
                expected += coverage.expectedSeconds
                covered += coverage.coveredSeconds
            }
            let gaps = try await queue.gaps(assignment: assignment, limit: 100_000)
            let end = line.end ?? Instant(boot: Int64(boot), uptime: clock.read().uptime)
            let froms = offsets["boot-\(line.begin.boot)", default: []]
            let untils = offsets["boot-\(end.boot)", default: []]
            guard froms.count == 1, untils.count == 1, let from = froms.first,
                let until = untils.first, !gaps.contains(where: { $0.duration == nil })
            else { continue }
            let length =
                Double(
                    end.uptime.microseconds + until - line.begin.uptime.microseconds - from) / 1e6
            let sum = gaps.reduce(0) { $0 + ($1.duration ?? .zero).inSeconds }
            #expect(abs(expected - length) < 1e-3 && abs(covered - (length - sum)) < 1e-3)
        }
    }

    /// What is counted of all sensors at once is what is counted of each.
    private func checkCoverageOfAll() async throws {
        let sensors = try await queue.sensors(includingForgotten: true).map(\.id)
        for day in -1..<4 as Range<Int64> {
            let start = ManualClock.midnight + Coverage.day * Int(day)
            let all = try await queue.coverages(dayStartingAt: start)
            for sensor in sensors {
                let one = try await queue.coverage(of: .sensor(sensor), dayStartingAt: start)
                #expect(all[sensor] ?? Coverage(dayStart: start) == one)
            }
        }
    }
}
