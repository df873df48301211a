import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Recording

/// Pairing and forgetting.
struct PairingService: Sendable {
    /// The values that `pair` reads of a sensor beside its heart rate.
    private static let readAtPairing = [
        HeartRateService.bodySensorLocation, BatteryService.level,
        DeviceInformationService.manufacturerName, DeviceInformationService.modelNumber,
        DeviceInformationService.firmwareRevision, DeviceInformationService.serialNumber,
    ]
    /// How long the first heartbeat is waited for after the link is up: electrodes take a few
    /// seconds to get wet.
    private static let firstBeatTimeout = Duration.seconds(10)
    private static let firstBeatPause = Duration.milliseconds(100)

    let queue: SampleQueue
    let central: Central
    let recorder: Recorder
    let radio: RadioReadiness
    let recording: SensorRecording
    let sensors: Sensors
    let enrollments: Enrollments
    let patients: PatientCheck
    let deliveries: Deliveries
    let sessions: PairingSessions
    let logger: Logger

    /// Connects to a sensor, sees that it is a heart-rate sensor, and records it from now on.
    ///
    /// - Parameter session: is abandoned when nobody waits for the pairing any more.
    /// - Throws: ``ProblemReport``; then nothing about the sensor has changed, and what it was recorded for
    ///   before goes on.
    func pair(
        _ request: PairRequest, _ session: PairingSession = PairingSession()
    ) async throws -> PairReport {
        let address = try SensorAddress.checked(request.address)
        try Passkey.check(request.passkey)
        let wanted = try await wanted(request, for: address)
        // The following steps have one deadline together, `InspectionTime` in BlueZ.
        let begun = central.clock.now()
        try await radio.wait()
        let isNew = await recorder.beginPairing(address)
        do {
            let report = try await pair(address, request, wanted, session, since: begun)
            if isNew { await recorder.abandonPairing(address) }
            return report
        } catch {
            if isNew { await recorder.abandonPairing(address) }
            throw error
        }
    }

    private func pair(
        _ address: String, _ request: PairRequest, _ wished: Wanted, _ session: PairingSession,
        since begun: Uptime
    ) async throws -> PairReport {
        let inspection = try await inspect(address, request, session, since: begun)
        // A bond reveals the identity address behind one that changes.
        let known = inspection.sighting.address
        // Later its frames may wait until it is clear when they were sent.
        let (first, last) = await (
            recorder.firstMeasurement(of: known, pairedSince: begun),
            recorder.lastMeasurement(of: known, pairedSince: begun)
        )
        let wanted: Wanted
        let sensor: Sensor
        do {
            wanted = known == address ? wished : try await self.wanted(request, for: known)
            sensor = try await start(known, wanted, inspection, session, since: begun)
        } catch {
            await undo(inspection)
            throw error
        }
        // It is paired from here on, whatever can be told of it.
        let enrollment = wanted.enrollment
        if let enrollment { await patients.adopt(wanted.patient, for: enrollment) }
        if let percent = inspection.batteryPercent {
            await recorder.noteBattery(percent, of: known)
        } else if let value = inspection.value(BatteryService.level) {
            await recorder.noteBattery(value: value, of: known)
        }
        for one in wanted.further + [enrollment].compactMap({ $0 }) {
            await deliveries.wake(one.id)
        }
        logger.info("paired", metadata: ["sensor": "\(Recorder.masked(known))"])
        let notes = (try? await notes(about: sensor)) ?? []
        return await report(
            sensor, enrollment, patient: wanted.request.patient, first: first, last: last,
            wanted.patient.notes + notes)
    }

    /// Ends the assignment of a sensor and disconnects from it.
    func forget(address text: String) async throws -> SensorReport {
        let address = try SensorAddress.checked(text)
        guard let sensor = try await queue.sensors().first(where: { $0.address == address })
        else { throw ProblemReport.unknownSensor }
        // First what can fail; what follows the store's commit cannot.
        let before = try await sensors.report(on: sensor, enrollment: nil, patient: nil)
        // One whose new address the store has not taken is recorded under that.
        guard await recorder.hasCome(from: await recorder.address(of: sensor.id) ?? address) else {
            throw ProblemReport.framesNotStored
        }
        try await queue.forgetSensor(sensor.id)
        await recording.follow(sensor, isWorn: false)
        return (try? await sensors.report(on: sensor, enrollment: nil, patient: nil)) ?? before
    }

    // MARK: - Steps

