import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// A practitioner's delivery with an imagined exchange that refuses some patients.
private struct WardDrive {
    var delivery = Delivery()
    var now = Uptime.seconds(1_000)
    /// Samples not settled yet, oldest first: number and patient.
    var queue: [(number: Int, patient: String?)]
    var refused: [String?: String]
    /// Patients of whom the exchange says that they are well, whatever it does with their samples.
    var claimed: Set<String?> = []
    var answer: DeliveryAnswer?
    /// Patients whose samples a proxy calls too large.
    var tooLarge: Set<String?> = []
    var delivered: [(at: Uptime, number: Int, patient: String?)] = []
    var probes: [(at: Uptime, patient: String?)] = []
    var requests: [(at: Uptime, patients: [String?])] = []
    private var fetched: [(number: Int, patient: String?)] = []

    init(_ patients: [String?], refused: [String?: String]) {
        queue = patients.enumerated().map { ($0.offset, $0.element) }
        self.refused = refused
    }

    mutating func run(seconds: Int64) {
        let end = now + .seconds(seconds)
        while now < end {
            switch delivery.step(now) {
            case .wait(let until):
                #expect(until.map { $0 > now } == true)
                now = min(until ?? end, end)
            case .fetch(let limit):
                let held = delivery.heldPatients
                fetch(queue.filter { held[$0.patient] == nil }, limit)
            case .fetchTrial(let patient): fetch(queue.filter { $0.patient == patient }, 1)
            case .send(let indices): request(indices)
            case .sendAlone(let index): request([index])
            case .checkHealth: _ = delivery.checked(isHealthy: true, now)
            case .checkSilence: delivery.checkedSilence(isOver: true, now)
            case .probe: delivery.probed(isMended: true, now)
            case .probePatient(let patient, _):
                probes.append((now, patient))
                let isMended = refused[patient] == nil || claimed.contains(patient)
                delivery.probedPatient(isMended: isMended, now)
            }
        }
    }

    private mutating func fetch(_ samples: [(number: Int, patient: String?)], _ limit: Int) {
        fetched = Array(samples.prefix(limit))
        delivery.fetched(
            fetched.map { _ in nil }, patients: fetched.map(\.patient),
            hasMore: fetched.count >= limit, now)
    }

    private mutating func request(_ indices: [Int]) {
        requests.append((now, indices.map { fetched[$0].patient }))
        let entries = indices.map { index in
            refused[fetched[index].patient].map {
                EntryAnswer(status: 403, diagnostics: $0, endpoint: .bundle)
            } ?? EntryAnswer(status: 201, diagnostics: "", endpoint: .bundle)
        }
        now += .milliseconds(100)
        let isTooLarge = indices.contains { tooLarge.contains(fetched[$0].patient) }
        let answer = answer ?? (isTooLarge ? .tooLarge : .entries(entries))
        for one in delivery.answered(answer, took: .microseconds(100_000), now)
        where one.outcome == .delivered {
            let sample = fetched[one.index]
            delivered.append((now, sample.number, sample.patient))
            queue.removeAll { $0.number == sample.number }
        }
    }

    func numbers(of patient: String?) -> [Int] {
        delivered.filter { $0.patient == patient }.map(\.number)
    }
}

@Suite struct PatientHoldTests {
    private static let noConsent = "…has not been consented for any studies by this Patient."
    private static let noAccess = "Current user doesn't have access to the Patient."
    private static let ward = (0..<60).map { $0 % 2 == 0 ? "a" : "b" }

    @Test func aRefusedPatientsSamplesWaitAndTheOthersGoOnInOrder() {
        var drive = WardDrive(Self.ward, refused: ["a": Self.noConsent])
        drive.run(seconds: 30)
        #expect(drive.numbers(of: "b") == Array(stride(from: 1, to: 60, by: 2)))
        #expect(drive.numbers(of: "a").isEmpty)
        #expect(drive.delivery.heldPatients == ["a": .noConsent])
        #expect(drive.delivery.holdReason == nil)
        #expect(drive.requests.count == 1, "what was refused is not sent again")
    }

