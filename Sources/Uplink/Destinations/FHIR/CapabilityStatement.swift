/// The abilities that a FHIR server states, as far as a delivery needs them.
struct CapabilityStatement: Decodable {
    private struct Interaction: Decodable, Sendable { @IfAny var code: String? }
    private struct Parameter: Decodable, Sendable { @IfAny var name: String? }

    private struct Resource: Decodable, Sendable {
        @IfAny var type: String?
        @IfAny var interaction: [IfAny<Interaction>]?
        @IfAny var conditionalCreate: Bool?
        @IfAny var searchParam: [IfAny<Parameter>]?
    }

    private struct Side: Decodable, Sendable {
        @IfAny var mode: String?
        @IfAny var interaction: [IfAny<Interaction>]?
        @IfAny var resource: [IfAny<Resource>]?
    }

    @IfAny private var resourceType: String?
    @IfAny private var fhirVersion: String?
    @IfAny private var format: [String]?
    @IfAny private var rest: [IfAny<Side>]?

    /// The version of FHIR, fit to be shown.
    var version: String {
        (fhirVersion ?? "?").prefix(16).filter {
            $0.isASCII && ($0.isNumber || $0.isLetter || $0 == "." || $0 == "-")
        }
    }

    /// An ability that a delivery needs and the server lacks; nil if it lacks none.
    var problem: DestinationProblem? {
        guard resourceType == "CapabilityStatement" else {
            return DestinationProblem(
                "the server at this address is no FHIR server",
                "give the server's base as url: the part of its address before /metadata")
        }
        let version = fhirVersion ?? ""
        guard version.hasPrefix("4.0.") || version.hasPrefix("4.3.") else {
            return DestinationProblem(
                "the server speaks FHIR \(self.version)",
                "this kind delivers to R4 (4.0 and 4.3): many servers have it at another address")
        }
        if let format, !format.contains(where: { $0.contains("json") }) {
            return Self.lacks("speaks no JSON")
        }
        guard let side = rest?.compactMap(\.wrappedValue).first(where: { $0.mode == "server" }),
            let observation = side.resource?.compactMap(\.wrappedValue).first(where: {
                $0.type == "Observation"
            })
        else { return Self.lacks("has no Observations") }
        // Servers that do both often name only the transactions.
        if let all = side.interaction, Self.codes(all).isDisjoint(with: ["batch", "transaction"]) {
            return Self.lacks("takes no batches")
        }
        let interactions = Self.codes(observation.interaction ?? [])
        if !interactions.contains("create") { return Self.lacks("creates no Observations") }
        if !interactions.contains("search-type") {
            return Self.lacks("does not search Observations")
        }
        guard observation.conditionalCreate == true else {
            return Self.lacks("knows no repetition: it has no conditional create of Observations")
        }
        let parameters = (observation.searchParam ?? []).compactMap { $0.wrappedValue?.name }
        guard parameters.isEmpty || parameters.contains("identifier") else {
            return Self.lacks("does not search Observations by identifier")
        }
        return nil
    }

    private static func codes(_ interactions: [IfAny<Interaction>]) -> Set<String> {
        Set(interactions.compactMap { $0.wrappedValue?.code })
    }

    private static func lacks(_ what: String) -> DestinationProblem {
        DestinationProblem(
            "the server \(what), says its CapabilityStatement",
            "ask its operator to switch that on, or choose another kind of destination")
    }
}
