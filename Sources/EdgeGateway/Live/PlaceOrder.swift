import Foundation

/// The order of straps on every screen: first those that `page.order` names, then the others by their names, where
/// Bed 2 is before Bed 10.
struct PlaceOrder {
    private let named: [String: Int]

    /// - Parameter names: names of straps; a name that no strap has takes no place.
    init(_ names: [String]) {
        let list = names.map(Self.folded)
        named = Dictionary(zip(list, list.indices)) { first, _ in first }
    }

    func sorted<Strap: Identifiable>(
        _ straps: [Strap], by name: (Strap) -> String
    ) -> [Strap] where Strap.ID == Int64 {
        straps.map {
            let name = name($0)
            return (strap: $0, name: name, place: named[Self.folded(name)] ?? named.count)
        }.sorted {
            if $0.place != $1.place { return $0.place < $1.place }
            return switch $0.name.compare($1.name, options: [.numeric, .caseInsensitive]) {
            case .orderedAscending: true
            case .orderedDescending: false
            case .orderedSame: $0.strap.id < $1.strap.id
            }
        }.map(\.strap)
    }

    private static func folded(_ name: some StringProtocol) -> String {
        name.trimmingCharacters(in: .whitespaces).lowercased()
    }
}
