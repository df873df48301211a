/// As much of FHIR R5 as decides whether the exchange can read a Bundle or an Observation.
///
/// Elements the gateway may send are checked all the way down; of the others only whether they
/// exist in R5 and are a list, an object or a plain value. The exchange uses fhir.resources 7.1;
/// the tests change every member of an Observation (outside its lists) in a dozen ways, and what
/// the library refuses of those this refuses too.
indirect enum FHIRShape: Sendable {
    /// A text, empty or not: URIs, and what the real server was seen to take empty.
    case text
    /// A text that is not empty.
    case words
    case code
    case id
    case boolean
    case number
    case dateTime
    /// A date with a time of day and an offset.
    case instant
    /// Any object: an element this stand-in does not look into.
    case anything
    case list(FHIRShape)
    case element([String: FHIRShape], required: [String] = [], choices: [String] = [])

    /// The first fault, as "path\n  reason"; nil when the value has this shape.
    func fault(in value: ExchangeJSON, at path: [String] = []) -> String? {
        switch self {
        case .text: return value.string == nil ? refuse(path, "str type expected") : nil
        case .words:
            guard let text = value.string else { return refuse(path, "str type expected") }
            return text.isEmpty ? refuse(path, "string does not match regex") : nil
        case .code:
            // No leading, trailing or double white space, and not empty.
            guard let text = value.string else { return refuse(path, "str type expected") }
            let words = text.split(omittingEmptySubsequences: false) { $0.isWhitespace }
            return words.contains("") ? refuse(path, "string does not match regex") : nil
        case .id:
            guard let text = value.string else { return refuse(path, "str type expected") }
            let fits = text.allSatisfy {
                $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == ".")
            }
            return fits && (1...64).contains(text.count)
                ? nil : refuse(path, "string does not match regex")
        case .boolean:
            if case .bool = value { return nil }
            return refuse(path, "value could not be parsed to a boolean")
        case .number: return value.double == nil ? refuse(path, "value is not a valid number") : nil
        case .instant:
            guard let text = value.string, text.count > "2026-11-21".count else {
                return refuse(path, "invalid datetime format")
            }
            return FHIRShape.dateTime.fault(in: value, at: path)
        case .dateTime:
            guard let text = value.string, text.wholeMatch(of: Self.dateTimePattern()) != nil else {
                return refuse(path, "invalid datetime format")
            }
            return nil
        case .anything:
            return value.object == nil ? refuse(path, "value is not a valid dict") : nil
        case .list(let shape):
            guard let values = value.array else { return refuse(path, "value is not a valid list") }
            for (index, value) in values.enumerated() {
                if let fault = shape.fault(in: value, at: path + ["\(index)"]) { return fault }
            }
            return nil
        case .element(let known, let required, let choices):
            return elementFault(in: value, at: path, known, required, choices)
        }
    }

    private func elementFault(
        in value: ExchangeJSON, at path: [String], _ known: [String: FHIRShape],
        _ required: [String],
        _ choices: [String]
    ) -> String? {
        guard let members = value.object else {
            return refuse(path + ["__root__"], "Invalid json value has been provided")
        }
        // A null counts as absent, except where an element is required.
        let present = members.filter { $0.value != .null }
        for name in required where !present.contains(where: { $0.name == name }) {
            return refuse(path + ["__root__", name], "field required")
        }
        for choice in choices where present.count(where: { $0.name.hasPrefix(choice) }) > 1 {
            return refuse(
                path + ["__root__"],
                "Any of one field value is expected of \(choice)[x], got multiple!")
        }
        for member in members {
            if member.name == "resourceType" || member.name == "extension" { continue }
            // `_name` extends a primitive.
            if member.name.hasPrefix("_"), known[String(member.name.dropFirst())] != nil {
                continue
            }
            guard let shape = known[member.name] else {
                return refuse(path + [member.name], "extra fields not permitted")
            }
            guard member.value != .null else { continue }
            if let fault = shape.fault(in: member.value, at: path + [member.name]) { return fault }
        }
        return nil
    }

    private func refuse(_ path: [String], _ reason: String) -> String {
        path.joined(separator: " -> ") + "\n  " + reason
    }

    private static func dateTimePattern() -> Regex<AnyRegexOutput> {
        let pattern = #"""
            \d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01])([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?
            """#
        // The pattern is a literal: were it wrong, every test here would say so.
        return (try? Regex(pattern)) ?? Regex(verbatim: "")
    }
}

extension FHIRShape {
    private static let period = FHIRShape.element([
        "id": .text, "start": .dateTime, "end": .dateTime,
    ])
    private static let coding = FHIRShape.element([
        "id": .text, "system": .text, "version": .words, "code": .code, "display": .words,
        "userSelected": .boolean,
    ])
    private static let concept = FHIRShape.element([
        "id": .text, "coding": .list(coding), "text": .words,
    ])
    private static let identifier = FHIRShape.element([
        "id": .text, "use": .code, "type": concept, "system": .text, "value": .text,
        "period": period, "assigner": .anything,
    ])
    private static let reference = FHIRShape.element([
        "id": .text, "reference": .words, "type": .text, "identifier": identifier,
        "display": .words,
    ])
    private static let attachment = FHIRShape.element([
        "id": .text, "contentType": .code, "language": .code, "data": .text, "url": .text,
        "size": .number, "hash": .text, "title": .words, "creation": .dateTime, "height": .number,
        "width": .number, "frames": .number, "duration": .number, "pages": .number,
    ])
    private static let meta = FHIRShape.element([
        "id": .text, "versionId": .id, "lastUpdated": .instant, "source": .text,
        "profile": .list(.text), "security": .list(coding), "tag": .list(coding),
    ])

    /// The members that an Observation and each of its components can have.
    private static let value: [String: FHIRShape] = [
        "code": concept, "modifierExtension": .list(.anything), "valueQuantity": .anything,
        "valueCodeableConcept": concept, "valueString": .words, "valueBoolean": .boolean,
        "valueInteger": .number, "valueRange": .anything, "valueRatio": .anything,
        "valueSampledData": .anything, "valueTime": .text, "valueDateTime": .dateTime,
        "valuePeriod": period, "valueAttachment": attachment, "valueReference": reference,
        "dataAbsentReason": concept, "interpretation": .list(concept),
        "referenceRange": .list(.anything),
    ]
    private static let component = FHIRShape.element(
        value.merging(["id": .text]) { own, _ in own }, required: ["code"], choices: ["value"])

    /// An Observation, R5.
    static let observation = FHIRShape.element(
        [
            "id": .id, "meta": meta, "implicitRules": .text, "language": .code, "text": .anything,
            "contained": .list(.anything), "modifierExtension": .list(.anything),
            "identifier": .list(identifier), "instantiatesCanonical": .text,
            "instantiatesReference": reference, "basedOn": .list(reference),
            "triggeredBy": .list(.anything), "partOf": .list(reference), "status": .code,
            "category": .list(concept), "code": concept, "subject": reference,
            "focus": .list(reference), "encounter": reference, "effectiveDateTime": .dateTime,
            "effectivePeriod": period, "effectiveTiming": .anything, "effectiveInstant": .instant,
            "issued": .instant, "performer": .list(reference), "note": .list(.anything),
            "bodySite": concept, "bodyStructure": reference, "method": concept,
            "specimen": reference, "device": reference, "hasMember": .list(reference),
            "derivedFrom": .list(reference),
            "component": .list(component),
        ].merging(value) { own, _ in own }, required: ["status", "code"],
        choices: ["effective", "value"])

    /// A Bundle of Observations, R5; the entries' resources are checked apart.
    static let bundle = FHIRShape.element(
        [
            "id": .id, "meta": meta, "implicitRules": .text, "language": .code,
            "identifier": identifier, "type": .code, "timestamp": .instant, "total": .number,
            "link": .list(.anything), "issues": .anything, "signature": .anything,
            "entry": .list(
                .element([
                    "id": .text, "modifierExtension": .list(.anything), "link": .list(.anything),
                    "fullUrl": .text, "resource": .anything, "search": .anything,
                    "response": .anything,
                    "request": .element(
                        [
                            "id": .text, "method": .code, "url": .text, "ifNoneMatch": .text,
                            "ifModifiedSince": .dateTime, "ifMatch": .text, "ifNoneExist": .text,
                        ], required: ["method", "url"]),
                ])),
        ], required: ["type"])

    /// Why the whole bundle cannot be read; nil when it can.
    static func faultOfBundle(_ document: ExchangeJSON) -> String? {
        if let type = document["resourceType"], type != "Bundle" { return "resource_type\n  wrong" }
        if let fault = bundle.fault(in: document) { return fault }
        for (index, entry) in (document["entry"]?.array ?? []).enumerated() {
            guard let resource = entry["resource"], resource["resourceType"] == "Observation" else {
                return "entry -> \(index) -> resource\n  not an Observation"
            }
            guard entry["request"]?.object != nil else {
                return "entry -> \(index)\n  KeyError: 'request'"
            }
            let path = ["entry", "\(index)", "resource"]
            if let fault = observation.fault(in: resource, at: path) { return fault }
        }
        return nil
    }

    /// Why one Observation cannot be read, in the words of the single-resource endpoint.
    static func faultOfObservation(_ document: ExchangeJSON) -> String? {
        if let type = document["resourceType"], type != "Observation" {
            return "1 validation error for Observation\nresource_type\n  Wrong ResourceType"
        }
        return observation.fault(in: document).map { "1 validation error for Observation\n" + $0 }
    }
}

extension ExchangeJSON {
    /// The document with snake_case member names spelled in camelCase, which the exchange takes
    /// as the same thing.
    var camelized: ExchangeJSON {
        switch self {
        case .array(let values): return .array(values.map(\.camelized))
        case .object(let members):
            return .object(
                members.map { Member(name: Self.camelize($0.name), value: $0.value.camelized) })
        default: return self
        }
    }

    private static func camelize(_ name: String) -> String {
        guard name.contains("_"), !name.hasPrefix("_") else { return name }
        let words = name.split(separator: "_")
        return words.dropFirst().reduce(words.first.map(String.init) ?? "") {
            $0 + $1.prefix(1).uppercased() + $1.dropFirst()
        }
    }
}
