import Basics
import Testing

@testable import BlueZ

@Suite("A radio that hears nothing")
struct RadioWatchTests {
    private var watch = RadioWatch()

    @Test("is listened to more openly after 90 s, then power-cycled, then reset")
    mutating func ladder() {
        #expect(watch.wantScan(true, at: .zero) == nil)
        #expect(watch.tick(hasLinks: false, at: .seconds(89)) == nil)
        #expect(watch.tick(hasLinks: false, at: .seconds(90)) == .listenToEveryone)
        #expect(watch.listensToEveryone)
        #expect(watch.tick(hasLinks: false, at: .seconds(109)) == nil)
        #expect(watch.tick(hasLinks: false, at: .seconds(110)) == .powerCycle)
        #expect(watch.silentSince == .seconds(110))
        // It did not help: more patience, then the controller itself.
        #expect(watch.tick(hasLinks: false, at: .seconds(110 + 179)) == nil)
        #expect(watch.tick(hasLinks: false, at: .seconds(110 + 180)) == .listenToEveryone)
        #expect(watch.tick(hasLinks: false, at: .seconds(110 + 200)) == .resetController)
    }

    /// An adapter that was switched off was said to be deaf, and power-cycled.
    @Test("is not taken for deaf while nobody listens, and stays deaf over a power cycle")
    mutating func unused() {
        _ = watch.wantScan(true, at: .zero)
        _ = watch.wantScan(false, at: .seconds(80))
        #expect(watch.tick(hasLinks: false, at: .seconds(900)) == nil)
        #expect(watch.silentSince == nil)
        _ = watch.wantScan(true, at: .seconds(900))
        _ = watch.tick(hasLinks: false, at: .seconds(990))
        #expect(watch.tick(hasLinks: false, at: .seconds(1_010)) == .powerCycle)
        _ = watch.wantScan(false, at: .seconds(1_011))
        _ = watch.wantScan(true, at: .seconds(1_013))
        #expect(watch.silentSince == .seconds(1_010))
    }

    @Test("is well as soon as any device is heard, even a foreign one")
    mutating func stranger() {
        _ = watch.wantScan(true, at: .zero)
        _ = watch.tick(hasLinks: false, at: .seconds(90))
        #expect(watch.hear(at: .seconds(95)) == .listenToOurs)
        #expect(!watch.listensToEveryone)
        #expect(watch.silentSince == nil)
        #expect(watch.nextDeadline == .seconds(95 + 90))
        #expect(watch.hear(at: .seconds(100)) == nil)
    }

    @Test("is not reset while links are up, until it has been silent for long")
    mutating func links() {
        _ = watch.wantScan(true, at: .zero)
        _ = watch.tick(hasLinks: true, at: .seconds(90))
        #expect(watch.tick(hasLinks: true, at: .seconds(110)) == .listenToOurs)
        #expect(watch.silentSince == .seconds(110))
        var actions: [RadioWatch.Action] = []
        var times: [Uptime] = []
        while actions.count < 4, let next = watch.nextDeadline {
            guard let action = watch.tick(hasLinks: true, at: next) else { break }
            actions.append(action)
            times.append(next)
        }
        #expect(actions == [.listenToEveryone, .listenToOurs, .listenToEveryone, .powerCycle])
        let total: Int64 = 110 + 180 + 20 + 360 + 20
        #expect(times.last == .seconds(total))
    }

    @Test("is power-cycled beside its links when another adapter hears who has no place there")
    mutating func heardElsewhere() {
        _ = watch.wantScan(true, at: .zero)
        watch.hearElsewhere(at: .seconds(10))
        watch.hearElsewhere(at: .seconds(35))
        #expect(watch.tick(hasLinks: true, at: .seconds(40)) == .listenToEveryone)
        #expect(watch.tick(hasLinks: true, at: .seconds(60)) == .powerCycle)
        // It did not help: more patience each time.
        #expect(watch.tick(hasLinks: true, at: .seconds(119)) == nil)
        #expect(watch.tick(hasLinks: true, at: .seconds(120)) == .listenToEveryone)
        // Heard here as well: all is well.
        _ = watch.hear(at: .seconds(125))
        #expect(watch.nextDeadline == .seconds(125 + 90))
    }

    /// A strap that did not name its service was never found while another one was in earshot.
    @Test("listens to everyone for 20 s in every two minutes, though sensors of ours are heard")
    mutating func turns() {
        _ = watch.wantScan(true, at: .zero)
        var spans: [Uptime] = []
        for second in 1...400 {
            let now = Uptime.seconds(Int64(second))
            let action = watch.hear(at: now) ?? watch.tick(hasLinks: true, at: now)
            if action != nil { spans.append(now) }
            #expect(action == nil || watch.listensToEveryone == (action == .listenToEveryone))
        }
        #expect(spans == [120, 140, 260, 280, 400].map(Uptime.seconds))
        #expect(watch.silentSince == nil)
    }

    @Test("is not suspected while no sensor is wanted")
    mutating func unwanted() {
        #expect(watch.nextDeadline == nil)
        _ = watch.wantScan(true, at: .zero)
        _ = watch.tick(hasLinks: false, at: .seconds(90))
        #expect(watch.wantScan(false, at: .seconds(92)) == .listenToOurs)
        #expect(watch.tick(hasLinks: false, at: .seconds(500)) == nil)
        _ = watch.wantScan(true, at: .seconds(600))
        #expect(watch.tick(hasLinks: false, at: .seconds(689)) == nil)
    }

    @Test("in a place without any device, patience grows to an hour")
    mutating func remotePlace() {
        _ = watch.wantScan(true, at: .zero)
        var now = Uptime.zero
        var resets = 0
        while now < .seconds(86_400) {
            guard let next = watch.nextDeadline else { break }
            now = next
            let action = watch.tick(hasLinks: false, at: now)
            if action == .powerCycle || action == .resetController { resets += 1 }
        }
        #expect(resets > 20 && resets < 35)
    }
}

@Suite("Links that end at a fixed age")
struct LinkAgesTests {
    @Test("are noticed when three of the last five agree within 2 s")
    func signature() {
        var ages = LinkAges()
        for age: Int64 in [150, 3, 151] { ages.note(age: .seconds(age)) }
        #expect(ages.fixedAge(current: nil) == nil)
        ages.note(age: .seconds(149))
        #expect(ages.fixedAge(current: nil) == .seconds(150))
        #expect(ages.fixedAge(current: .seconds(20)) == .seconds(150))
    }

    @Test("are forgiven when a link outlives them")
    func outlived() {
        var ages = LinkAges()
        for _ in 0..<3 { ages.note(age: .seconds(30)) }
        #expect(ages.fixedAge(current: .seconds(30)) == .seconds(30))
        #expect(ages.fixedAge(current: .seconds(40)) == nil)
    }

    @Test("are not seen in short links, long links, or links of any length")
    func others() {
        for series: [Int64] in [
            [1, 1, 1, 1, 1], [900, 900, 901, 900, 900], [20, 40, 60, 80, 100],
        ] {
            var ages = LinkAges()
            for age in series { ages.note(age: .seconds(age)) }
            #expect(ages.fixedAge(current: nil) == nil)
        }
    }
}
