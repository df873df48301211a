import Basics
import Foundation
import OfflineQueue
import Synchronization
import Testbed
import VirtualTime

@testable import EdgeGateway

/// A command that somebody gave, and what it answered.
final class GivenCommand: Sendable {
    enum Outcome: Sendable {
        case open
        case done
        /// A problem, with its code.
        case refused(String)
        /// Something that is no problem report.
        case broken(String)
        /// The gateway ended meanwhile: it was done, or not.
        case unknown
    }

    let number: Int
    let command: Command
    let begin: Int64
    private let state = Mutex<(outcome: Outcome, end: Int64?, words: String)>((.open, nil, ""))

    init(_ command: Command, number: Int, at begin: Int64) {
        self.command = command
        self.number = number
        self.begin = begin
    }

    var outcome: Outcome { state.withLock { $0.outcome } }
    var end: Int64? { state.withLock { $0.end } }
    var words: String { state.withLock { $0.words } }
    /// It was not refused.
    var isOver: Bool { if case .refused = outcome { false } else { true } }
    var isOpen: Bool { if case .open = outcome { true } else { false } }

    func finish(_ outcome: Outcome, _ words: String) {
        state.withLock { $0 = (outcome, VirtualExecutors.time.now, words) }
    }
}

/// Does what the routes of the control API do for each command.
struct People: Sendable {
    static let destination = "hook"
    static let ward = "ward"
    static let noEnrollment = "no enrollment"

    let gateway: Gateway
    let exchange: StandInExchange

    static func address(_ strap: Int) -> String { "C0:00:00:00:00:0\(strap + 1)" }
    static func patient(_ number: Int) -> String { "\(ExchangeSeed.patient(number))" }
    static func enrollment(_ patient: Int) -> String { "p\(patient)" }

    /// - Parameters:
    ///   - link: an invitation for who enrolls.
    ///   - seed: chooses where there is a choice.
    /// - Returns: what it answered, in a few words.
    func run(_ command: Command, link: String?, seed: UInt64) async throws -> String {
        switch command {
        case .enroll(let patient):
            let report = try await gateway.enrolling.enroll(
                EnrollRequest(link: link, name: Self.enrollment(patient)))
            return report.name
        case .enrollKey:
            var ask = EnrollRequest(name: Self.ward, device: "70007")
            let key = ExchangeSeed.standard.practitionerKeys[0]
            ask.practitionerKey = Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString()
            ask.exchange = exchange.baseURL
            return try await gateway.enrolling.enroll(ask).name
        case .pair(let strap, let wearer):
            var ask = PairRequest(address: Self.address(strap))
            switch wearer {
            case .invited(let patient): ask.enrollment = Self.enrollment(patient)
            case .ofWard(let patient):
                ask.enrollment = Self.ward
                ask.patient = Self.patient(patient)
            case .unenrolled(let patient): ask.patient = Self.patient(patient)
            }
            let report = try await gateway.pairing.pair(ask)
            return report.sensor.enrollment ?? Self.noEnrollment
        case .pairAgain(let strap):
            let ask = PairRequest(address: Self.address(strap))
            return try await gateway.pairing.pair(ask).sensor.enrollment ?? Self.noEnrollment
        case .forget(let strap):
            return try await gateway.pairing.forget(address: Self.address(strap)).name
        case .erase(let patient, let ofWard, let givesUp):
            let report = try await gateway.erasing.erase(
                EraseRequest(
                    enrollment: ofWard ? Self.ward : Self.enrollment(patient),
                    patient: ofWard ? Self.patient(patient) : nil, undelivered: givesUp))
            return "\(report.samples) samples, \(report.unsent) unsent"
        case .assign(let further): return try await assign(further: further, seed: seed)
        case .addDestination, .addStraps, .removeStraps, .pause, .resume, .removeDestination:
            return try await change(command)
        case .status: return try await gateway.status.report().well ? "well" : "not well"
        case .straps: return "\(try await gateway.sensors.reports().count) straps"
        case .queue: return "\(try await gateway.store.report().balance.stored) stored"
        case .redeliver(let patient):
            let report = try await gateway.redelivery.redeliver(
                RedeliverRequest(
                    enrollment: Self.enrollment(patient), since: Date(timeIntervalSince1970: 0)))
            return "\(report.samples) samples"
        case .purge:
            return "\(try await gateway.store.purge(PurgeRequest()).delivered) samples"
        }
    }

