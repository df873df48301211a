import Testing

@testable import EdgeGateway

/// The users who may change something over the control socket.
@Suite struct PeerTests {
    private static let daemon = Peer(user: 1, group: 65_534)
    private static let bin = Peer(user: 2, group: 65_534)

    @Test func onlyMembersOfTheGroupAndRootMayChangeAnything() {
        let policy = ChangePolicy(group: "daemon")
        #expect(policy.mayChange(Self.daemon) && policy.mayChange(Peer(user: 0, group: 0)))
        #expect(policy.mayChange(Peer(user: 2, group: 1)))
        #expect(!policy.mayChange(Self.bin) && !policy.mayChange(nil))
        #expect(!ChangePolicy(group: "no-such-group").mayChange(Self.daemon))
        #expect(ChangePolicy(group: nil).mayChange(Self.bin))
    }

    /// glibc's one buffer had another's name by the time that it was read.
    @Test func usersWhoAskAtOnceAreNotTakenForEachOther() async {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<400 {
                group.addTask {
                    number.isMultiple(of: 2)
                        ? Self.daemon.isMember(of: "daemon") : !Self.bin.isMember(of: "daemon")
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }
}
