import Basics
import Foundation
import Testing

@testable import Health

/// What somebody is told, and when, in simulated time.
@Suite struct AlertScheduleTests {
    /// A gateway that looks each 13 s, and a receiver that takes messages or does not.
    private struct Simulation {
        var now = Uptime.zero + .seconds(10_000)
        var schedule: AlertSchedule
        var present: [AlertSchedule.Seen] = []
        /// What the looks leave out.
        var unjudged = Unjudged()
        /// Whether the receiver answers.
        var isReachable = true
        /// What arrived, and when.
        var messages: [(at: Uptime, news: AlertNews)] = []
        var attempts = 0

        init(_ patience: AlertSchedule.Patience = AlertSchedule.Patience()) {
            // Long after its start.
            schedule = AlertSchedule(patience)
            schedule.look([], at: .zero)
        }

        mutating func begin(_ name: HealthName, _ subject: String = "", strap: Int64? = nil) {
            present.append(
                AlertSchedule.Seen(name: name, subject: subject, strap: strap, began: now))
        }

        mutating func end(_ name: HealthName, _ subject: String = "") {
            present.removeAll { $0.name == name && $0.subject == subject }
        }

        mutating func run(_ time: Duration) {
            let end = now + time
            while now < end {
                schedule.look(present, unjudged: unjudged, at: now)
                if let news = schedule.next(at: now) {
                    attempts += 1
                    if isReachable {
                        messages.append((now, news))
                        schedule.sent(at: now)
                    } else {
                        schedule.failed(at: now)
                    }
                }
                now += .seconds(13)
            }
        }

        /// The daemon begins anew, with what its file has; its rules know nothing yet for so long.
        mutating func restart(blindFor time: Duration = .zero) throws {
            let data = try JSONEncoder().encode(schedule.kept(at: now))
            let state = try JSONDecoder().decode(AlertSchedule.State.self, from: data)
            schedule = AlertSchedule(schedule.patience, state: state)
            let before = present
            present = []
            run(time)
            // Each begins anew, as far as this run knows.
            present = before.map {
                AlertSchedule.Seen(
                    name: $0.name, subject: $0.subject, strap: $0.strap, began: now)
            }
        }

        /// Raised, still and over, by name.
        var said: [String] {
            messages.map { message in
                (message.news.raised.map { "+\($0.name.rawValue)" }
                    + message.news.still.map { "=\($0.name.rawValue)" }
                    + message.news.over.map { "-\($0.name.rawValue)" }).joined(separator: " ")
            }
        }
    }

    private static let minute = Duration.seconds(60)
    private static let hour = Duration.seconds(3_600)
    private static let day = Duration.seconds(86_400)

    @Test func anErrorThatLastsIsSaidOnceAndItsEndOnce() throws {
        var world = Simulation()
        world.run(Self.minute)
        let began = world.now
        world.begin(.noAdapter)
        world.run(Self.minute * 4)
        #expect(world.said.isEmpty)
        world.run(Self.minute * 2)
        #expect(world.said == ["+no-adapter"])
        try #require(world.messages.count > 0)
        #expect(world.messages[0].at - began <= Self.minute * 5 + .seconds(13))
        #expect(world.messages[0].news.raised[0].since == began)
        world.run(Self.hour * 5)
        #expect(world.said == ["+no-adapter"])
        let ended = world.now
        world.end(.noAdapter)
        world.run(Self.hour)
        #expect(world.said == ["+no-adapter", "-no-adapter"])
        try #require(world.messages.count > 1)
        #expect(world.messages[1].news.over[0].until == ended)
        world.run(Self.day * 3)
        #expect(world.said.count == 2)
    }

    @Test func aWarningIsSaidAfterAnHour() throws {
        var world = Simulation()
        world.begin(.batteryLow, "1", strap: 1)
        world.run(Self.minute * 58)
        #expect(world.said.isEmpty)
        world.run(Self.minute * 3)
        #expect(world.said == ["+battery-low"])
        try #require(world.messages.count > 0)
        #expect(world.messages[0].news.raised[0].strap == 1)
    }