    /// Gives samples without an enrollment to their patient's, or to the further destination.
    private func assign(further: Bool, seed: UInt64) async throws -> String {
        let unbound = try await gateway.assigning.unbound()
        guard !unbound.isEmpty else { return "none waits" }
        let held = unbound[Int(seed % UInt64(unbound.count))]
        guard let number = held.patient.flatMap({ Int($0) }) else { return "nobody's wait" }
        let report = try await gateway.assigning.assign(
            AssignRequest(
                assignment: held.assignment,
                enrollment: further
                    ? Self.destination : Self.enrollment(number - ExchangeSeed.patient(0))))
        return "assignment \(held.assignment) to \(report.enrollment), \(report.samples) samples"
    }

    private func change(_ command: Command) async throws -> String {
        let service = gateway.destinationService
        let name = Self.destination
        switch command {
        case .addDestination(let everyStrap, let kept):
            let key = Data((0..<32).map { UInt8($0) }).base64EncodedString()
            let settings = [
                "url": "https://\(Network.webhookHost)/heart-rates", "secret": "whsec_" + key,
                "patient": "id",
            ]
            _ = try await service.add(
                DestinationAddRequest(
                    kind: "webhook", settings: settings, name: name, everyStrap: everyStrap,
                    from: kept ? "kept" : "now"))
        case .addStraps(let strap, let kept):
            _ = try await service.straps.change(
                DestinationStrapsRequest(
                    name: name, add: [Self.address(strap)], from: kept ? "kept" : "now"))
        case .removeStraps(let strap):
            _ = try await service.straps.change(
                DestinationStrapsRequest(name: name, remove: [Self.address(strap)]))
        case .pause: _ = try await service.pause(name)
        case .resume: _ = try await service.resume(name)
        case .removeDestination(let givesUp):
            _ = try await service.remove(
                DestinationRemoveRequest(name: name, undelivered: givesUp))
        default: break
        }
        return name
    }

    // MARK: - In the end

    /// Enrolls again where this gateway is no longer authorized.
    func enrollAgain() async throws {
        for enrollment in try await gateway.queue.enrollments()
        where enrollment.state == .enrollAgain {
            let name = enrollment.terms.name
            if let patient = (0..<Script.patients).first(where: { Self.enrollment($0) == name }) {
                try await enroll(patient)
            } else {
                _ = try await run(.enrollKey, link: nil, seed: 0)
            }
        }
    }

    /// Gives samples without an enrollment to their patient's; discards those of nobody.
    func giveAway() async throws {
        for held in try await gateway.assigning.unbound() {
            guard let number = held.patient.flatMap({ Int($0) }) else {
                _ = try await gateway.assigning.discard(DiscardRequest(assignment: held.assignment))
                continue
            }
            let patient = number - ExchangeSeed.patient(0)
            let name = Self.enrollment(patient)
            if try await gateway.queue.enrollments().named(name) == nil {
                try await enroll(patient)
            }
            // Its authorization may just have been found lost: then it is enrolled again first.
            _ = try? await gateway.assigning.assign(
                AssignRequest(assignment: held.assignment, enrollment: name))
        }
    }

    private func enroll(_ patient: Int) async throws {
        let link = await exchange.invite(patient: ExchangeSeed.patient(patient))
        _ = try await run(.enroll(patient: patient), link: link, seed: 0)
    }
}