    /// The patient and the destinations that a strap's samples will have.
    private struct Wanted: Sendable {
        /// The request; what it leaves open of a paired strap is filled in from the present assignment.
        var request: PairRequest
        var enrollment: Enrollment?
        var further: [Enrollment]
        var patient: PairedPatient
        /// The strap's open assignment when this was decided; nil if it had none.
        var openAssignment: Int64?
    }

    private func wanted(_ asked: PairRequest, for address: String) async throws -> Wanted {
        var request = asked
        // Who pairs a strap again, as `status` advises for a lost bond, names nothing and changes nobody's samples.
        let known = try await openAssignment(of: address)
        let open = known?.1
        if asked.name != known?.0.details.name { try GivenName.check(asked.name) }
        if let (sensor, open) = known {
            request.name = request.name ?? sensor.details.name
            let own = try await queue.enrollments().first { $0.id == open.enrollmentID }?.terms.name
            request.enrollment = request.enrollment ?? own
            if own == nil || request.enrollment == own {
                request.patient = request.patient ?? open.patient
            }
        }
        let enrollment = try await enrollments.meant(by: request.enrollment)
        let further = try await enrollments.destinations(named: request.destinations ?? [])
            .filter { $0.id != enrollment?.id }
        // Nobody is asked of a patient who stays: a lost bond is mended without a network, too.
        let isSame =
            open != nil && open?.enrollmentID == enrollment?.id && open?.patient == request.patient
            && further.isEmpty && request.device == nil
        let patient =
            isSame
            ? PairedPatient()
            : try await patients.patient(
                request.patient, device: request.device, enrollment, further: further)
        return Wanted(
            request: request, enrollment: enrollment, further: further, patient: patient,
            openAssignment: open?.id)
    }

    private func openAssignment(of address: String) async throws -> (Sensor, Assignment)? {
        let sensors = try await queue.sensors()
        guard let sensor = sensors.first(where: { $0.address == address && !$0.isForgotten })
        else { return nil }
        return try await queue.openAssignments().first { $0.sensorID == sensor.id }
            .map { (sensor, $0) }
    }

    private func inspect(
        _ address: String, _ request: PairRequest, _ session: PairingSession, since begun: Uptime
    ) async throws -> Inspection {
        let passkey = request.passkey.flatMap(UInt32.init(exactly:))
        await session.begin(passkey: passkey, isAttended: request.attended ?? false)
        await sessions.open(session, of: address)
        let agent = PairingAgent(address: address) { await session.ask($0) }
        let inspection: Inspection
        do {
            inspection = try await central.inspect(
                address: address, service: HeartRateService.service,
                characteristic: HeartRateService.measurement, reading: Self.readAtPairing,
                agent: agent, since: begun)
            await sessions.close(session, of: address)
        } catch {
            let omission = await sessions.close(session, of: address)
            throw error.problem(passkeyGiven: passkey != nil, omission)
        }
        let clock = central.clock
        let deadline = min(clock.now() + Self.firstBeatTimeout, inspection.end)
        let address = inspection.sighting.address
        while clock.now() < deadline, !Task.isCancelled, await !session.isAbandoned,
            await recorder.firstMeasurement(of: address, pairedSince: begun) == nil
        {
            await clock.sleep(Self.firstBeatPause)
            // The frames of a strap that is recorded gather.
            await recorder.catchUp()
        }
        return inspection
    }

    /// Removes a bond that comes to nothing. One that the strap's recording needs stays: another person may have paired
    /// it meanwhile.
    private func undo(_ inspection: Inspection) async {
        guard await recorder.session(of: inspection.sighting.address) == nil else { return }
        await central.undo(inspection)
    }

    /// Stores the sensor and its assignment, and records it from then on.
    private func start(
        _ address: String, _ wanted: Wanted, _ inspection: Inspection, _ session: PairingSession,
        since begun: Uptime
    ) async throws -> Sensor {
        // Whoever ended the command expects a strap that is not paired.
        guard await !session.isAbandoned else { throw CancellationError() }
        let now = central.clock.now()
        await recorder.catchUp()
        // Another technician may have paired or forgotten it meanwhile: then the store refuses.
        let (sensor, assignment) = try await queue.pair(
            address: address, details: details(wanted.request, inspection),
            enrollment: wanted.enrollment?.id, patient: wanted.request.patient,
            also: wanted.further.map(\.id),
            since: await recorder.heardSince(of: address, pairedSince: begun) ?? now,
            insteadOf: wanted.openAssignment)
        await recording.follow(sensor, isWorn: true)
        if assignment.id != wanted.openAssignment { await recorder.changeHands(of: address) }
        return sensor
    }