    @Test func whatPassesByItselfIsNotSaid() throws {
        var world = Simulation()
        for _ in 0..<20 {
            world.begin(.strapSilent, "1", strap: 1)
            world.run(Self.minute * 4)
            world.end(.strapSilent, "1")
            world.run(Self.minute * 4)
        }
        #expect(world.said.isEmpty)
        #expect(world.schedule.state == AlertSchedule.State())
    }

    @Test func aStormIsOneMessage() throws {
        var world = Simulation()
        for strap in 1...40 { world.begin(.strapSilent, "\(strap)", strap: Int64(strap)) }
        world.run(.seconds(39))
        world.begin(.storeUnwritable)
        world.begin(.exchangeUnreachable, "e1")
        world.run(Self.hour)
        // What becomes due within a minute goes along.
        #expect(world.messages.count == 1)
        try #require(world.messages.count > 0)
        #expect(world.messages[0].news.raised.count == 42)
        world.present = []
        world.run(Self.hour)
        #expect(world.messages.count == 2)
        try #require(world.messages.count > 1)
        #expect(world.messages[1].news.over.count == 42)
    }

    @Test func anHourHasSixMessagesAndTheRestSharesTheNext() throws {
        var world = Simulation()
        for strap in 1...25 {
            world.begin(.strapSilent, "\(strap)", strap: Int64(strap))
            world.run(Self.minute * 2)
        }
        world.run(Self.minute * 6)
        #expect(world.messages.count == 6)
        world.run(Self.hour)
        #expect(world.messages.count == 7)
        #expect(world.messages.flatMap { $0.news.raised }.count == 25)
        try #require(world.messages.count > 6)
        #expect(world.messages[6].news.raised.count == 19)
        for index in 6..<world.messages.count {
            #expect(world.messages[index].at - world.messages[index - 6].at >= Self.hour)
        }
    }

    @Test func whatComesAndGoesAllDayIsSaidAFewTimes() throws {
        var world = Simulation()
        for _ in 0..<72 {
            world.begin(.strapSilent, "1", strap: 1)
            world.run(Self.minute * 10)
            world.end(.strapSilent, "1")
            world.run(Self.minute * 10)
        }
        #expect((1...6).contains(world.messages.count), "\(world.said)")
        world.run(Self.day)
        #expect(world.said.last == "-strap-silent")
    }

