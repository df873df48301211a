/// As much of JSON Schema as the IEEE 1752.1 header and the Open mHealth body schemas use.
///
/// The exchange validates every data point with them and answers with the first error in schema
/// order (docs/develop/exchange.md, "Data points").
indirect enum OMHSchema: Sendable {
    case type(Kind)
    case properties(KeyValuePairs<String, OMHSchema>)
    case required([String])
    case oneOf([String])
    case digits(pattern: String)
    case items(OMHSchema)
    case all([OMHSchema])
    case exactlyOne([OMHSchema])

    enum Kind: String, Sendable { case object, array, string, number }

    /// The first error in schema order, in the words of Python's jsonschema; nil when valid.
    func firstError(in value: ExchangeJSON) -> String? {
        switch self {
        case .type(let kind):
            let fits =
                switch (kind, value) {
                case (.object, .object), (.array, .array), (.string, .string): true
                case (.number, .integer), (.number, .number): true
                default: false
                }
            return fits
                ? nil : "\(value.pythonRepresentation) is not of type '\(kind.rawValue)'"
        case .properties(let properties):
            // Keywords for objects say nothing of other values: that is what `type` is for.
            for (name, schema) in properties {
                if let member = value[name], let error = schema.firstError(in: member) {
                    return error
                }
            }
            return nil
        case .required(let names):
            guard value.object != nil else { return nil }
            return names.first { value[$0] == nil }.map {
                "\(ExchangeJSON.pythonQuote($0)) is a required property"
            }
        case .oneOf(let words):
            if let text = value.string, words.contains(text) { return nil }
            let list = ExchangeJSON.array(words.map { .string($0) }).pythonRepresentation
            return "\(value.pythonRepresentation) is not one of \(list)"
        case .digits(let pattern):
            // The only pattern in these schemas is a date: digits where the pattern has 0.
            guard let text = value.string else { return nil }
            let fits =
                text.count == pattern.count
                && zip(text, pattern).allSatisfy {
                    $1 == "0" ? $0.isASCII && $0.isNumber : $0 == $1
                }
            return fits ? nil : "\(value.pythonRepresentation) does not match '\(pattern)'"
        case .items(let schema):
            return value.array?.lazy.compactMap { schema.firstError(in: $0) }.first
        case .all(let schemas):
            return schemas.lazy.compactMap { $0.firstError(in: value) }.first
        case .exactlyOne(let schemas):
            switch schemas.count(where: { $0.firstError(in: value) == nil }) {
            case 1: return nil
            case 0:
                return "\(value.pythonRepresentation) is not valid under any of the given schemas"
            default: return "\(value.pythonRepresentation) is valid under each of the given schemas"
            }
        }
    }
}

extension OMHSchema {
    private static let dateTime = OMHSchema.type(.string)

    private static let unitValue = OMHSchema.all([
        .type(.object), .properties(["value": .type(.number), "unit": .type(.string)]),
        .required(["value", "unit"]),
    ])

    private static let durationUnit = OMHSchema.oneOf([
        "ps", "ns", "us", "ms", "sec", "min", "h", "d", "wk", "Mo", "yr",
    ])

    private static let duration = OMHSchema.all([
        .type(.object), unitValue, .properties(["unit": durationUnit]),
    ])

    private static let durationRange = OMHSchema.all([
        .type(.object),
        .properties([
            "low_value": .type(.number), "high_value": .type(.number), "unit": .type(.string),
        ]),
        .required(["low_value", "high_value", "unit"]), .properties(["unit": durationUnit]),
    ])

    private static let frequency = OMHSchema.all([
        .type(.object),
        .exactlyOne([
            .all([unitValue, .properties(["unit": .oneOf(["Hz"])])]),
            .all([
                .properties([
                    "number_of_times": .type(.number),
                    "time_window": .exactlyOne([duration, durationRange]),
                ]), .required(["number_of_times", "time_window"]),
            ]),
        ]),
    ])