    /// One strap that was paired without a patient stopped all patients of a gateway that delivers through a relay.
    @Test func samplesWithoutAPatientWaitAndTheOthersGoOn() {
        var drive = WardDrive(
            (0..<60).map { $0 % 2 == 0 ? nil : "b" },
            refused: [nil: Self.noConsent])
        drive.queue += (60..<70).map { ($0, "c") }
        drive.run(seconds: 600)
        #expect(drive.numbers(of: "b") == Array(stride(from: 1, to: 60, by: 2)))
        #expect(drive.numbers(of: "c") == Array(60..<70))
        #expect(drive.delivery.heldPatients == [nil: .noConsent])
        #expect(drive.delivery.holdReason == nil)
        #expect((8...10).contains(drive.probes.count), "once a minute")
        drive.refused = [:]
        drive.run(seconds: 120)
        #expect(drive.numbers(of: nil) == Array(stride(from: 0, to: 60, by: 2)), "none is lost")
        #expect(drive.delivery.heldPatients.isEmpty)
    }

    @Test func theReasonIsLookedAtOnceAMinuteAtMostHoweverManyAreHeld() {
        let three = ["a", "b", "c", "d"]
        var drive = WardDrive(
            three, refused: ["a": Self.noConsent, "b": Self.noAccess, "c": Self.noConsent])
        drive.run(seconds: 3600)
        #expect((58...60).contains(drive.probes.count))
        for (before, after) in zip(drive.probes, drive.probes.dropFirst()) {
            #expect(after.at - before.at >= .seconds(60))
        }
        for patient in ["a", "b", "c"] {
            #expect(drive.probes.count { $0.patient == patient } >= 19, "each has its turn")
        }
        #expect(drive.requests.count == 1)
    }

    /// Eight patients whose practitioner had lost the organization took 458 s to come back.
    @Test func patientsHeldTogetherComeBackTogetherOneASecond() {
        let ward = (0..<8).map { "p\($0)" }
        var refused: [String?: String] = Dictionary(
            uniqueKeysWithValues: ward.map { ($0, Self.noAccess) })
        refused["other"] = Self.noConsent
        var drive = WardDrive(
            (0..<80).map { ward[$0 % 8] } + ["other", "well"], refused: refused)
        drive.run(seconds: 30)
        #expect(drive.delivery.heldPatients.count == 9)
        // One of them is not let in again: the others do not wait for it, and it has one look.
        let stays = "p3"
        drive.refused = [stays: Self.noAccess, "other": Self.noConsent]
        let before = (probes: drive.probes.count, now: drive.now)
        drive.run(seconds: 90)
        #expect(drive.delivery.heldPatients == [stays: .wrongPatient, "other": .noConsent])
        #expect(drive.queue.allSatisfy { $0.patient == stays || $0.patient == "other" })
        let probes = drive.probes.dropFirst(before.probes)
        for (one, next) in zip(probes, probes.dropFirst()) {
            #expect(next.at - one.at >= .seconds(1))
        }
        let mended = drive.delivered.filter { $0.at > before.now }.map(\.at)
        #expect(mended.max()! - mended.min()! < .seconds(10))
        // With the round over it is one a minute again.
        let rest = drive.probes.count
        drive.run(seconds: 600)
        #expect((9...11).contains(drive.probes.count - rest))
    }

    @Test func aPatientWhoIsHeldDuringARoundDoesNotEndIt() {
        var drive = WardDrive(["a", "b", "c"], refused: [:])
        drive.refused = ["a": Self.noAccess, "b": Self.noAccess, "c": Self.noAccess]
        drive.claimed = ["b"]
        drive.run(seconds: 30)
        drive.refused = ["b": Self.noAccess]
        drive.run(seconds: 70)
        #expect(drive.delivery.heldPatients == ["b": .wrongPatient])
        #expect(drive.numbers(of: "c") == [2])
    }

