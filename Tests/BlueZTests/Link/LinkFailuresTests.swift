import Basics
import Testing

@testable import BlueZ

@Suite("What failures say of a strap")
struct LinkFailuresTests {
    @Test("is forgotten as a whole when the strap has not been heard for long")
    func forgotten() {
        var failures = LinkFailures()
        #expect(failures.forgottenAt == nil)
        failures.note(.taken, heardAt: .seconds(100))
        #expect(failures.forgottenAt == Uptime.seconds(100) + Central.unreachableFor)
        failures.noteConnect(at: .seconds(110), heardAt: .seconds(90))
        #expect(failures.forgottenAt == Uptime.seconds(100) + Central.unreachableFor)
        #expect(failures.failingSince == .seconds(110))
        failures.excuseConnects()
        #expect(failures.failingSince == nil && failures.trouble == .taken)
    }

    @Test("stays while the strap is there and fails again and again")
    func kept() {
        var failures = LinkFailures()
        for second in stride(from: Int64(0), through: 600, by: 60) {
            failures.note(.bondMissing, heardAt: .seconds(second))
            let next = Uptime.seconds(second + 60)
            #expect(failures.forgottenAt.map { $0 > next } == true)
        }
    }
}
