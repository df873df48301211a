import Basics
import Foundation
import GRDB

// Rows of the registry, and the statements several calls share.

extension Database {
    func sensor(_ id: Int64) throws -> Sensor {
        guard
            let row = try Row.fetchOne(
                self, sql: "SELECT * FROM sensor WHERE id = ?", arguments: [id])
        else { throw QueueError(.unknownReference, "find sensor", "no sensor \(id)") }
        return Sensor(row: row)
    }

    /// Makes a sensor known, or a forgotten one known again; its details are replaced either way.
    func addSensor(_ address: String, _ details: SensorDetails) throws -> Sensor {
        let address = address.uppercased()
        guard (1...SampleQueue.textCharactersMax).contains(address.count) else {
            throw QueueError(.invalidArgument, "add sensor", "the address is empty or too long")
        }
        try execute(
            sql: """
                INSERT INTO sensor (address) VALUES (?)
                ON CONFLICT (address) DO UPDATE SET is_forgotten = 0
                """, arguments: [address])
        let id = try Int64.fetchOne(
            self, sql: "SELECT id FROM sensor WHERE address = ?", arguments: [address])
        try setDetails(of: id ?? 0, details)
        return try sensor(id ?? 0)
    }

    /// The number of the next row of `enrollment`, `assignment` or `segment`: none that an erased one had.
    func nextNumber(of table: String) throws -> Int64 {
        let highest =
            try Int64.fetchOne(
                cachedStatement(
                    sql: """
                        SELECT max(number) FROM (
                            SELECT max(id) AS number FROM \(table)
                            UNION ALL SELECT max(number) FROM erased_number WHERE kind = ?1
                            UNION ALL SELECT number FROM erased_until WHERE kind = ?1)
                        """), arguments: [table]) ?? 0
        guard highest < Int64.max else {
            throw QueueError(.corrupt, "number \(table)", "no number is left")
        }
        return highest + 1
    }

    func enrollment(_ id: Int64) throws -> Enrollment {
        guard
            let row = try Row.fetchOne(
                cachedStatement(sql: "SELECT * FROM enrollment WHERE id = ?"), arguments: [id])
        else { throw QueueError(.unknownReference, "find enrollment", "no enrollment \(id)") }
        return Enrollment(row: row)
    }

    func assignment(_ id: Int64) throws -> Assignment {
        guard let assignment = try assignments(where: "a.id = ?", [id]).first else {
            throw QueueError(.unknownReference, "find assignment", "no assignment \(id)")
        }
        return assignment
    }

    /// The assignments (`a`) for which `condition` holds.
    func assignments(
        where condition: String, _ arguments: StatementArguments = []
    ) throws -> [Assignment] {
        try Row.fetchAll(
            cachedStatement(
                sql: """
                    SELECT a.id, a.sensor, a.enrollment, a.patient, a.ended_boot IS NULL AS is_open
                    FROM assignment a
                    WHERE \(condition) ORDER BY a.id
                    """), arguments: arguments
        ).map(Assignment.init(row:))
    }

    func check(patient: String?, for enrollment: Int64) throws {
        let terms = try self.enrollment(enrollment).terms
        switch terms.kind {
        case .practitionerKey where patient == nil:
            throw QueueError(
                .invalidArgument, "assign sensor", "a practitioner's enrollment needs a patient")
        case .invitation where patient != nil && patient != terms.patient:
            throw QueueError(
                .invalidArgument, "assign sensor",
                "an invitation has its own patient: name no other")
        default: break
        }
    }

    func bind(
        _ id: Int64, to enrollment: Int64, _ patient: String?, _ present: Present
    ) throws -> Assignment {
        try makeOwn(enrollment, of: id)
        try execute(
            sql: "UPDATE assignment SET enrollment = ?, patient = ? WHERE id = ?",
            arguments: [enrollment, patient, id])
        try addDestinations(ofUnsure: id, present)
        return try assignment(id)
    }

