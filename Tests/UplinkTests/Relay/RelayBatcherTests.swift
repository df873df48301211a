import Basics
import Testing

@testable import Uplink

@Suite struct RelayBatcherTests {
    private static func job(
        _ id: Int, _ gateway: String, points: Int = 30, alone: Bool = false,
        at received: Uptime = .zero
    ) -> RelayBatcher.Job {
        RelayBatcher.Job(
            id: id, gateway: gateway, points: points, isAlone: alone, received: received,
            latest: RelayPatience.latestBegin(received, patience: .seconds(60)))
    }

    private static func sent(_ step: RelayBatcher.Step) -> [Int]? {
        if case .send(let jobs) = step { jobs.map(\.id) } else { nil }
    }

    @Test func requestsOfSeveralGatewaysFillABundle() {
        var batcher = RelayBatcher(workers: 1)
        for id in 0..<3 { #expect(batcher.admit(Self.job(id, "g\(id)"), .zero) == .waits) }
        #expect(batcher.next(.zero) == .wait(until: .zero + RelayBatcher.gather))
        #expect(batcher.admit(Self.job(3, "g3"), .zero) == .waits)
        #expect(Self.sent(batcher.next(.zero)) == [0, 1, 2], "a fourth does not fit")
        #expect(Self.sent(batcher.next(.seconds(1))) == nil, "the only worker is busy")
    }

    @Test func aBundleThatIsNotFullWaitsAMoment() {
        var batcher = RelayBatcher(workers: 1)
        _ = batcher.admit(Self.job(0, "a", at: .seconds(1)), .seconds(1))
        let due = Uptime.seconds(1) + RelayBatcher.gather
        #expect(batcher.next(.seconds(1)) == .wait(until: due))
        #expect(Self.sent(batcher.next(due)) == [0])
        #expect(batcher.waitingCount == 0 && batcher.busyCount == 1)
    }

    @Test func ofAGatewayOneRequestIsUnderWayAtATime() {
        var batcher = RelayBatcher(workers: 2)
        let first = Self.job(0, "a", points: 100)
        _ = batcher.admit(first, .zero)
        _ = batcher.admit(Self.job(1, "a", points: 100), .zero)
        #expect(Self.sent(batcher.next(.zero)) == [0])
        #expect(Self.sent(batcher.next(.seconds(2))) == nil)
        batcher.finished([first], took: .seconds(1))
        #expect(Self.sent(batcher.next(.seconds(2))) == [1])
    }

    @Test func twoRequestsOfAGatewayAreNeverInOneBundle() {
        var batcher = RelayBatcher(workers: 1)
        for id in 0..<3 { _ = batcher.admit(Self.job(id, id == 2 ? "b" : "a", points: 10), .zero) }
        #expect(Self.sent(batcher.next(.seconds(1))) == [0, 2])
    }

    @Test func whatIsToBeAloneIsAlone() {
        var batcher = RelayBatcher(workers: 2)
        _ = batcher.admit(Self.job(0, "a", points: 10), .zero)
        _ = batcher.admit(Self.job(1, "b", points: 1, alone: true), .zero)
        _ = batcher.admit(Self.job(2, "c", points: 10), .zero)
        #expect(Self.sent(batcher.next(.seconds(1))) == [0, 2])
        #expect(Self.sent(batcher.next(.zero)) == [1], "and waits for nobody")
    }

    @Test func whoWouldWaitTooLongIsTurnedAway() {
        var batcher = RelayBatcher(workers: 1)
        // At a second a bundle: 15 s of work.
        var admitted = 0
        for id in 0..<40 {
            if batcher.admit(Self.job(id, "g\(id)", points: 100), .zero) == .waits { admitted += 1 }
            _ = batcher.next(.zero)
        }
        #expect(admitted == 16)
        guard case .busy(let pause) = batcher.admit(Self.job(99, "z", points: 100), .zero) else {
            Issue.record("it was taken")
            return
        }
        #expect(RelayBatcher.retryRange.contains(pause))
    }

    @Test func oneGatewayCannotTakeTheTimeOfTheOthers() {
        var batcher = RelayBatcher(workers: 1)
        let first = Self.job(0, "a", points: 1)
        _ = batcher.admit(first, .zero)
        _ = batcher.next(.seconds(1))
        let admitted = (1...1_000).count { id in
            batcher.admit(Self.job(id, "a", points: 1), .zero) == .waits
        }
        #expect(admitted == RelayBatcher.perGatewayMax)
        #expect(batcher.admit(Self.job(2_000, "b"), .zero) == .waits)
    }

    @Test func aSlowExchangeIsNoticed() {
        var batcher = RelayBatcher(workers: 1)
        for id in 0..<30 {
            let job = Self.job(id, "a", points: 100)
            _ = batcher.admit(job, .zero)
            _ = batcher.next(.zero)
            batcher.finished([job], took: .seconds(10))
        }
        #expect(batcher.bundleTime > .seconds(9))
        var admitted = 0
        for id in 0..<10 {
            if batcher.admit(Self.job(id, "g\(id)", points: 100), .zero) == .waits { admitted += 1 }
            _ = batcher.next(.zero)
        }
        #expect(admitted == 2)
    }

    @Test func whatIsTooOldIsDropped() {
        var batcher = RelayBatcher(workers: 1)
        let young = Self.job(1, "b", points: 1, at: .seconds(5))
        _ = batcher.admit(Self.job(0, "a", points: 100), .zero)
        _ = batcher.next(.zero)
        _ = batcher.admit(Self.job(2, "c"), .zero)
        _ = batcher.admit(young, .seconds(5))
        #expect(batcher.expired(.seconds(15)).isEmpty)
        #expect(batcher.expired(.seconds(16)).map(\.id) == [2])
        #expect(batcher.next(.seconds(16)) == .wait(until: young.latest))
        #expect(batcher.drain() == [young])
    }

    @Test func timesKeepTwoRequestsWithTheSameSamplesApart() {
        // The latest begin, and the longest work, are over before anybody sends the samples again.
        for patience in [1, 6, 60, 600] as [Int64] {
            let begin = RelayPatience.latestBegin(.zero, patience: .seconds(patience))
            #expect(begin + RelayPatience.workMax <= .zero + RelayPatience.resendPause)
            #expect(begin <= .seconds(patience), "and before its gateway gives up")
        }
    }

    /// Each request is sent once or turned away, no bundle is too large, and no gateway is in flight twice.
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func everyRequestHasOneEnd(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let workers = Int.random(in: 1...4, using: &random)
        var batcher = RelayBatcher(workers: workers)
        var now = Uptime.zero
        var ends: [Int: Int] = [:]
        var flights: [[RelayBatcher.Job]] = []
        func end(_ jobs: [RelayBatcher.Job]) { for job in jobs { ends[job.id, default: 0] += 1 } }
        for id in 0..<2_000 {
            now += .milliseconds(Int.random(in: 0...400, using: &random))
            let points = Int.random(in: 1...100, using: &random)
            let job = RelayBatcher.Job(
                id: id, gateway: "g\(Int.random(in: 0..<20, using: &random))", points: points,
                isAlone: points == 1, received: now,
                latest: RelayPatience.latestBegin(now, patience: .seconds(60)))
            if batcher.admit(job, now) != .waits { end([job]) }
            end(batcher.expired(now))
            while case .send(let bundle) = batcher.next(now) {
                #expect(bundle.reduce(0) { $0 + $1.points } <= 100)
                #expect(bundle.count == 1 || bundle.allSatisfy { !$0.isAlone })
                #expect(bundle.allSatisfy { $0.latest >= now })
                flights.append(bundle)
                let gateways = flights.flatMap { $0.map(\.gateway) }
                #expect(Set(gateways).count == gateways.count && flights.count <= workers)
            }
            if !flights.isEmpty, Bool.random(using: &random) {
                let bundle = flights.remove(at: Int.random(in: 0..<flights.count, using: &random))
                end(bundle)
                batcher.finished(
                    bundle, took: .milliseconds(Int.random(in: 50...3_000, using: &random)))
            }
        }
        for bundle in flights { end(bundle) }
        end(batcher.drain())
        #expect(ends.count == 2_000 && ends.values.allSatisfy { $0 == 1 })
    }
}

@Suite struct RelayBisectionTests {
    /// Sends until all is done; the bad ones fail every bundle they are in.
    private static func run(
        _ requests: [Int], bad: Set<Int>
    ) -> (sent: Int, failed: [Int], passed: [Int]) {
        var bisection = RelayBisection(requests)
        var outcome = (sent: 0, failed: [Int](), passed: [Int]())
        while let part = bisection.next {
            outcome.sent += 1
            let fails = !bad.isDisjoint(with: part)
            let settled = bisection.answered(isToBeHalved: fails)
            if fails { outcome.failed += settled } else { outcome.passed += settled }
        }
        return outcome
    }

