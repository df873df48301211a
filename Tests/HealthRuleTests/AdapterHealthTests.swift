import Basics
import Testing

@testable import BlueZ
@testable import Health

/// When an adapter is full, and a strap waits for a place.
@Suite struct AdapterHealthTests {
    private static func refuses(isFull: Bool = false, _ links: LinkSnapshot...) -> Bool {
        var adapter = Adapter(path: "/org/bluez/hci0")
        adapter.address = "00:1A:7D:DA:71:01"
        let state = AdapterSnapshot(
            adapter: adapter, silentSince: nil, isFull: isFull, linkCount: 5)
        return HealthSnapshot.Adapter(state, links: links, at: .zero).refusesLinks
    }

    private static func link(
        _ state: LinkState, _ reason: LinkReason, adapter: String = "00:1A:7D:DA:71:01"
    ) -> LinkSnapshot {
        LinkSnapshot(
            address: "C0:00:00:00:00:01", state: state, reason: reason, rssi: nil,
            trouble: nil, adapter: adapter,
            upSince: nil, fixedAge: nil)
    }

    @Test func anAdapterThatRefusedAStrapIsFullWhileTheStrapWaits() {
        #expect(Self.refuses(Self.link(.suspended(.adapterFull), .error(.slots))))
        #expect(Self.refuses(isFull: true, Self.link(.seen, .heard)))
        let other = Self.link(.suspended(.adapterFull), .error(.slots), adapter: "other")
        #expect(!Self.refuses(other))
        let streams = Self.link(.streaming(lastFrameAt: .zero), .progress)
        #expect(!Self.refuses(isFull: true, streams))
    }

    /// `adapter-full` stayed all night for a strap that had gone home: the reason of its last attempt stayed.
    @Test(arguments: [LinkState.absent, .suspended(.outOfRange)])
    func aStrapThatIsAwayWaitsForNoPlace(state: LinkState) {
        #expect(!Self.refuses(Self.link(state, .error(.slots))))
        #expect(!Self.refuses(isFull: true, Self.link(state, .error(.slots))))
        #expect(!Self.refuses(isFull: true, Self.link(state, .removed)))
    }
}
