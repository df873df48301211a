import Testing

@testable import EdgeGateway

/// An exchange that has moved, and somebody who enrolls there as if it were another one.
@Suite struct MovedExchangeTests {
    private static func report(
        _ name: String, at exchange: String, patient: String = "40001", pending: Int = 0,
        delivered: Int = 0, kind: String = "invitation"
    ) -> EnrollmentReport {
        EnrollmentReport(
            name: name, kind: kind, exchange: exchange, patient: patient, code: "heart-rate",
            resolution: "raw", state: "active", pending: pending, delivered: delivered, dead: 0)
    }

    private static let old = report("e0", at: "https://old.example", pending: 3, delivered: 9)

    @Test func samplesThatWaitAtTheOldAddressAreNamedToWhoeverEnrollsAtTheNewOne() {
        let new = Self.report("e1", at: "https://new.example")
        let lines = EnrollCommand.waitingElsewhere([Self.old, new], beside: new)
        #expect(lines.count == 1)
        #expect(lines[0].contains("3 samples wait for e0"))
        #expect(lines[0].contains("edge-gateway erase e1"))
        #expect(lines[0].contains("--moved e0"))
    }

    @Test(arguments: [
        report("e1", at: "https://new.example", delivered: 1),
        report("e1", at: "https://new.example", pending: 1),
        report("e1", at: "https://new.example", patient: "40002"),
        report("e1", at: "https://new.example", kind: "practitioner-key"),
        report("e1", at: "https://old.example"),
    ])
    func nobodyIsToldToEraseAnEnrollmentThatIsInUseOrOfAnotherPatient(new: EnrollmentReport) {
        #expect(EnrollCommand.waitingElsewhere([Self.old, new], beside: new).isEmpty)
    }
}
