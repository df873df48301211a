/// Writes a data point with the patient and the sensor it is of, as one JSON object in ASCII:
///
///     {"patient":"40001","sensor":{"id":1,"model":"H10"},"data_point":{"header":{…},"body":{…}}}
struct PointLineWriter: Sendable {
    /// The part that is the same in all lines of one sensor.
    private struct SensorPart: Sendable {
        let strap: StrapDatasheet
        /// From after the patient to before the data point.
        let sensor: [UInt8]
        let point: DataPointWriter
    }

    private var sensors: [Int64: SensorPart] = [:]

    /// A gateway has a handful of straps; beyond this their parts are made anew.
    static let sensorsMax = 64

    /// Appends the object; `patient` nil writes `null`.
    mutating func write(_ point: OutgoingPoint, patient: String?, to json: inout JSONBytes) {
        json.raw(#"{"patient":"#)
        if let patient {
            json.string(patient)
        } else {
            json.raw("null")
        }
        let part = part(of: point)
        json.raw(part.sensor)
        part.point.write(point.point, to: &json)
        json.raw("}")
    }

    private mutating func part(of point: OutgoingPoint) -> SensorPart {
        if let known = sensors[point.sensorID], known.strap == point.strap { return known }
        if sensors.count >= Self.sensorsMax { sensors = [:] }
        var json = JSONBytes()
        json.raw(#","sensor":{"id":"#)
        json.integer(Int(point.sensorID))
        json.details(of: point.strap, firmware: #","firmware":"#)
        json.raw(#"},"data_point":"#)
        let part = SensorPart(
            strap: point.strap, sensor: json.bytes, point: DataPointWriter(strap: point.strap))
        sensors[point.sensorID] = part
        return part
    }
}

extension JSONBytes {
    /// Appends what a strap says of itself to an object that has members already; `firmware`: the name of that member.
    mutating func details(of strap: StrapDatasheet, firmware: StaticString) {
        let details: [(StaticString, String?)] = [
            (#","manufacturer":"#, strap.manufacturer), (#","model":"#, strap.model),
            (firmware, strap.firmware),
        ]
        for case let (name, value?) in details {
            raw(name)
            string(String(value.prefix(DataPointWriter.datasheetLengthMax)))
        }
    }
}
