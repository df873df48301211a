import Foundation

// The store's part of the JSON contract (docs/api.yaml).

/// `GET /v1/queue`
struct QueueReport: Codable, Equatable {
    var balance: BalanceReport
    /// The books of each destination: its own straps' samples, and those that go there as well.
    var destinations: [DestinationBooksReport]
    /// When the oldest unsent sample was measured.
    var oldestUnsent: Date?
    /// Bytes taken; of these, those of samples that are done with and go first.
    var usedBytes: Int64
    var reclaimableBytes: Int64
    /// The write-ahead log beside the store, which the limit does not cover.
    var logBytes: Int64
    /// Left out without a limit.
    var maxBytes: Int64?
    /// `refuse-new` or `keep-newest`.
    var fullPolicy: String
    /// Samples are refused or dropped at this moment for want of room.
    var full: Bool
    /// Boots whose clock is not trusted.
    var clockUnknownBoots: Int
    /// The outcome of broken stores, newest first.
    var salvages: [SalvagedStoreReport]
}

/// The books of one destination.
struct DestinationBooksReport: Codable, Equatable {
    var name: String
    var balance: BalanceReport
}

/// A store that broke and was replaced by what could be read of it.
struct SalvagedStoreReport: Codable, Equatable {
    var at: Date
    /// Its name beside the store.
    var brokenFile: String
    var cause: String
    /// The number of samples in the broken store, and the time of that count; left out if it is unknown.
    var stored: Int?
    var storedAt: Date?
    /// Samples that were salvaged; left behind as damaged; left behind without a known strap and patient.
    var carried: Int
    var damaged: Int
    var orphaned: Int
    /// Samples that are unaccounted for; left out if their number is unknown.
    var unknown: Int?
    /// The salvage has ended.
    var done: Bool
    /// The reason why the salvage cannot go on; left out while it can.
    var fault: String? = nil
    var acknowledged: Bool
}

/// A stored sample.
struct SampleReport: Codable, Equatable {
    var id: Int64
    /// Left out where the clock is not trusted.
    var time: Date?
    /// How far it may be wrong; left out where nobody says.
    var timeUncertaintyMs: Int64? = nil
    var sensor: Int64
    /// Masked: its end.
    var address: String
    var name: String
    var enrollment: String?
    var bpm: Int?
    /// `pending`, `held`, `dead`, `delivered` or `dropped`.
    var state: String
    var reason: String?
}

/// `GET /v1/queue/samples`
struct SamplesReport: Codable, Equatable {
    /// Newest first.
    var samples: [SampleReport]
    /// There are more than were asked for.
    var more: Bool
}

/// A sample that a destination refused for good.
struct DeadLetterReport: Codable, Equatable {
    var id: Int64
    /// The identifier under which the sample was offered.
    var uuid: String
    var time: Date?
    var died: Date?
    var sensor: Int64
    /// Masked: its end.
    var address: String
    var name: String
    var enrollment: String?
    var bpm: Int?
    /// Hexadecimal digits.
    var frame: String
    var reason: String
    /// The destination's own words.
    var diagnostics: String
}

/// `GET /v1/queue/dead`
struct DeadLettersReport: Codable, Equatable {
    /// Newest first.
    var letters: [DeadLetterReport]
    var more: Bool
}

/// `POST /v1/queue/dead/requeue` and `…/purge`
struct DeadLettersRequest: Codable {
    var ids: [Int64]?
    var all: Bool?
    /// Only those of the destination with this name; left out: wherever the samples died.
    var destination: String?
}

/// How many samples something was done with.
struct SampleCountReport: Codable, Equatable { var samples: Int }

/// A boot whose clock is not trusted.
struct BootReport: Codable, Equatable {
    var boot: String
    /// It is the one that runs, and may yet be synchronised.
    var running: Bool
    /// Samples that wait for its time.
    var held: Int
    /// Seconds after the boot at which its first and last frame arrived.
    var firstUptime: Double
    var lastUptime: Double
    /// UTC − uptime in seconds, at the least and, if anything newer is known, at the most: between
    /// them its frames come in order with all others.
    var earliestOffset: Double
    var latestOffset: Double?
}

/// `POST /v1/queue/release`
struct ReleaseRequest: Codable {
    var boot: String
    /// UTC − uptime, in seconds since 1970.
    var offset: Double
}

