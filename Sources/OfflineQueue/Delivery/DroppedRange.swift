/// Samples one transaction dropped: those of a segment among `ids`, for one destination.
struct DroppedRange: Sendable {
    var books: DeliveryBooks
    var ids: ClosedRange<Int64>
    var reason: String
}
