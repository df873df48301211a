import Basics
import OfflineQueue

/// Delivery through a relay: a request of at most a hundred points, and the exchange's answer to each.
actor NATSDestination: Destination {
    private let kind: NATSKind
    private let connection: NATSConnection
    private let clock: any GatewayClock
    private let patience: Duration
    private let patient: String?
    /// Why the last attempt delivered nothing; nil after one that did.
    private(set) var fault: String?

    /// - Parameter patient: of points that name none.
    init(_ kind: NATSKind, patient: String?, _ parts: DestinationParts) {
        self.kind = kind
        self.patient = patient
        connection = NATSConnection(kind.settings(parts.network))
        clock = parts.clock
        patience = parts.network.totalTimeout
    }

    nonisolated var mayRace: Bool { NATSKind.promise.mayRace }

    nonisolated var servesMany: Bool { true }

    func finish() async { await connection.close() }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        var sent: [OutgoingPoint] = []
        for var point in points {
            guard let whose = point.patient ?? patient else { continue }
            point.patient = whose
            sent.append(point)
        }
        let unknown = EntryAnswer(.held(.patientUnknown))
        guard points.isEmpty || !sent.isEmpty else {
            fault = "the strap is paired without a patient"
            return .entries(points.map { _ in unknown })
        }
        let answer = await send(sent, alone: alone && sent.count == 1)
        guard sent.count < points.count, case .entries(let entries) = answer else { return answer }
        var known = entries.makeIterator()
        return .entries(
            points.map { $0.patient == nil && patient == nil ? unknown : known.next() ?? unknown })
    }

    private func send(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        guard let bytes = RelayRequest(points, isAlone: alone, patience: patience).bytes else {
            return .malformed
        }
        if let fault = await connection.open() { return notSent(fault) }
        switch await connection.request(kind.subject, bytes, patience: patience) {
        case .notSent(let fault): return notSent(fault)
        case .noResponders:
            fault = "no relay listens"
            return .notSent(retryAt: nil)
        case .unanswered(let cause):
            fault = "the relay: \(cause)"
            return .unanswered("\(cause)")
        case .answered(let payload):
            guard let answer = RelayAnswer(reading: payload) else {
                fault = "the answer is not from a relay of this version"
                return .unclear("relay-unreadable")
            }
            let said = answer.answer(count: points.count, clock.read().uptime)
            fault = words(said)
            return said
        }
    }

    private func notSent(_ why: NATSFault) -> DeliveryAnswer {
        fault = why.description
        switch why {
        case .refused: return .held(.credentialsRefused, retryAt: nil)
        case .forbidden: return .held(.forbidden, retryAt: nil)
        case .tooLarge: return .tooLarge
        case .noLibrary, .connect, .tls, .plainRefused, .certificateFile, .cut:
            return .notSent(retryAt: nil)
        }
    }

    private func words(_ answer: DeliveryAnswer) -> String? {
        switch answer {
        case .entries(let entries):
            entries.isEmpty || entries.contains { $0.verdict != .unclear }
                ? nil : "the exchange behind the relay stores no sample"
        case .throttled: "the relay has more work than it can do in time"
        case .notSent: "the relay does not reach the exchange"
        case .unclear("exchange"): "the exchange behind the relay does not answer"
        case .unclear(let word), .unanswered(let word): "the relay's request failed: \(word)"
        case .malformed, .tooLarge: "the relay refuses the request"
        case .held(let reason, _): reason.meaning
        }
    }

    // MARK: - Looking around, with a request of no points

    func isHealthy() async -> Bool { await send([], alone: false) == .entries([]) }

    func isMended(_ reason: HoldReason) async -> Bool { await isHealthy() }
}