/// The samples that wait under an assignment without an enrollment.
struct UnboundReport: Codable, Equatable {
    /// The assignment's number.
    var assignment: Int64
    var sensor: Int64
    /// Masked: its end.
    var address: String
    var name: String
    /// Whom it was paired for, if that was said.
    var patient: String?
    /// The times of its samples, as far as they are known.
    var first: Date?
    var last: Date?
    /// Samples that wait.
    var samples: Int
    /// The strap records under it still: `pair` gives its samples to an enrollment, too.
    var recording: Bool
    /// Nobody knows for certain who wore the strap then.
    var unsure: Bool
}

/// `POST /v1/queue/assign`
struct AssignRequest: Codable {
    /// The assignment's number.
    var assignment: Int64
    /// The name of the enrollment or destination that its samples go to.
    var enrollment: String
    /// The exchange's id, for an enrollment with several patients; left out: the one it was paired for.
    var patient: String?
    /// The exchange's id, if several devices fit the patient.
    var device: String?
}
struct AssignReport: Codable, Equatable {
    var enrollment: String
    /// Samples that now wait for their delivery.
    var samples: Int
    /// Advice for a technician.
    var notes: [String]
}

/// `POST /v1/queue/discard`
struct DiscardRequest: Codable {
    /// The assignment's number.
    var assignment: Int64
}

/// `POST /v1/queue/redeliver`
struct RedeliverRequest: Codable {
    /// The only enrollment, if left out.
    var enrollment: String?
    var since: Date
    /// Only says what would be sent.
    var countOnly: Bool?
}

struct RedeliverReport: Codable, Equatable {
    var enrollment: String
    var samples: Int
    /// When the first of them was measured; left out if there are none.
    var first: Date?
    /// When the oldest delivered sample that the store still has was measured; left out if it has none.
    var keptSince: Date?
}

/// `POST /v1/queue/purge`
struct PurgeRequest: Codable {
    /// Delivered and dropped samples that are older than this go; 0 or left out: all of them.
    var olderThanHours: Int?
    /// Dead letters go too.
    var dead: Bool?
}
struct PurgeReport: Codable, Equatable {
    var delivered: Int
    var dead: Int
}

/// `POST /v1/queue/import/part`
struct ImportPartReport: Codable, Equatable {
    /// Names the upload in its next parts.
    var upload: String
    /// Bytes there are now.
    var bytes: Int64
}
/// `POST /v1/queue/import`
struct ImportRequest: Codable {
    var upload: String
    /// The enrollment that delivers the samples; the only one if left out.
    var enrollment: String?
    var patient: String?
    /// Numbers of the file's assignments; its only one if left out.
    var assignments: [Int64]?
    /// Names of further destinations for which the file's samples wait and that are left out.
    var without: [String]?
}
struct ImportReport: Codable, Equatable {
    /// Samples that are new, and will be delivered.
    var added: Int
    /// Samples that are or were here already.
    var known: Int
    /// Samples that were not taken, since they might be delivered twice, or another in their place.
    var unsure: Int
    /// Which these are, in the order of the file, a thousand entries at most.
    var unsureSamples: [UnsureSamplesReport]
    /// Samples that were delivered, dropped or dead where they come from, or wait for a destination that
    /// was left out.
    var settled: Int
    /// Samples of assignments that were not asked for.
    var notSelected: Int
}

/// Samples that an import did not take: one after the other in the file.
struct UnsureSamplesReport: Codable, Equatable {
    /// Masked: its end.
    var address: String
    /// The assignment's number in the file.
    var assignment: Int64
    /// Their times, as far as the file says them.
    var first: Date?
    var last: Date?
    var samples: Int
    /// The line of the first of them in the file.
    var line: Int
    /// `lost`, `number-taken` or `run-goes-on`.
    var reason: String
}

/// One request of a delivery.
struct UploadReport: Codable, Equatable {
    /// When it ended; left out where the clock was not trusted.
    var at: Date?
    var enrollment: String
    var samples: Int
    /// The times of its samples.
    var first: Date?
    var last: Date?
    /// `delivered`, or what went wrong.
    var outcome: String
}

/// `GET /v1/history`
struct HistoryReport: Codable, Equatable {
    /// Newest first.
    var uploads: [UploadReport]
    var more: Bool
}

/// The heart rate of one sensor in one hour: `GET /v1/history/hours`
struct HourReport: Codable, Equatable {
    var sensor: Int64
    /// Masked: its end.
    var address: String
    var name: String
    /// The hour's beginning.
    var hour: Date
    /// Samples with a heart rate.
    var samples: Int
    var meanBpm: Double
    var lowestBpm: Int
    var highestBpm: Int
    /// How far the time of one of them may be wrong, at the most; left out where nobody says.
    var timeUncertaintyMs: Int64? = nil
}