    @Test func afterTheReasonIsGoneOneSampleIsTriedThenAllGoOnInOrder() {
        var drive = WardDrive(Self.ward, refused: ["a": Self.noConsent])
        drive.run(seconds: 90)
        drive.refused = [:]
        drive.run(seconds: 120)
        #expect(drive.numbers(of: "a") == Array(stride(from: 0, to: 60, by: 2)))
        #expect(drive.requests[1].patients == ["a"])
        #expect(drive.requests[2].patients.count == 29)
        #expect(drive.delivery.heldPatients.isEmpty)
    }

    @Test func aTrialThatIsTooLargeHoldsItsPatientAlone() {
        var drive = WardDrive(Self.ward, refused: ["a": Self.noConsent])
        drive.run(seconds: 30)
        drive.refused = [:]
        drive.tooLarge = ["a"]
        drive.queue += (60..<70).map { ($0, "b") }
        drive.run(seconds: 600)
        #expect(drive.delivery.holdReason == nil)
        #expect(drive.delivery.heldPatients == ["a": .noConsent])
        #expect(drive.numbers(of: "b") == Array(stride(from: 1, to: 60, by: 2)) + Array(60..<70))
        #expect(drive.numbers(of: "a").isEmpty)
        #expect((8...10).contains(drive.requests.count { $0.patients == ["a"] }), "once a minute")
        drive.tooLarge = []
        drive.run(seconds: 120)
        #expect(drive.numbers(of: "a") == Array(stride(from: 0, to: 60, by: 2)), "none is lost")
        #expect(drive.delivery.heldPatients.isEmpty)
    }

    @Test func aTrialThatIsRefusedHoldsAgainAndCostsOneSampleAMinute() {
        var drive = WardDrive(Self.ward, refused: ["a": Self.noConsent])
        drive.claimed = ["a"]
        drive.run(seconds: 600)
        #expect(drive.delivery.heldPatients == ["a": .noConsent])
        #expect(drive.requests.dropFirst().allSatisfy { $0.patients == ["a"] })
        #expect((8...10).contains(drive.requests.count - 1))
        #expect(drive.numbers(of: "b").count == 30)
    }

    @Test func aTrialWithAnUnclearAnswerHoldsNoPatient() {
        var drive = WardDrive(Self.ward, refused: ["a": Self.noConsent])
        drive.run(seconds: 30)
        drive.refused = [:]
        drive.answer = .unclear("502")
        drive.run(seconds: 60)
        #expect(drive.delivery.heldPatients.isEmpty)
        drive.answer = nil
        drive.run(seconds: 600)
        #expect(drive.queue.isEmpty)
        #expect(drive.numbers(of: "a") == Array(stride(from: 0, to: 60, by: 2)))
    }

    @Test func aPatientWithNothingLeftIsHeldNoLonger() {
        var drive = WardDrive(["a", "b"], refused: ["a": Self.noAccess])
        drive.run(seconds: 30)
        #expect(drive.delivery.heldPatients == ["a": .wrongPatient])
        drive.queue = []
        drive.refused = [:]
        drive.run(seconds: 120)
        #expect(drive.delivery.heldPatients.isEmpty)
        drive.queue = [(7, "a")]
        drive.run(seconds: 60)
        #expect(drive.numbers(of: "a") == [7])
    }

    @Test func aReasonThatConcernsEverybodyHoldsTheDelivery() {
        let device = "Device Data Source id=7 can not be found."
        var delivery = Delivery()
        #expect(delivery.step(.zero) == .fetch(limit: 100))
        delivery.fetched([nil, nil], patients: ["a", "b"], hasMore: false, .zero)
        #expect(delivery.step(.zero) == .send([0, 1]))
        let refusal = EntryAnswer(status: 400, diagnostics: device, endpoint: .bundle)
        _ = delivery.answered(
            .entries([refusal, refusal]), took: .microseconds(1), .microseconds(1))
        #expect(delivery.holdReason == .deviceUnknown)
        #expect(delivery.heldPatients.isEmpty)
    }
}
