import Foundation
import Uplink

/// Marks of straps by which a fleet's screen knows one strap at two gateways.
///
/// A mark is a hash of the strap's address under a secret that the gateways of a fleet share. Without the secret nobody
/// can try all addresses, of which there are few.
struct StrapMarks: Sendable {
    private static let digits = 32

    let secret: Secret

    func mark(ofAddress address: String) -> String {
        Digests.mark("strap\n" + address.uppercased(), under: secret)
    }

    /// Whether a gateway can have made it.
    static func isMark(_ text: String) -> Bool {
        text.utf8.count == digits && text.wholeMatch(of: /[0-9a-f]+/) != nil
    }
}

/// A strap of a gateway, as a fleet compares it with those of others.
struct FleetStrap: Codable, Equatable, Sendable {
    var name: String
    /// The same at each gateway that has this strap.
    var mark: String
}

extension FleetItem {
    /// The name of the item about a strap that two gateways have.
    static let strapElsewhere = "strap-elsewhere"

    /// - Parameter others: the other gateways, and the strap's name there.
    fileprivate init(_ strap: FleetStrap, at others: [(gateway: String, name: String)], since: Date)
    {
        let places = others.prefix(3).map {
            $0.name == strap.name ? $0.gateway : "\($0.gateway) as \($0.name)"
        }
        let rest = others.count - places.count
        self.init(
            name: Self.strapElsewhere, severity: "warning", since: since,
            detail: "\(strap.name) is also paired with " + places.joined(separator: ", ")
                + (rest > 0 ? " and \(rest) more" : ""),
            remedy: "decide which of them keeps it; on the other: edge-gateway forget STRAP; "
                + "docs/operate/fleet.md",
            sensor: strap.name)
    }
}

extension FleetMemory {
    /// Adds an item to each row with a strap that another row has as well: recorded by both it is stored twice, and
    /// recorded by one it is a gap at the other, while each gateway by itself is well.
    mutating func findShared(in rows: inout [FleetGateway], at now: Date) {
        // A gateway may have one strap only once.
        var places: [String: [Int: FleetStrap]] = [:]
        for (index, row) in rows.enumerated() {
            for strap in row.straps ?? [] { places[strap.mark, default: [:]][index] = strap }
        }
        places = places.filter { $0.value.count > 1 }
        sharedSince = Dictionary(
            uniqueKeysWithValues: places.keys.sorted().prefix(Self.entriesMax)
                .map { ($0, sharedSince?[$0] ?? now) })
        for index in rows.indices {
            let shared = (rows[index].straps ?? []).filter { places[$0.mark]?[index] == $0 }
            for strap in shared {
                let others = (places[strap.mark] ?? [:]).filter { $0.key != index }
                    .sorted { $0.key < $1.key }
                    .map { (gateway: rows[$0.key].name, name: $0.value.name) }
                let since = sharedSince?[strap.mark] ?? now
                rows[index].add(FleetItem(strap, at: others, since: since))
            }
        }
    }
}

extension FleetGateway {
    fileprivate mutating func add(_ item: FleetItem) {
        since = state == .well ? item.since : min(since, item.since)
        state = .notWell
        items.append(item)
    }
}