    @Test func oneBadRequestIsFoundAndTheOthersGoThrough() {
        let outcome = Self.run(Array(0..<8), bad: [5])
        #expect(outcome.failed == [5] && outcome.passed.sorted() == [0, 1, 2, 3, 4, 6, 7])
        #expect(outcome.sent == 7)
    }

    @Test func aBundleThatGoesThroughIsSentOnce() {
        #expect(Self.run(Array(0..<8), bad: []).sent == 1)
        #expect(Self.run([], bad: []).sent == 0)
        #expect(Self.run([3], bad: [3]).failed == [3])
    }

    @Test func whenAllAreBadEachFailsByItself() {
        let outcome = Self.run(Array(0..<7), bad: Set(0..<7))
        #expect(outcome.failed.sorted() == Array(0..<7) && outcome.sent == 13)
    }

    @Test func whatIsLateIsTakenOut() {
        var bisection = RelayBisection(Array(0..<6))
        #expect(bisection.answered(isToBeHalved: true).isEmpty)
        #expect(bisection.drop { $0 % 2 == 0 }.sorted() == [0, 2, 4])
        #expect(bisection.next == [1])
        #expect(bisection.answered(isToBeHalved: false) == [1])
        #expect(bisection.answered(isToBeHalved: false) == [3, 5])
        #expect(bisection.next == nil)
    }
}

@Suite struct RelayTableTests {
    @Test func aTableSaysWhoMayWriteForWhom() throws {
        let table = try RelayTable(
            """
            # gateway   patient
            ward3-07    40001   # bed 7
            ward3-07\t40002

            ward3-08    40001\r
            """)
        #expect(table.allows("ward3-07", "40002") && table.allows("ward3-08", "40001"))
        #expect(!table.allows("ward3-08", "40002") && !table.allows("ward3-09", "40001"))
        #expect(table.allows("ward3-07", "40001") && table.count == 3)
        #expect(!RelayTable().allows("ward3-07", "40001"))
    }

    /// A table that begins with a comment was read as one line, and let nobody write any more.
    @Test func aTableWithTheLineEndsOfWindowsIsReadLineByLine() throws {
        let table = try RelayTable("# gateway  patient\r\nward3-07  40001  # bed 7\r\n\r\nb 2\r\n")
        #expect(table.allows("ward3-07", "40001") && table.allows("b", "2") && table.count == 2)
        #expect(RelayTable.read("# no\r\nward/3 1\r\nb\r\n").faults.map(\.line) == [2, 3])
    }

    @Test(
        arguments: [
            ("a", 1), ("\na b c", 2), ("ward.3 40001", 1), ("* 40001", 1), ("a 4/1", 1),
            ("a 4OOO1", 1), ("a 040001", 1), ("a 40001\n> 1", 2),
        ])
    func aLineThatIsNoPairIsNamed(text: String, line: Int) {
        #expect {
            _ = try RelayTable(text)
        } throws: {
            ($0 as? RelayTable.Fault)?.line == line
        }
    }
}
