import Testing

@testable import EdgeGateway

@Suite struct ConnectionTableTests {
    private let visitor = ConnectionPeer.address("192.0.2.1")
    private let operatorPeer = ConnectionPeer.address("192.0.2.2")

    @Test func silentConnectionsOfOneAddressMakeRoomForAnother() {
        var table = ConnectionTable(countMax: 128, perPeerMax: 128)
        for id in 1...128 { #expect(table.add(id, of: visitor) == nil) }
        #expect(table.add(129, of: operatorPeer) == 1, "the oldest silent one goes")
        #expect(table.count == 128)
    }

    @Test func aPeerBeyondItsShareGivesUpItsOwnConnections() {
        var table = ConnectionTable(countMax: 10, perPeerMax: 3)
        #expect(table.add(100, of: operatorPeer) == nil)
        for id in 1...3 { #expect(table.add(id, of: visitor) == nil) }
        #expect(table.add(4, of: visitor) == 1)
        #expect(table.add(5, of: visitor) == 2)
        #expect(table.count == 4)
    }

    /// 600 bodies a byte at a time used to lock the commands out.
    @Test func aNewConnectionGetsInWhileAllOthersDawdle() {
        var table = ConnectionTable(countMax: 600, perPeerMax: 512)
        let user = ConnectionPeer.user(1000)
        for id in 1...600 {
            _ = table.add(id, of: user)
            table.note(id, .reading)
        }
        #expect(table.count == 512)
        #expect(table.add(601, of: user) == 89, "the oldest that is left")
        #expect(table.add(602, of: .user(0)) == nil)
    }

    @Test func whatIsAnsweredIsGivenUpLast() {
        var table = ConnectionTable(countMax: 3, perPeerMax: 3)
        for id in 1...3 { _ = table.add(id, of: visitor) }
        table.note(1, .reading)
        table.note(1, .answering)
        table.note(2, .reading)
        #expect(table.add(4, of: visitor) == 2, "the oldest whose request is not whole")
        table.note(4, .reading)
        #expect(table.add(5, of: visitor) == 3, "it has asked nothing")
        table.note(4, .answering)
        table.note(5, .answering)
        #expect(table.add(6, of: visitor) == 1, "the oldest answer")
    }

    /// It used to be closed before its request was read, because all others had begun theirs.
    @Test func aNewcomerThatHasNotAskedYetIsNotTakenForASilentOne() {
        var table = ConnectionTable(countMax: 10, perPeerMax: 10)
        for id in 1...10 {
            _ = table.add(id, of: visitor)
            table.note(id, .reading)
        }
        #expect(table.add(11, of: visitor) == 1)
        #expect(table.add(12, of: visitor) == 2, "not 11")
    }

    @Test func whatLeftIsNotCounted() {
        var table = ConnectionTable(countMax: 2, perPeerMax: 2)
        for id in 1...1000 {
            #expect(table.add(id, of: .address("192.0.2.\(id % 200)")) == nil)
            table.remove(id)
            table.remove(id)
        }
        #expect(table.count == 0)
    }

    @Test func amongPeersTheOneWithTheMostConnectionsGivesOneUp() {
        var table = ConnectionTable(countMax: 6, perPeerMax: 6)
        for id in 1...4 { _ = table.add(id, of: visitor) }
        for id in 5...6 { _ = table.add(id, of: operatorPeer) }
        #expect(table.add(7, of: .address("192.0.2.3")) == 1)
        // As many as anybody: its own place goes, and no viewer is displaced in turn for ever.
        #expect(table.add(8, of: visitor) == 2)
    }
}

/// A place is taken as long as it is held: the tests hold theirs to their ends.
@Suite struct ViewersTests {
    private func take(
        _ viewers: Viewers, _ viewer: Viewer, _ count: Int
    ) -> [Viewers.Place] {
        (0..<count).compactMap { _ in viewers.take(viewer, end: {}) }
    }

    private let share = Viewer(scope: .share(nil), holder: .share("one"))

    @Test func oneShareDoesNotTakeAllPlaces() {
        let viewers = Viewers()
        let taken = take(viewers, share, 40)
        #expect(taken.count == Viewers.perShareMax)
        #expect(viewers.take(Viewer(scope: .full, holder: .operatorToken), end: {}) != nil)
        let other = Viewer(
            scope: .share(WornStrap(sensor: 1, assignment: 1)), holder: .share("two"))
        #expect(viewers.take(other, end: {}) != nil)
        withExtendedLifetime(taken) {}
    }

    @Test func manySharesLeavePlacesForTheOperator() {
        let viewers = Viewers()
        let shares = (0..<10).flatMap { number in
            take(viewers, Viewer(scope: .share(nil), holder: .share("\(number)")), 16)
        }
        #expect(shares.count == Viewers.sharesMax)
        #expect(take(viewers, Viewer(scope: .full, holder: .operatorToken), 8).count == 8)
        withExtendedLifetime(shares) {}
    }

    @Test func oneMachineWithManySharesIsBoundedAndAProxyOnThisOneIsNot() {
        let viewers = Viewers()
        func viewer(_ number: Int, _ address: String?) -> Viewer {
            Viewer(scope: .share(nil), holder: .share("\(number)"), address: address)
        }
        let remote = (0..<10).flatMap { take(viewers, viewer($0, "192.0.2.1"), 4) }
        #expect(remote.count == Viewers.perShareMax)
        #expect((0..<10).flatMap { take(viewers, viewer($0, nil), 4) }.count == 8)
        withExtendedLifetime(remote) {}
    }

    @Test func theOperatorTakesThePlaceOfTheVisitorWhoHasTheMost() {
        let viewers = Viewers()
        let machine = take(viewers, Viewer(scope: .full, holder: .machine), 40)
        #expect(machine.count == Viewers.perHolderMax)
        let shares = take(viewers, share, 40)
        #expect(shares.count == Viewers.countMax - Viewers.perHolderMax)
        #expect(viewers.take(share, end: {}) == nil, "a share displaces no viewer")
        nonisolated(unsafe) var ended = 0
        let places = (0..<3).compactMap { _ in
            viewers.take(Viewer(scope: .full, holder: .operatorToken), end: {})
        }
        #expect(places.count == 3)
        let again = viewers.take(Viewer(scope: .full, holder: .user(0)), end: { ended += 1 })
        #expect(again != nil && ended == 0)
        withExtendedLifetime((machine, shares, places)) {}
    }

    @Test func aPlaceIsGivenBackWithItsHolder() {
        let viewers = Viewers()
        var taken: [Viewers.Place]? = take(viewers, share, 16)
        #expect(viewers.take(share, end: {}) == nil)
        taken?.removeLast()
        #expect(viewers.take(share, end: {}) != nil)
        taken = nil
        #expect(take(viewers, share, 40).count == 16)
    }
}
