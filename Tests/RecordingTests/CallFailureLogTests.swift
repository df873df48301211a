import Basics
import Testing

@testable import BlueZ
@testable import Recording

@Suite struct CallFailureLogTests {
    private func failure(_ text: String) -> CallFailure {
        CallFailure(
            member: "Connect", fault: DBusFault(name: "org.bluez.Error.Failed", text: text))
    }

    @Test func aCallThatFailsAgainAndAgainIsLoggedOnceAnHour() {
        var log = CallFailureLog()
        var logged = 0
        for second in stride(from: Int64(0), to: 7_200, by: 10)
        where log.admits(failure("le-connection-abort-by-local"), at: .zero + .seconds(second)) {
            logged += 1
        }
        #expect(logged == 2)
        let isOther = log.admits(failure("le-connection-timeout"), at: .zero + .seconds(7_190))
        #expect(isOther, "each kind by itself")
    }

    @Test func textsThatAreNeverTheSameDoNotFillTheLog() {
        var log = CallFailureLog()
        var logged = 0
        for number in 0..<1_000 where log.admits(failure("\(number)"), at: .zero) { logged += 1 }
        #expect(logged == CallFailureLog.kindsMax)
    }
}