    /// Ends the sensor's open assignment, if there is one, after the last frame that it has. Returns its number, and the
    /// end.
    func endAssignment(
        of sensor: Int64, boot: Int64, now: ClockReading
    ) throws -> (id: Int64, end: ClockReading)? {
        let open = try Int64.fetchOne(
            self, sql: "SELECT id FROM assignment WHERE sensor = ? AND ended_boot IS NULL",
            arguments: [sensor])
        guard let open else { return nil }
        let last = try Uptime.fetchOne(
            self,
            sql: """
                SELECT max(last_uptime_us) FROM segment s JOIN run r ON r.id = s.run
                WHERE s.assignment = ? AND r.boot = ?
                """, arguments: [open, boot])
        let end = now.at(max(now.uptime, (last ?? .zero) + .microseconds(1)))
        try execute(
            sql: """
                UPDATE assignment SET ended_boot = ?, ended_uptime_us = ?, ended_wall_us = ?
                WHERE id = ?
                """,
            arguments: [boot, end.uptime, end.trustedWall, open])
        return (open, end)
    }

    /// When a sensor was last taken off somebody in this boot.
    func lastEnd(of sensor: Int64, boot: Int64) throws -> Uptime? {
        try Uptime.fetchOne(
            self,
            sql: "SELECT max(ended_uptime_us) FROM assignment WHERE sensor = ? AND ended_boot = ?",
            arguments: [sensor, boot])
    }

    func setDetails(of sensor: Int64, _ details: SensorDetails) throws {
        try execute(
            sql: """
                UPDATE sensor SET name = ?, adapter = ?, body_location = ?, manufacturer = ?,
                    model = ?, firmware = ?, serial = ?
                WHERE id = ?
                """,
            arguments: [
                details.name?.bounded, details.adapter?.bounded,
                details.bodyLocation.map { Int64($0) }, details.manufacturer?.bounded,
                details.model?.bounded, details.firmware?.bounded, details.serial?.bounded, sensor,
            ])
    }
}

extension EnrollmentTerms {
    /// Its columns of `enrollment`, and their values.
    var columns: KeyValuePairs<String, (any DatabaseValueConvertible)?> {
        [
            "name": name.bounded, "kind": kind.rawValue, "origin": origin, "fhir_base": fhirBase,
            "client_id": clientID, "patient": patient, "device": device, "code_system": codeSystem,
            "code": code, "identifier_system": identifierSystem, "resolution": resolution,
            "system": system, "settings": settings, "takes_every_strap": takesEveryStrap,
            "keep_us": keep.map { max(0, $0.microseconds) },
            "patient_fingerprints": (try? JSONEncoder().encode(patientFingerprints)).map {
                String(decoding: $0, as: UTF8.self)
            },
            "device_is_chosen": isDeviceChosen,
        ]
    }
}

extension Sensor {
    init(row: Row) {
        id = row["id"] ?? 0
        address = row["address"] ?? ""
        details = SensorDetails(
            name: row["name"], adapter: row["adapter"],
            bodyLocation: (row["body_location"] as Int64?).flatMap(UInt8.init(exactly:)),
            manufacturer: row["manufacturer"], model: row["model"], firmware: row["firmware"],
            serial: row["serial"])
        isForgotten = row["is_forgotten"] ?? false
    }
}

extension Enrollment {
    init(row: Row) {
        id = row["id"] ?? 0
        terms = EnrollmentTerms(
            name: row["name"] ?? "", kind: Kind(rawValue: row["kind"] ?? "") ?? .invitation,
            origin: row["origin"] ?? "", fhirBase: row["fhir_base"] ?? "",
            clientID: row["client_id"], patient: row["patient"], device: row["device"],
            codeSystem: row["code_system"], code: row["code"],
            identifierSystem: row["identifier_system"] ?? "", resolution: row["resolution"] ?? "")
        terms.system = row["system"]
        terms.settings = row["settings"]
        terms.takesEveryStrap = row["takes_every_strap"] ?? false
        terms.keep = (row["keep_us"] as Int64?).map { .microseconds($0) }
        let fingerprints = Data((row["patient_fingerprints"] as String? ?? "").utf8)
        terms.patientFingerprints =
            (try? JSONDecoder().decode([String: String].self, from: fingerprints)) ?? [:]
        terms.isDeviceChosen = row["device_is_chosen"] ?? false
        // An unknown word cannot be a licence to send.
        state = State(rawValue: row["state"] ?? "") ?? .enrollAgain
        holdReason = row["hold_reason"]
    }
}

extension Assignment {
    init(row: Row) {
        id = row["id"] ?? 0
        sensorID = row["sensor"] ?? 0
        enrollmentID = row["enrollment"]
        patient = row["patient"]
        isOpen = row["is_open"] ?? false
    }
}
