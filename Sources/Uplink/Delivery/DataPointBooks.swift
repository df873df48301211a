import OfflineQueue

/// The outcome of the data points of each kind since the delivery began. The store counts samples, which is to
/// say heart rates: what becomes of RR intervals is seen here alone.
public struct DataPointBooks: Sendable, Hashable {
    /// A kind of data point, as far as destinations treat them differently.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Of one frame, or the average of a window.
        case heartRate = "heart-rate"
        case rrInterval = "rr-interval"
    }

    /// The outcome of those of one kind.
    public struct Count: Sendable, Hashable {
        /// The destination has them.
        public var delivered = 0
        /// It did not take them, and they are not sent again; by reason.
        public var refused: [String: Int] = [:]
    }

    /// The counts; none of a kind of which nothing was sent.
    public private(set) var counts: [Kind: Count] = [:]

    /// Nothing was sent yet.
    public init() {}

    mutating func note(_ resolved: [Delivery.Resolved], of points: [OutgoingPoint]) {
        for one in resolved where points.indices.contains(one.index) {
            let kind = points[one.index].point.isInterval ? Kind.rrInterval : .heartRate
            switch one.outcome {
            case .delivered: counts[kind, default: Count()].delivered += 1
            case .dead(let reason, _), .dropped(let reason):
                counts[kind, default: Count()].refused[reason, default: 0] += 1
            }
        }
    }
}
