import Basics

extension JSONBytes {
    /// The columns of ``row(_:patient:)``. A row that lacks one has NULL there.
    static let rowColumns: StaticString = "id,patient,sensor,kind,measured_at,until,bpm,rr_ms"

    /// Appends a data point as a row of the table that deploy/supabase.sql makes.
    mutating func row(_ point: OutgoingPoint, patient: String?) {
        raw(#"{"id":""#)
        identity(point.point.uuid)
        raw(#"","sensor":""#)
        integer(Int(point.sensorID))
        raw(#"""#)
        if let patient {
            raw(#","patient":"#)
            string(patient)
        }
        switch point.point.content {
        case .heartRate(let bpm, let time):
            raw(#","kind":"heart-rate","measured_at":""#)
            Timestamp(time).writeMicroseconds(to: &self)
            raw(#"","bpm":"#)
            integer(bpm)
        case .averageHeartRate(let tenths, _, let window):
            raw(#","kind":"average-heart-rate","measured_at":""#)
            Timestamp(window.lowerBound).writeMicroseconds(to: &self)
            raw(#"","until":""#)
            Timestamp(window.upperBound).writeMicroseconds(to: &self)
            raw(#"","bpm":"#)
            decimal(tenths, places: 1)
        case .interval(let ticks, let end):
            raw(#","kind":"rr-interval","measured_at":""#)
            Timestamp(DataPoint.start(of: ticks, end: end)).writeMicroseconds(to: &self)
            raw(#"","until":""#)
            Timestamp(end).writeMicroseconds(to: &self)
            raw(#"","rr_ms":"#)
            decimal(Int(ticks) * 9_765_625, places: 7)
        }
        raw("}")
    }
}