    @Test func anItemThatLastsIsSaidAgainEachDay() throws {
        var world = Simulation()
        world.begin(.noAdapter)
        world.run(Self.hour)
        world.begin(.notEnrolled)
        world.run(Self.day * 3)
        // One reminder a day for all of them.
        #expect(
            world.said == ["+no-adapter", "+not-enrolled"]
                + Array(repeating: "=no-adapter =not-enrolled", count: 3), "\(world.said)")
        let apart = zip(world.messages.dropFirst(2), world.messages.dropFirst(3)).map {
            $1.at - $0.at
        }
        #expect(apart.allSatisfy { $0 >= Self.day && $0 < Self.day + Self.minute })
    }

    @Test func nothingIsSaidAgainAfterARestart() throws {
        var world = Simulation()
        world.begin(.noAdapter)
        world.begin(.fallingBehind, "e1")
        world.run(Self.hour * 2)
        #expect(world.said == ["+no-adapter", "+falling-behind"])
        for _ in 0..<5 {
            // The rules find the one again at once, a backlog that grows only after an hour.
            try world.restart(blindFor: Self.minute)
            let growing = world.present.filter { $0.name == .fallingBehind }
            world.end(.fallingBehind, "e1")
            world.run(Self.minute * 65)
            world.present += growing
            world.run(Self.minute * 30)
        }
        #expect(world.said == ["+no-adapter", "+falling-behind"], "\(world.said)")
        world.present = []
        world.run(Self.hour)
        #expect(world.messages.flatMap { $0.news.over }.count == 2)
    }

    @Test func whatHeldDuringARestartLastsOn() throws {
        var world = Simulation()
        // It is ended every four minutes, and would never be said otherwise.
        world.begin(.storeUnwritable)
        for _ in 0..<2 {
            world.run(Self.minute * 3)
            try world.restart(blindFor: .seconds(26))
        }
        #expect(world.messages.count == 1, "\(world.said)")
    }

    @Test func whatIsOverAfterARestartIsSaidToBe() throws {
        var world = Simulation()
        world.begin(.noAdapter)
        world.run(Self.hour)
        try world.restart()
        world.present = []
        world.run(Self.minute * 19)
        #expect(world.said == ["+no-adapter"])
        world.run(Self.minute * 3)
        #expect(world.said == ["+no-adapter", "-no-adapter"])
    }

    @Test func whatCannotBeSentWaitsAndIsLate() throws {
        var world = Simulation()
        world.isReachable = false
        world.begin(.exchangeUnreachable, "e1")
        world.run(Self.hour)
        world.begin(.strapSilent, "1", strap: 1)
        world.run(Self.hour)
        world.end(.strapSilent, "1")
        world.run(Self.hour * 3)
        #expect(world.messages.isEmpty)
        // Not each 13 s: pauses grow to a quarter of an hour.
        #expect((15...30).contains(world.attempts), "\(world.attempts)")
        let time = world.schedule.undeliveredTime(at: world.now)
        #expect(time.map { $0 > Self.hour * 4 } == true)
        world.isReachable = true
        world.run(Self.hour)
        // The one that waited, and then in one more what came and went meanwhile.
        #expect(world.said == ["+exchange-unreachable", "-strap-silent"])
        try #require(world.messages.count > 0)
        #expect(world.messages[0].news.lateTime(at: world.messages[0].at) != nil)
        try #require(world.messages.count > 1)
        #expect(world.messages[1].news.over[0].until != nil)
        #expect(world.schedule.undeliveredTime(at: world.now) == nil)
    }

    @Test func aMessageThatWaitsIsTheSameAfterARestart() throws {
        var world = Simulation()
        world.isReachable = false
        world.begin(.noAdapter)
        world.run(Self.minute * 10)
        let waiting = try #require(world.schedule.state.outgoing)
        try world.restart()
        #expect(world.schedule.state.outgoing == waiting)
        world.isReachable = true
        world.run(Self.hour)
        #expect(world.messages.map(\.news) == [waiting])
    }

    @Test func aServerThatAsksForTimeGetsIt() throws {
        var world = Simulation()
        world.begin(.noAdapter)
        world.run(Self.minute * 4)
        world.now += Self.minute
        world.schedule.look(world.present, at: world.now)
        #expect(world.schedule.next(at: world.now) != nil)
        world.schedule.failed(at: world.now, retryAfter: Self.minute * 20)
        #expect(world.schedule.next(at: world.now + Self.minute * 19) == nil)
        #expect(world.schedule.next(at: world.now + Self.minute * 20) != nil)
        // Not for ever, and not into the past.
        world.schedule.failed(at: world.now, retryAfter: .seconds(Int64.max))
        #expect(world.schedule.next(at: world.now + Self.hour) != nil)
        world.schedule.failed(at: world.now, retryAfter: .seconds(-5))
        #expect(world.schedule.next(at: world.now + .seconds(29)) == nil)
    }

    /// After a reboot the uptime begins at zero.
    @Test func anotherBootShiftsWhatItKnows() throws {
        var world = Simulation()
        world.begin(.noAdapter)
        world.run(Self.hour)
        var state = world.schedule.state
        state.shift(by: Uptime.zero - world.now, before: world.now + .seconds(1))
        world.now = .zero + .seconds(30)
        world.schedule = AlertSchedule(world.schedule.patience, state: state)
        world.present[0].began = world.now
        world.run(Self.hour * 22)
        #expect(world.messages.count == 1)
        world.run(Self.hour * 2)
        #expect(world.said == ["+no-adapter", "=no-adapter"])
        try #require(world.messages.count > 1)
        let since = world.messages[1].news.still[0].since
        #expect(world.messages[1].at - since > Self.day)
    }

    @Test func aFloodOfItemsIsBounded() throws {
        var world = Simulation()
        for number in 0..<5_000 { world.begin(.strapSilent, "\(number)") }
        world.run(Self.hour)
        #expect(world.messages.count == 1)
        try #require(world.messages.count > 0)
        #expect(world.messages[0].news.raised.count == AlertSchedule.itemsMax)
        // A file of secrets may have 64 KiB.
        world.present = []
        world.isReachable = false
        world.run(Self.hour)
        #expect(try JSONEncoder().encode(world.schedule.state).count < 60_000)
    }

    /// For a day after a flood nothing new was said.
    @Test func afterAFloodThatIsOverWhatIsNewIsSaid() throws {
        var world = Simulation()
        for number in 0..<AlertSchedule.itemsMax { world.begin(.strapSilent, "\(number)") }
        world.run(Self.hour)
        world.present = []
        world.run(Self.hour)
        world.begin(.strapSilent, "new")
        world.run(Self.hour)
        #expect(world.messages.last?.news.raised.count == 1)
    }

    /// 128 warnings that went on kept every error out, for as long as they lasted, and 128 silent straps every other
    /// error.
    @Test(arguments: [HealthName.batteryLow, .strapSilent])
    func manyItemsOfANameGiveWayToOneOfAnother(many: HealthName) throws {
        var world = Simulation()
        for number in 0..<2 * AlertSchedule.itemsMax { world.begin(many, "\(number)") }
        world.run(.seconds(2 * 3_600))
        for name in [HealthName.storeUnwritable, .clockStepped] {
            world.begin(name)
            world.run(.seconds(2 * 3_600))
            #expect(world.messages.last?.news.raised.map(\.name) == [name])
        }
        // Two names share the room, and neither takes it from the other with each look.
        for number in 0..<2 * AlertSchedule.itemsMax { world.begin(.noHeartRate, "\(number)") }
        world.run(Self.hour)
        #expect(world.messages.last?.news.raised.count == AlertSchedule.itemsMax / 2 - 1)
        let told = world.messages.count
        world.run(.seconds(12 * 3_600))
        #expect(world.messages.count == told)
    }

    /// A strap was silent and bluetoothd ended: a message said that the strap's item was over, and the next one that it
    /// was there again, for each of which a true end was told later.
    @Test func whatNobodyLookedForIsNotSaidToBeOver() throws {
        var world = Simulation()
        world.begin(.strapSilent, "4", strap: 4)
        world.run(Self.hour)
        let seen = world.present
        world.present = []
        world.run(Self.minute)
        // Its end has begun to count, and nobody knows any more.
        world.begin(.bluetoothdAbsent)
        world.unjudged = Unjudged(
            HealthSnapshot(), beside: [HealthCondition(.bluetoothdAbsent, message: "")])
        world.run(Self.hour * 3)
        world.present = seen
        world.unjudged = Unjudged()
        world.run(Self.hour)
        world.present = []
        world.run(Self.minute * 6)
        #expect(
            world.said == [
                "+strap-silent", "+bluetoothd-absent", "-bluetoothd-absent", "-strap-silent",
            ])
    }

    /// Its five minutes would have been over while nobody looked.
    @Test func whatNobodyLooksForIsNotSaidToHaveBegun() throws {
        var world = Simulation()
        world.begin(.strapSilent, "4", strap: 4)
        world.run(Self.minute * 2)
        world.present = []
        world.unjudged = Unjudged(
            HealthSnapshot(), beside: [HealthCondition(.storeUnreadable, message: "")])
        world.run(Self.hour)
        #expect(world.said == [])
    }

    /// An enrollment may be called as its patient.
    @Test func aFileHasNoNameThatAPersonGaveAndNothingThatHasJustBegun() throws {
        var world = Simulation()
        world.begin(.deliveryStalled, "Ada Lovelace")
        world.run(.seconds(50))
        #expect(world.schedule.kept(at: world.now) == AlertSchedule.State())
        world.run(Self.hour)
        world.begin(.batteryLow, "1", strap: 1)
        world.run(.seconds(26))
        let kept = try JSONEncoder().encode(world.schedule.kept(at: world.now))
        let text = String(decoding: kept, as: UTF8.self)
        #expect(text.contains("delivery-stalled") && !text.contains("Ada"))
        #expect(!text.contains("battery-low"))
    }

    @Test func anImpatientPersonIsToldAtOnce() throws {
        var world = Simulation(AlertSchedule.Patience(errors: .zero, warnings: .zero))
        world.begin(.batteryLow, "1")
        world.run(.seconds(13))
        #expect(world.said == ["+battery-low"])
    }
}

