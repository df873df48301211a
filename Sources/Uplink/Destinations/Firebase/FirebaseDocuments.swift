import Basics
import OfflineQueue

/// The documents in a Realtime Database.
///
/// A batch is one PATCH: all of it is written, or nothing, and the same again changes nothing. It is one of the user's
/// history, or with a share one of deep paths:
///
///     {"users/UID/heartRate/1763798400123-<identifier>":{"bpm":72,"start":"…","end":"…","us":1763798400123456},
///      "publicStreams/SHARE/heartRate/1763798400123-0d41c7be9a20":{"bpm":72,"start":"…","end":"…"}}
enum FirebaseDocuments {
    /// The path that a batch is written to.
    static func path(user: String, share: String?) -> String {
        share == nil ? "/users/\(user)/heartRate.json" : "/.json"
    }

    /// The batch, of user `user`; shared under `share` as well, if that is not nil.
    static func batch(_ points: [OutgoingPoint], user: String, share: String?) -> [UInt8] {
        let history = share == nil ? "" : "users/\(user)/heartRate/"
        var json = JSONBytes()
        json.reserve(points.count * (share == nil ? 200 : 400))
        json.raw("{")
        for (index, point) in points.enumerated() {
            if index > 0 { json.raw(",") }
            let milliseconds = max(0, point.point.span.lowerBound.microseconds / 1000)
            let uuid = point.point.uuid
            json.string("\(history)\(milliseconds)-\(uuid)")
            json.raw(":")
            json.history(point, isPrivate: true)
            guard let share else { continue }
            json.raw(",")
            json.string("publicStreams/\(share)/heartRate/\(milliseconds)-\(digest(of: uuid))")
            json.raw(":")
            json.history(point, isPrivate: false)
        }
        json.raw("}")
        return json.bytes
    }

    /// The share that a user's branch notes; nil: none.
    static func share(noted body: [UInt8]) -> String? {
        guard let id = try? String(json: body), FirebaseKind.isShareID(id) else { return nil }
        return id
    }

    /// Ends one share and begins another, and notes it: all of it or nothing.
    static func share(_ new: String?, insteadOf old: String?, user: String) -> [UInt8] {
        var json = JSONBytes()
        json.raw("{")
        if let old {
            for branch in ["publicStreams", "shares"] {
                json.string("\(branch)/\(old)")
                json.raw(":null,")
            }
        }
        if let new {
            json.string("shares/\(new)")
            json.raw(":")
            json.string(user)
            json.raw(",")
        }
        json.string("users/\(user)/gateway/share")
        json.raw(":")
        if let new { json.string(new) } else { json.raw("null") }
        json.raw("}")
        return json.bytes
    }

    /// The newest heart rate, as a page shows it.
    static func latest(_ point: OutgoingPoint) -> [UInt8] {
        var json = JSONBytes()
        json.raw(#"{"bpm":"#)
        json.rate(point.point)
        json.raw(#","us":"#)
        json.integer(Int(max(0, point.point.span.upperBound.microseconds)))
        json.raw("}")
        return json.bytes
    }

    /// The first 12 hexadecimal digits of the SHA-256 of an identifier: from identifiers one could guess those
    /// that come.
    static func digest(of uuid: String) -> String {
        Digests.hex(Digests.sha256(Array(uuid.utf8)).prefix(6))
    }
}

extension JSONBytes {
    fileprivate mutating func history(_ point: OutgoingPoint, isPrivate: Bool) {
        let span = point.point.span
        raw(#"{"bpm":"#)
        rate(point.point)
        raw(#","start":""#)
        Timestamp(span.lowerBound).write(to: &self)
        raw(#"","end":""#)
        Timestamp(span.upperBound).write(to: &self)
        raw(#"""#)
        if isPrivate {
            raw(#","sensor":"#)
            integer(Int(point.sensorID))
            if let model = point.strap.model {
                raw(#","source":"#)
                string(String(model.prefix(DataPointWriter.datasheetLengthMax)))
            }
            raw(#","us":"#)
            integer(Int(max(0, span.lowerBound.microseconds)))
        }
        raw("}")
    }

    fileprivate mutating func rate(_ point: DataPoint) {
        switch point.content {
        case .heartRate(let bpm, _): integer(bpm)
        case .averageHeartRate(let tenths, _, _): decimal(tenths, places: 1)
        case .interval: integer(0)
        }
    }
}
