import Basics

@testable import BlueZ

/// A link, its time, and what it asked for.
struct LinkFixture {
    var link: SensorLink
    var now = Uptime.seconds(1_000)

    init(_ change: (inout LinkPolicy) -> Void = { _ in }) {
        var policy = LinkPolicy()
        // Jitter is tested apart: here a back-off is always over at once unless a test asks.
        policy.backoffBase = .zero
        policy.backoffMax = .zero
        change(&policy)
        link = SensorLink(policy: policy, seed: 1)
    }

    @discardableResult
    mutating func tell(_ event: SensorLink.Event) -> [SensorLink.Action] {
        link.handle(event, at: now)
    }

    @discardableResult
    mutating func wait(_ duration: Duration) -> [SensorLink.Action] {
        now += duration
        guard let due = link.nextDeadline, due <= now else { return [] }
        return link.handle(.tick, at: now)
    }

    static func ready(_ change: (inout LinkPolicy) -> Void = { _ in }) -> LinkFixture {
        var fixture = LinkFixture(change)
        fixture.tell(.daemon(isPresent: true))
        fixture.tell(.adapter(isUsable: true))
        return fixture
    }

    static func connecting(_ change: (inout LinkPolicy) -> Void = { _ in }) -> LinkFixture {
        var fixture = ready(change)
        fixture.tell(.sighted)
        fixture.tell(.slotGranted(isShared: false))
        return fixture
    }

    static func resolving(_ change: (inout LinkPolicy) -> Void = { _ in }) -> LinkFixture {
        var fixture = connecting(change)
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, nil))
        return fixture
    }

    static func subscribing(_ change: (inout LinkPolicy) -> Void = { _ in }) -> LinkFixture {
        var fixture = resolving(change)
        fixture.tell(.device(isConnected: true, isResolved: true))
        return fixture
    }

    static func streaming(_ change: (inout LinkPolicy) -> Void = { _ in }) -> LinkFixture {
        var fixture = subscribing(change)
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        fixture.tell(.frame)
        // Its cadence is known: a frame a second.
        fixture.now += .seconds(1)
        fixture.tell(.frame)
        return fixture
    }
}