/// A sign of life, in simulated time.
@Suite struct LifeSignTests {
    private static let start = Uptime.zero + .seconds(1_000)

    private func calls(
        hasFailureAddress: Bool, for time: Duration, works: Bool = true,
        _ isFlowing: (Duration) -> Bool
    ) -> [(at: Duration, call: LifeSign.Call)] {
        var sign = LifeSign(
            every: .seconds(300), hasFailureAddress: hasFailureAddress)
        var calls: [(Duration, LifeSign.Call)] = []
        var at = Duration.zero
        while at < time {
            if let call = sign.next(isFlowing: isFlowing(at), at: Self.start + at) {
                calls.append((at, call))
                sign.called(works: works, at: Self.start + at)
            }
            at += .seconds(10)
        }
        return calls
    }

    @Test func itIsGivenEachFewMinutesWhileHeartbeatsFlow() throws {
        let calls = calls(hasFailureAddress: true, for: .seconds(1_300)) { _ in true }
        #expect(calls.map(\.at) == [120, 420, 720, 1_020].map { .seconds($0) })
        #expect(calls.allSatisfy { $0.call == .alive })
    }

    @Test func theOtherAddressIsCalledWhileTheyDoNot() throws {
        let calls = calls(hasFailureAddress: true, for: .seconds(1_300)) {
            !(.seconds(400)...(.seconds(1_000))).contains($0)
        }
        #expect(calls.map(\.call) == [.alive, .failure, .failure, .alive])
    }

