// Erasing's part of the JSON contract (docs/api.yaml).

/// `POST /v1/erase`
struct EraseRequest: Codable {
    /// The enrollment's name.
    var enrollment: String
    /// The exchange's id of one patient of an enrollment for many; left out: the whole enrollment.
    var patient: String?
    /// Samples that were not delivered are given up.
    var undelivered: Bool?
}
struct EraseReport: Codable, Equatable {
    var enrollment: String
    /// The enrollment and its tokens went too.
    var enrollmentErased: Bool
    /// Samples that had been stored, over all time; frames that could not be decoded; of the samples those
    /// that were not delivered.
    var samples: Int
    var undecodable: Int
    var unsent: Int
    /// The samples that further destinations did not get: each sample once for every one of them.
    var furtherUnsent: Int
    /// The store's log holds nothing of it any more; false while another program reads the store.
    var logEmptied: Bool
    /// Files to delete: they may still hold some of it. Never the store's own.
    var left: [String]
}
