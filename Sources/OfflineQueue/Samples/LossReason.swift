/// Why the store counts samples as lost that nobody decided to give up: no person, as with what is purged, and
/// no setting of a delivery, as with what is withheld. Losses of a broken store are in the report on its salvage.
///
/// Raw values are stored: they never change.
public enum LossReason: String, Sendable, CaseIterable {
    /// There was no room: the store was at its limit.
    case queueFull = "queue-full"
    /// They waited longer than ``QueueSettings/maxAge``, or than their further destination allows.
    case maxAge = "max-age"
    /// Neither disk nor memory could take them.
    case storeUnwritable = "store-unwritable"

    /// Why a frame that arrived may not be stored.
    public static let ofRefusals: [LossReason] = [.queueFull, .storeUnwritable]
    /// Why a stored sample may be dropped.
    public static let ofDrops: [LossReason] = [.queueFull, .maxAge]
}