    private static let timeInterval = OMHSchema.all([
        .type(.object),
        .exactlyOne([
            .all([
                .properties(["start_date_time": dateTime, "duration": duration]),
                .required(["start_date_time", "duration"]),
            ]),
            .all([
                .properties(["end_date_time": dateTime, "duration": duration]),
                .required(["end_date_time", "duration"]),
            ]),
            .all([
                .properties(["start_date_time": dateTime, "end_date_time": dateTime]),
                .required(["start_date_time", "end_date_time"]),
            ]),
            .all([
                .properties([
                    "date": .all([.type(.string), .digits(pattern: "0000-00-00")]),
                    "part_of_day": .oneOf(["morning", "afternoon", "evening", "night"]),
                ]), .required(["date", "part_of_day"]),
            ]),
        ]),
    ])

    private static let timeFrame = OMHSchema.all([
        .type(.object),
        .exactlyOne([
            .all([.properties(["date_time": dateTime]), .required(["date_time"])]),
            .all([.properties(["time_interval": timeInterval]), .required(["time_interval"])]),
        ]),
    ])

    private static let statistic = OMHSchema.all([
        .type(.string),
        .oneOf([
            "average", "count", "maximum", "median", "minimum", "standard deviation", "sum",
            "variance", "20th percentile", "80th percentile", "lower quartile", "upper quartile",
            "quartile deviation", "1st quintile", "2nd quintile", "3rd quintile", "4th quintile",
        ]),
    ])

    private static let activity = OMHSchema.all([
        .type(.string),
        .oneOf(["at rest", "active", "before exercise", "after exercise", "during exercise"]),
    ])

    /// The header of a data point: IEEE 1752.1 header 1.0.
    static let header = OMHSchema.all([
        .type(.object),
        .properties([
            "uuid": .type(.string),
            "schema_id": .all([
                .type(.object),
                .properties([
                    "namespace": .type(.string), "name": .type(.string), "version": .type(.string),
                ]), .required(["namespace", "name", "version"]),
            ]),
            "source_creation_date_time": dateTime,
            "modality": .all([.type(.string), .oneOf(["sensed", "self-reported"])]),
            "acquisition_rate": frequency,
            "external_datasheets": .all([
                .type(.array),
                .items(
                    .all([
                        .type(.object),
                        .properties([
                            "datasheet_type": .type(.string), "datasheet_reference": .type(.string),
                        ]), .required(["datasheet_reference"]),
                    ])),
            ]),
        ]), .required(["uuid", "schema_id", "source_creation_date_time"]),
    ])

    /// The body of `omh:heart-rate:2.0`.
    static let heartRate = OMHSchema.all([
        .type(.object),
        .properties([
            "heart_rate": .all([unitValue, .properties(["unit": .oneOf(["beats/min"])])]),
            "effective_time_frame": timeFrame,
            "descriptive_statistic": statistic,
            "temporal_relationship_to_physical_activity": activity,
            "temporal_relationship_to_sleep": .all([
                .type(.string), .oneOf(["before sleeping", "during sleep", "on waking"]),
            ]),
        ]), .required(["heart_rate", "effective_time_frame"]),
    ])

    /// The body of `omh:rr-interval:1.0`.
    static let rrInterval = OMHSchema.all([
        .type(.object),
        .properties([
            "rr_interval": .all([duration, .properties(["unit": .oneOf(["ms"])])]),
            "effective_time_frame": timeFrame,
            "descriptive_statistic": statistic,
            "temporal_relationship_to_physical_activity": activity,
        ]), .required(["rr_interval"]),
    ])

    /// The body schema of a code; nil for codes this stand-in has no schema for.
    static func body(of code: String) -> OMHSchema? {
        ["omh:heart-rate:2.0": heartRate, "omh:rr-interval:1.0": rrInterval][code]
    }
}