    @Test func withoutAnotherAddressNothingIsCalledThen() throws {
        let calls = calls(hasFailureAddress: false, for: .seconds(1_300)) { $0 < .seconds(400) }
        #expect(calls.map(\.at) == [.seconds(120)])
    }

    /// A daemon that ended every minute and was started again would have given a sign each time.
    @Test func aGatewayThatStartsAgainAndAgainGivesNone() throws {
        for _ in 0..<10 {
            let calls = calls(hasFailureAddress: true, for: .seconds(110)) { _ in true }
            #expect(calls.isEmpty)
        }
    }

    @Test func aCallThatFailsIsMadeAgainSoon() throws {
        let calls = calls(hasFailureAddress: true, for: .seconds(400), works: false) { _ in true }
        #expect(calls.map(\.at) == [120, 180, 240, 300, 360].map { .seconds($0) })
        var sign = LifeSign(every: .seconds(300), hasFailureAddress: false)
        sign.called(works: false, at: Self.start)
        #expect(sign.undeliveredTime(at: Self.start + .seconds(599)) == nil)
        #expect(sign.undeliveredTime(at: Self.start + .seconds(600)) == .seconds(600))
        sign.called(works: true, at: Self.start + .seconds(601))
        #expect(sign.undeliveredTime(at: Self.start + .seconds(900)) == nil)
    }

    @Test(arguments: HealthName.allCases)
    func heartbeatsFlowUnlessAnItemSaysOtherwise(name: HealthName) {
        let flows = HealthRules.heartbeatsFlow([HealthCondition(name, message: "")])
        // A warning never ends them, and an item that stops them is an error.
        if name.severity == .warning { #expect(flows) }
        if name.explains != nil { #expect(!flows) }
    }

    /// The sign of life was given while every sample was held, for want of a time, of a patient or of a store.
    @Test(arguments: [HealthName.patientHeld, .notEnrolled, .storeUnreadable, .clockUntrusted])
    func whatHoldsEverySampleEndsTheSignOfLife(name: HealthName) {
        #expect(!HealthRules.heartbeatsFlow([HealthCondition(name, message: "")]))
    }

    @Test func heartbeatsDoNotFlowFromASilentStrapOrToAnExchangeThatHoldsThem() throws {
        #expect(HealthRules.heartbeatsFlow([]))
        for name in [HealthName.strapSilent, .deliveryStalled, .bluetoothdAbsent, .deliveryHeld] {
            #expect(!HealthRules.heartbeatsFlow([HealthCondition(name, message: "")]))
        }
        // What was lost once does not keep others from arriving now.
        #expect(HealthRules.heartbeatsFlow([HealthCondition(.samplesLost, message: "")]))
    }
}
