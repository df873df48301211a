/// The items that the rules did not look for, because that of a cause says all there is to say. Whether they hold is
/// not known meanwhile: they neither begin nor end.
public struct Unjudged: Sendable {
    private(set) var names: Set<HealthName> = []
    private(set) var items: Set<HealthCondition.Identity> = []

    /// Everything was judged.
    public init() {}

    /// The items that `conditions` leave unjudged in a snapshot.
    public init(_ snapshot: HealthSnapshot, beside conditions: [HealthCondition]) {
        var explained: Set<String> = []
        for cause in conditions {
            switch cause.name.explains {
            case .everyItem: names.formUnion(HealthName.allCases.filter { $0 != cause.name })
            case .everyStrap:
                // The radio's own that come behind the cause, and those of straps.
                names.formUnion(
                    HealthName.allCases.drop { $0 != cause.name }.dropFirst()
                        .prefix { $0 != .clockUntrusted })
            case .strapsWithoutPlace:
                for strap in snapshot.straps where strap.trouble == .noPlace {
                    insert([.strapSilent, .strapIntermittent], "\(strap.id)")
                }
            case .itsStrap: insert([.strapSilent, .strapIntermittent], cause.subject)
            case .theStore: names.formUnion([.storeStalled, .strapNotStored])
            case .itsDelivery: explained.formUnion(cause.deliveries)
            case nil: break
            }
        }
        for name in explained { insert([.deliveryStalled, .fallingBehind], name) }
        for (place, there) in Dictionary(grouping: snapshot.deliveries, by: \.place)
        where there.allSatisfy({ explained.contains($0.name) }) {
            insert([.deliveryStalled], "\(place) \(HealthRules.stalledFault)")
        }
    }

    private mutating func insert(_ names: [HealthName], _ subject: String) {
        items.formUnion(names.map { HealthCondition.Identity(name: $0, subject: subject) })
    }

    /// Whether nobody looked for this item.
    func contains(_ item: HealthCondition.Identity) -> Bool {
        names.contains(item.name) || items.contains(item)
    }
}
