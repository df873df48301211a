import Foundation
import OfflineQueue

/// Samples that destinations refused for good.
struct DeadLetterService: Sendable {
    let queue: SampleQueue
    let destinations: Destinations
    let deliveries: Deliveries

    /// Letters read, put back or purged in one transaction.
    private static let lettersAtOnce = 500

    /// Dead letters, newest first: of all destinations or of one by its number, and only those of samples
    /// numbered below `before`.
    func list(destination: Int64?, before: Int64?, limit: Int) async throws -> DeadLettersReport {
        try Listing.check(limit: limit)
        let names = try await StoreNames(queue)
        // All those of its last sample, which may be a few more: the next page begins behind it.
        let letters = try await queue.deadLetters(of: destination, before: before, limit: limit)
        let next = try await queue.deadLetters(
            of: destination, before: letters.last?.sampleID ?? 0, limit: 1)
        return DeadLettersReport(
            letters: letters.map { DeadLetterReport($0, names) }, more: !next.isEmpty)
    }

    /// One dead letter.
    func letter(_ id: Int64) async throws -> DeadLetterReport {
        guard let letter = try await queue.deadLetter(id) else {
            throw ProblemReport(
                code: .unknownReference, message: "there is no such dead letter",
                advice: "edge-gateway queue dead list")
        }
        return DeadLetterReport(letter, try await StoreNames(queue))
    }

    /// Puts dead letters back into their deliveries.
    func requeue(_ ask: DeadLettersRequest) async throws -> SampleCountReport {
        let count = try await choose(ask) {
            try await queue.requeue(deadLetters: $0, destination: $1)
        }
        await deliveries.wakeAll()
        return SampleCountReport(samples: count)
    }

    /// Gives dead letters up; returns how many.
    func purge(_ ask: DeadLettersRequest) async throws -> Int {
        try await choose(ask) { try await queue.purge(deadLetters: $0, destination: $1) }
    }

    private func choose(
        _ ask: DeadLettersRequest, _ work: ([Int64], Int64?) async throws -> Int
    ) async throws -> Int {
        let ids = ask.ids ?? []
        guard ids.isEmpty == (ask.all ?? false), ids.count <= Listing.entriesMax else {
            throw ProblemReport(
                code: .badRequest, message: "name up to \(Listing.entriesMax) dead letters, or all",
                advice: "edge-gateway queue dead list")
        }
        var destination: Int64?
        if let name = ask.destination { destination = try await destinations.known(name).id }
        if !ids.isEmpty { return try await work(ids, destination) }
        return try await each(of: destination) { try await work($0.map(\.sampleID), destination) }
    }

    /// Does something with all dead letters, newest first, of all destinations or of one; what dies meanwhile
    /// is not among them.
    func each(
        of destination: Int64? = nil, _ work: ([DeadLetter]) async throws -> Int
    ) async throws -> Int {
        var count = 0
        var before: Int64?
        while true {
            let letters = try await queue.deadLetters(
                of: destination, before: before, limit: Self.lettersAtOnce)
            guard let last = letters.last else { return count }
            count += try await work(letters)
            before = last.sampleID
        }
    }
}

extension DeadLetterReport {
    fileprivate init(_ letter: DeadLetter, _ names: StoreNames) {
        self.init(
            id: letter.sampleID, uuid: letter.uuid,
            time: letter.time.map { Date($0) },
            died: letter.died.map { Date($0) }, sensor: letter.sensorID,
            address: names.address(letter.sensorID), name: names.name(letter.sensorID),
            enrollment: letter.enrollmentID.flatMap(names.enrollment),
            bpm: StoreNames.bpm(letter.frame),
            frame: letter.frame.map { String(format: "%02x", $0) }.joined(),
            reason: letter.reason, diagnostics: letter.diagnostics)
    }
}
