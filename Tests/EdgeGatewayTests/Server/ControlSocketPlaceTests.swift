import Testing

@testable import EdgeGateway

@Suite struct ControlSocketPlaceTests {
    /// With an empty `socket` the daemon served at a name that no command asks, and its log named no cause.
    @Test(arguments: ["", "control.sock", "./run/control.sock"])
    func aPlaceThatDependsOnTheWorkingDirectoryIsRefusedWithTheCause(path: String) {
        let fault = #expect(throws: ControlSocketPlace.Fault.self) {
            try ControlSocketPlace(path).claim()
        }
        #expect(fault?.reason.hasPrefix("socket: ") == true)
        #expect(fault?.reason.contains("it must begin with /") == true)
    }
}
