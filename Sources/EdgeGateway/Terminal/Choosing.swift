import Basics
import Foundation
import OfflineQueue

/// Something that a person can mean: by its name, by its address, or by a part of either.
struct Named<Thing> {
    var thing: Thing
    var name: String
    /// A Bluetooth address; empty for what has none.
    var address = ""

    /// For a list in a message: no message has a whole address.
    var label: String {
        guard !address.isEmpty else { return Printable.line(name) }
        let end = "…" + address.suffix(5)
        return name.isEmpty || name.hasSuffix(end)
            ? Printable.line(name.isEmpty ? end : name)
            : "\(Printable.line(name)) (\(end))"
    }
}

extension Named: Sendable where Thing: Sendable {}

/// Finds the one thing that a person means, whatever command asks: the whole name or address goes before a part,
/// and capitals do not matter. A part that several have, and a name that nothing has, are answered with what there is.
struct Choosing {
    /// The word for one such thing, and for several.
    var one, several: String
    /// The command that lists them.
    var list: String
    /// The command that makes the first one.
    var first: String

    static let strap = Choosing(
        one: "strap", several: "straps", list: "edge-gateway straps",
        first: "edge-gateway scan, then edge-gateway pair STRAP")
    /// One that need not be paired yet.
    static let strapNearby = Choosing(
        one: "strap", several: "straps", list: "edge-gateway scan",
        first:
            "wear the strap with moist electrodes, end its connection to phones and watches, and bring "
            + "it nearer: edge-gateway scan")
    static let enrollment = Choosing(
        one: "enrollment", several: "enrollments", list: "edge-gateway enrollments",
        first: "edge-gateway enroll LINK")
    static let destination = Choosing(
        one: "destination", several: "destinations", list: "edge-gateway destination list",
        first: "edge-gateway destination kinds, or edge-gateway enroll LINK")
    static let alert = Choosing(
        one: "alert", several: "alerts", list: "edge-gateway alert list",
        first: "edge-gateway alert kinds")

    /// So many are listed in a message: a screenful.
    private static let listedMax = 12

    /// The thing that `text` means.
    ///
    /// - Parameters:
    ///   - ranks: the things, those first that go before others of the same name. A part may mean any of them.
    ///   - takesParts: whether a part of a name is enough; not for what cannot be undone and nobody confirms.
    /// - Throws: ``CommandFailure`` that lists what there is.
    func choose<Thing>(
        _ text: String, among ranks: [[Named<Thing>]], takesParts: Bool = true
    ) throws(CommandFailure) -> Thing {
        let words = Words(text)
        let all = ranks.flatMap(\.self)
        var matches = ranks.map { $0.filter(words.areWhole) }
        if takesParts { matches.append(all.filter(words.arePart)) }
        for found in matches {
            if let only = found.first, found.count == 1 { return only.thing }
            if found.count > 1 { throw unclear(words, found) }
        }
        throw unknown(words, all, takesParts: takesParts)
    }

    private func unclear<Thing>(_ words: Words, _ found: [Named<Thing>]) -> CommandFailure {
        let isOneName = found.allSatisfy { $0.name == found.first?.name && !$0.address.isEmpty }
        return CommandFailure(
            exitCode: .wrongUsage,
            message: "\(found.count) \(several) \(words.isAddress ? "have" : "are meant by") "
                + "\(words.shown): \(Self.list(found))\n  "
                + (isOneName ? "give the end of an address" : "name one of them") + " (\(list))")
    }

    private func unknown<Thing>(
        _ words: Words, _ all: [Named<Thing>], takesParts: Bool
    ) -> CommandFailure {
        guard !all.isEmpty else {
            return CommandFailure(
                exitCode: .wrongUsage, message: "there is no \(one) yet\n  \(first)")
        }
        let near =
            Nearest.of(words.text, among: all.map(\.name))
            .map { ", did you mean \(Printable.line($0))?" } ?? ""
        return CommandFailure(
            exitCode: .wrongUsage,
            message: "no \(one) \(words.isAddress ? "has" : "is called") \(words.shown)\(near)\n"
                + "  \(takesParts ? "" : "give the whole name; ")there are: \(Self.list(all)) (\(list))"
        )
    }

    private static func list<Thing>(_ things: [Named<Thing>]) -> String {
        let more = things.count - listedMax
        return things.prefix(listedMax).map(\.label).joined(separator: ", ")
            + (more > 0 ? " and \(more) more" : "")
    }