    private func details(_ request: PairRequest, _ inspection: Inspection) -> SensorDetails {
        var details = SensorDetails(
            name: request.name ?? inspection.sighting.name, adapter: inspection.sighting.adapter)
        if let value = inspection.value(HeartRateService.bodySensorLocation) {
            details.bodyLocation = (try? BodySensorLocation(value: value))?.rawValue
        }
        details.manufacturer = inspection.text(DeviceInformationService.manufacturerName)
        details.model = inspection.text(DeviceInformationService.modelNumber)
        details.firmware = inspection.text(DeviceInformationService.firmwareRevision)
        details.serial = inspection.text(DeviceInformationService.serialNumber)
        return details
    }

    /// Advice about other straps that are paired: one of the same name, and those that record the same patient.
    private func notes(about sensor: Sensor) async throws -> [String] {
        let others = try await queue.sensors().filter { $0.id != sensor.id && !$0.isForgotten }
        var notes: [String] = []
        if others.contains(where: { $0.label == sensor.label }) {
            notes.append(
                "another strap has this name: edge-gateway pair \(sensor.address.suffix(5)) --name NAME "
                    + "gives it one of its own")
        }
        let enrollments = try await queue.enrollments()
        let open = try await queue.openAssignments()
        guard let own = open.first(where: { $0.sensorID == sensor.id }),
            let patient = own.patient(among: enrollments)
        else { return notes }
        let same = open.filter {
            $0.enrollmentID == own.enrollmentID && $0.patient(among: enrollments) == patient
        }
        let names = others.filter { other in same.contains { $0.sensorID == other.id } }
            .map(\.label).joined(separator: ", ")
        if !names.isEmpty {
            notes.append(
                "it records the same patient as \(names): if another person wears it, pair it again "
                    + "with that person's --enrollment or --patient")
        }
        return notes
    }

    private func report(
        _ sensor: Sensor, _ enrollment: Enrollment?, patient: String?,
        first: HeartRateMeasurement?, last: HeartRateMeasurement?, _ notesOfPatient: [String]
    ) async -> PairReport {
        var notes = notesOfPatient
        if first == nil, let last {
            notes.append(
                "it sends frames without a usable heart rate (\(last.bpm) bpm): wear it, moisten the "
                    + "electrodes; a watch or band may have to measure, or to be in an activity")
        } else if first == nil,
            await recorder.session(of: sensor.address)?.cadence ?? .zero < Self.firstBeatTimeout
        {
            notes.append("no heartbeat yet: wear the strap and moisten its electrodes")
        } else if first?.contact == .notDetected {
            notes.append("no skin contact: moisten the electrodes and tighten the strap")
        }
        if enrollment?.holdReason != nil {
            notes.append("this enrollment is held (edge-gateway status); samples are kept")
        }
        let name = enrollment?.terms.name
        var shown = SensorReport(
            id: sensor.id, address: sensor.address, name: sensor.label,
            link: await recorder.link(of: sensor.address).state, enrollment: name,
            patient: patient, stored: 0, pending: 0)
        do {
            shown = try await sensors.report(on: sensor, enrollment: name, patient: patient)
        } catch {
            notes.append("its counts cannot be read at the moment (edge-gateway status)")
        }
        let location = sensor.details.bodyLocation.flatMap(BodySensorLocation.init(rawValue:))
        return PairReport(
            sensor: shown,
            bodyLocation: location?.name, manufacturer: sensor.details.manufacturer,
            model: sensor.details.model, firmware: sensor.details.firmware,
            firstBpm: first.map { Int($0.bpm) }, notes: notes)
    }
}

extension Inspection {
    /// A characteristic's value, if it could be read.
    func value(_ uuid: String) -> [UInt8]? {
        guard case .success(let value) = values[uuid] else { return nil }
        return value
    }

    /// A characteristic's text: UTF-8, some sensors end it with a NUL.
    func text(_ uuid: String) -> String? {
        guard let value = value(uuid) else { return nil }
        let text = String(decoding: value.prefix(while: { $0 != 0 }), as: UTF8.self)
            .trimmingCharacters(in: .whitespaces)
        return text.isEmpty ? nil : text
    }
}

extension ProblemReport {
    /// The disk, or a busy machine, holds up what straps have sent; a change now would send it to the wrong place.
    static let framesNotStored = ProblemReport(
        code: .notStored, message: "what the strap has sent so far cannot be stored yet",
        advice: "try again in a minute; edge-gateway status says what is wrong")
}
