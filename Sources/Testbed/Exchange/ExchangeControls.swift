import Foundation

/// The questions and orders of tests and the demo to the exchange.
extension StandInExchange {
    /// Lets tokens be good for so long that are granted from now on.
    public func setTokenLifetime(seconds: Int) { accessTokenLifetimeSeconds = seconds }

    // MARK: Faults

    /// Makes requests go wrong.
    ///
    /// - Parameters:
    ///   - fault: how.
    ///   - routes: at which endpoints; everywhere unless given.
    ///   - span: how often or how long; the next request only unless given.
    public func inject(
        _ fault: ExchangeFault, on routes: Set<ExchangeRoute> = Set(ExchangeRoute.allCases),
        for span: ExchangeFaultSpan = .requests(1)
    ) {
        faults.add(fault, on: routes, span: span, now: now)
    }

    /// Ends every fault that was injected, poison and slow pace included.
    public func clearFaults() {
        faults.clear()
        poisoned = []
        refused = []
        unreadable = []
        pacePerEntry = .zero
    }

    /// Every bundle with this identifier fails whole with 500, for ever; alone at the
    /// single-resource endpoint it gets an honest 400.
    public func poison(_ identifier: ExchangeIdentifier) { poisoned.insert(identifier) }

    /// The entry with an identifier of this value gets an honest 422, as one gets whose data point
    /// breaks its schema; the others of its bundle are stored.
    public func refuse(_ value: String) { refused.insert(value) }

    /// Every question about this patient's consents is a 500 page; everything else goes on.
    public func breakConsents(of patient: Int) { unreadable.insert(patient) }

    /// Gives a patient's number to somebody else, as an exchange does whose database was made anew. Whoever holds the
    /// patient's tokens reads and writes under that number; ``revokeTokens(alsoRefreshTokens:)`` takes them away.
    public func giveNumber(ofPatient number: Int) {
        guard let index = seed.patients.firstIndex(where: { $0.id == number }) else { return }
        seed.patients[index].userID += 1000
        seed.patients[index].email = "new-\(seed.patients[index].email)"
        seed.patients[index].birthDate = "1990-12-24"
    }

    /// Puts back a backup that has the first `count` stored rows: the others are gone, and their identifiers are new
    /// again.
    public func restoreBackup(rows count: Int) {
        let kept = Set(observations.prefix(count).map(\.id))
        observations.removeAll { !kept.contains($0.id) }
        identifierOwners = identifierOwners.filter { kept.contains($0.value) }
    }

    /// How long the server works on one entry. A worker busy for over 30 s is killed; and two
    /// workers with the same identifiers race, which leaves orphans.
    public func setPace(perEntry pace: Duration) { pacePerEntry = pace }

    // MARK: What is stored

    /// Every stored row, in the order of storing.
    public var stored: [StoredObservation] { observations }

    /// The row stored last.
    public var lastStored: StoredObservation? { observations.last }

    /// How many rows are stored, of one patient or of all.
    public func storedCount(patient: Int? = nil) -> Int {
        patient.map { id in observations.count { $0.patient == id } } ?? observations.count
    }

    /// Rows whose identifier was lost in a race of two requests. A well-behaved client leaves none.
    public var orphans: Int { observations.count { $0.isOrphan } }

    /// Requests that came while another with one of the same identifiers was still being worked
    /// on. A well-behaved client makes none.
    public var overlappingRequests: Int { overlaps }

    /// Samples that a worker holds right now; a worker goes on when its client is gone.
    public var samplesUnderWay: Int { inFlight.count }

    /// The `header.uuid`s of data points stored more than once, with how often.
    public var duplicates: [String: Int] {
        var counts: [String: Int] = [:]
        for row in observations {
            guard let uuid = row.dataPoint["header"]?["uuid"]?.string else { continue }
            counts[uuid, default: 0] += 1
        }
        return counts.filter { $0.value > 1 }
    }

    /// The server's number for the next row.
    var nextRowID: Int { 60001 + rowsForgotten + observations.count }

    /// Forgets the rows stored so far, but for the last: a week of them takes gigabytes. Their identifiers stay taken,
    /// and their numbers are not given again.
    public func forgetStored() {
        let count = max(observations.count - 1, 0)
        observations.removeFirst(count)
        rowsForgotten += count
    }

    /// Every request seen, in the order of arrival.
    public var requests: [ExchangeRequestRecord] { log }

    /// Forgets the requests seen so far; their numbers are not given again.
    public func forgetRequests() {
        logStart += log.count
        log = []
    }
}