    /// The words that a person typed.
    private struct Words {
        /// As they were typed.
        let typed: String
        /// In small letters.
        let text: String

        init(_ text: String) {
            typed = text.trimmingCharacters(in: .whitespaces)
            self.text = typed.lowercased()
        }

        var isAddress: Bool { (try? SensorAddress.checked(text)) != nil }
        /// An address is not repeated.
        var shown: String { isAddress ? "this address" : "\"\(Printable.line(typed))\"" }

        func areWhole<Thing>(_ named: Named<Thing>) -> Bool {
            guard !text.isEmpty else { return false }
            // A strap may call itself by another one's address.
            return named.address.lowercased() == text
                || !isAddress && named.name.lowercased() == text
        }

        /// Whether the words are a part of the name or address. A part of a number or of an octet does not count: "bed
        /// 1" is no part of "bed 10".
        func arePart<Thing>(_ named: Named<Thing>) -> Bool {
            guard !text.isEmpty else { return false }
            let octets = ":" + named.address.lowercased() + ":"
            let asked = text.hasPrefix("…") ? String(text.dropFirst()) : text
            if !named.address.isEmpty, octets.contains(":" + asked + ":") { return true }
            if isAddress { return false }
            let name = named.name.lowercased()
            return name.ranges(of: text).contains { range in
                let before = name[..<range.lowerBound].last
                let after = name[range.upperBound...].first
                return !(isDigit(text.first) && isDigit(before))
                    && !(isDigit(text.last) && isDigit(after))
            }
        }

        private func isDigit(_ character: Character?) -> Bool { character?.isNumber ?? false }
    }
}

extension ControlClient {
    /// The straps that a person can mean: the paired ones, and behind them the forgotten ones.
    func namedStraps(includingForgotten: Bool = false) async throws -> [[Named<SensorReport>]] {
        let paired: [SensorReport] = try await exact.get("/v1/sensors")
        var ranks = [paired]
        if includingForgotten {
            let ids = Set(paired.map(\.id))
            let all: [SensorReport] = try await exact.get("/v1/sensors?forgotten=true")
            ranks.append(all.filter { !ids.contains($0.id) })
        }
        return ranks.map { $0.map { Named(thing: $0, name: $0.name, address: $0.address) } }
    }

    /// The strap that a person means.
    ///
    /// - Throws: ``CommandFailure``
    func strap(
        _ text: String, includingForgotten: Bool = false, takesParts: Bool = true
    ) async throws -> SensorReport {
        try Choosing.strap.choose(
            text, among: try await namedStraps(includingForgotten: includingForgotten),
            takesParts: takesParts)
    }

    /// The addresses of the straps that a person means.
    ///
    /// - Throws: ``CommandFailure``
    func addresses(_ texts: [String], takesParts: Bool = true) async throws -> [String] {
        guard !texts.isEmpty else { return [] }
        let straps = try await namedStraps()
        return try texts.map {
            try Choosing.strap.choose($0, among: straps, takesParts: takesParts).address
        }
    }

    /// The destination that a person means, an exchange or another one.
    ///
    /// - Throws: ``CommandFailure``
    func destination(
        _ text: String, takesParts: Bool = true, as kind: Choosing = .destination
    ) async throws -> DestinationReport {
        let all: [DestinationReport] = try await exact.get("/v1/destinations")
        return try kind.choose(
            text, among: [all.map { Named(thing: $0, name: $0.name) }], takesParts: takesParts)
    }

    /// The name of the enrollment or destination that a person means.
    ///
    /// - Throws: ``CommandFailure``
    func enrollment(_ text: String, takesParts: Bool = true) async throws -> String {
        try await destination(text, takesParts: takesParts, as: .enrollment).name
    }

    /// The name of the alert that a person means.
    ///
    /// - Throws: ``CommandFailure``
    func alert(_ text: String, takesParts: Bool = true) async throws -> String {
        let all: [AlertReport] = try await exact.get("/v1/alerts")
        return try Choosing.alert.choose(
            text, among: [all.map { Named(thing: $0.name, name: $0.name) }], takesParts: takesParts)
    }

    /// Names are sent back as they are.
    private var exact: ControlClient { ControlClient(socketPath: socketPath) }
}
