import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Recording

/// Scanning, pairing and forgetting.
extension Gateway {
    /// What `pair` reads of a sensor beside its heart rate.
    private static let readAtPairing = [
        HeartRateService.bodySensorLocation, BatteryService.level,
        DeviceInformationService.manufacturerName, DeviceInformationService.modelNumber,
        DeviceInformationService.firmwareRevision, DeviceInformationService.serialNumber,
    ]
    /// How long the first heartbeat is waited for after the link is up: electrodes take a few
    /// seconds to get wet.
    private static let firstBeatSecondsMax = 10
    private static let firstBeatPause = Duration.milliseconds(100)

    /// Listens for heart-rate sensors.
    ///
    /// - Parameter seconds: 1 to 60.
    func scan(seconds: Int) async throws -> [SightingReport] {
        guard (1...60).contains(seconds) else {
            throw ProblemReport(
                code: .badRequest, message: "a scan takes 1 to 60 seconds",
                advice: "edge-gateway scan --seconds 10")
        }
        try await requireRadio()
        let sightings = await central.scan(seconds: Double(seconds))
        let known = Set(try await asking { try await queue.sensors().map(\.address) })
        return sightings.map {
            SightingReport(
                address: $0.address, name: $0.name ?? "", rssi: $0.rssi,
                known: known.contains($0.address), connected: $0.isConnected, bonded: $0.isPaired)
        }
    }

    /// Connects to a sensor, sees that it is a heart-rate sensor, and records it from now on.
    ///
    /// - Throws: ``ProblemReport``; then nothing about the sensor has changed, and what it was recorded for
    ///   before goes on.
    func pair(_ request: PairRequest) async throws -> PairReport {
        let address = try Self.checked(request.address)
        try Self.check(passkey: request.passkey)
        let enrollment = try await enrollment(named: request.enrollment)
        let patient = try await checkedPatient(request, enrollment)
        try await requireRadio()
        await recorder.beginPairing(address)
        let inspection: Inspection
        do {
            inspection = try await inspect(address, request)
        } catch {
            await recorder.abandonPairing(address)
            throw error
        }
        // A bond tells the address behind one that changes.
        let known = inspection.sighting.address
        let sensor: Sensor
        let assignment: Assignment
        do {
            (sensor, assignment) = try await asking {
                try await store(known, request, enrollment, inspection)
            }
        } catch {
            await recorder.abandonPairing(address)
            await recorder.abandonPairing(known)
            await central.undo(inspection)
            throw error
        }
        // It is paired from here on, whatever can be told of it.
        if let enrollment { await adopt(patient, enrollment) }
        await record(sensor, as: assignment.id)
        if let percent = inspection.batteryPercent {
            await recorder.noteBattery(percent, of: known)
        } else if let value = inspection.value(BatteryService.level) {
            await recorder.noteBattery(value: value, of: known)
        }
        if let enrollment { await deliveries.wake(enrollment.id) }
        logger.info("paired", metadata: ["sensor": "\(Recorder.masked(known))"])
        return await report(sensor, enrollment, inspection, patient.notes)
    }

    /// Ends the assignment of a sensor and disconnects from it.
    func forget(address text: String) async throws -> SensorReport {
        let address = try Self.checked(text)
        return try await asking {
            guard let sensor = try await queue.sensors().first(where: { $0.address == address })
            else {
                throw ProblemReport(
                    code: .unknownSensor, message: "no such sensor is paired",
                    advice: "edge-gateway sensors lists them")
            }
            // First what can fail; what follows the store's commit cannot.
            let before = try await report(on: sensor, enrollment: nil)
            try await queue.flush()
            try await queue.forgetSensor(sensor.id)
            await recorder.forget(address)
            await central.forget(address: address)
            return (try? await report(on: sensor, enrollment: nil)) ?? before
        }
    }

    // MARK: - Checks

    /// An address in upper case: six octets with colons.
    static func checked(_ text: String) throws -> String {
        let octets = text.uppercased().split(separator: ":", omittingEmptySubsequences: false)
        guard octets.count == 6, octets.allSatisfy({ $0.count == 2 && UInt8($0, radix: 16) != nil })
        else {
            throw ProblemReport(
                code: .badAddress, message: "this is no Bluetooth address",
                advice: "edge-gateway scan shows addresses such as C0:00:00:00:00:01")
        }
        return octets.joined(separator: ":")
    }

    static func check(passkey: Int?) throws {
        guard let passkey, !(0...Int(PairingAgent.passkeyMax)).contains(passkey) else { return }
        throw ProblemReport(
            code: .badRequest, message: "a pairing code has at most six digits",
            advice: "edge-gateway pair ADDRESS --passkey 123456")
    }

    /// After a start, bluetoothd and its adapters take a moment to show.
    private static let radioGrace = Duration.seconds(5)
    private static let radioPause = Duration.milliseconds(100)

    private func requireRadio() async throws {
        let clock = ContinuousClock()
        let deadline = clock.now + Self.radioGrace
        while await recorder.radio != .ready, clock.now < deadline {
            try await Task.sleep(for: Self.radioPause)
        }
        switch await recorder.radio {
        case .ready: return
        case .unknown, .noBus:
            throw ProblemReport(
                code: .busAbsent, message: "the system bus does not answer",
                advice: "systemctl status dbus")
        case .noDaemon:
            throw ProblemReport(
                code: .bluetoothdAbsent, message: "bluetoothd is not running",
                advice: "systemctl start bluetooth")
        case .noAdapter:
            throw ProblemReport(
                code: .noAdapter, message: "there is no Bluetooth adapter",
                advice: "plug one in, or look at: rfkill list; dmesg | grep -i bluetooth")
        case .poweredOff:
            throw ProblemReport(
                code: .radioOff, message: "the Bluetooth adapter is powered off",
                advice: "rfkill unblock bluetooth; bluetoothctl power on")
        }
    }

    /// The enrollment of this name; the only one, or none, if there is no name.
    func enrollment(named name: String?) async throws -> Enrollment? {
        let enrollments = try await asking { try await queue.enrollments() }
        if let name {
            guard let enrollment = enrollments.first(where: { $0.terms.name == name }) else {
                throw ProblemReport(
                    code: .unknownEnrollment, message: "there is no enrollment \(name)",
                    advice: "edge-gateway enrollments lists them")
            }
            return enrollment
        }
        guard enrollments.count <= 1 else {
            throw ProblemReport(
                code: .chooseEnrollment, message: "there are several enrollments",
                advice: "name the patient's: --enrollment NAME (edge-gateway enrollments)")
        }
        return enrollments.first
    }

    // MARK: - Steps

    private func inspect(_ address: String, _ request: PairRequest) async throws -> Inspection {
        let passkey = request.passkey.flatMap(UInt32.init(exactly:))
        await session.open(address, passkey: passkey, isAttended: request.attended ?? false)
        let agent = PairingAgent(address: address) { [session] question in
            await session.ask(question, of: address)
        }
        let inspection: Inspection
        do {
            inspection = try await central.inspect(
                address: address, service: HeartRateService.service,
                characteristic: HeartRateService.measurement, reading: Self.readAtPairing,
                agent: agent)
            await session.close(address)
        } catch {
            let wentUnanswered = await session.close(address)
            throw wentUnanswered ? .passkeyNeeded : error.problem(passkeyGiven: passkey != nil)
        }
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(Self.firstBeatSecondsMax)
        let address = inspection.sighting.address
        while clock.now < deadline, await recorder.firstMeasurement(of: address) == nil {
            try? await Task.sleep(for: Self.firstBeatPause)
        }
        return inspection
    }

    private func store(
        _ address: String, _ request: PairRequest, _ enrollment: Enrollment?,
        _ inspection: Inspection
    ) async throws -> (Sensor, Assignment) {
        var details = SensorDetails(
            name: request.name ?? inspection.sighting.name, adapter: inspection.sighting.adapter)
        if let value = inspection.value(HeartRateService.bodySensorLocation) {
            details.bodyLocation = (try? BodySensorLocation(value: value))?.rawValue
        }
        details.manufacturer = inspection.text(DeviceInformationService.manufacturerName)
        details.model = inspection.text(DeviceInformationService.modelNumber)
        details.firmware = inspection.text(DeviceInformationService.firmwareRevision)
        details.serial = inspection.text(DeviceInformationService.serialNumber)
        let before = try await queue.sensors().first { $0.address == address }
        let sensor = try await queue.addSensor(address: address, details: details)
        do {
            let assignment = try await queue.assign(
                sensor: sensor.id, enrollment: enrollment?.id, patient: request.patient,
                since: await recorder.firstArrival(of: address))
            return (sensor, assignment)
        } catch {
            // Without an assignment it is as it was.
            if let before {
                try? await queue.updateSensor(sensor.id, details: before.details)
            } else {
                try? await queue.forgetSensor(sensor.id)
            }
            throw error
        }
    }

    private func report(
        _ sensor: Sensor, _ enrollment: Enrollment?, _ inspection: Inspection,
        _ notesOfPatient: [String]
    ) async -> PairReport {
        let first = await recorder.firstMeasurement(of: sensor.address)
        var notes = notesOfPatient
        if first == nil {
            notes.append("no heartbeat yet: wear the strap and moisten its electrodes")
        } else if first?.contact == .notDetected {
            notes.append("no skin contact: moisten the electrodes and tighten the strap")
        }
        if enrollment?.holdReason != nil {
            notes.append("this enrollment is held (edge-gateway status); samples are kept")
        }
        let name = enrollment?.terms.name
        var shown = SensorReport(
            id: sensor.id, address: sensor.address, name: sensor.details.name ?? "",
            link: await recorder.link(of: sensor.address).state, enrollment: name, stored: 0,
            pending: 0)
        do {
            shown = try await self.report(on: sensor, enrollment: name)
        } catch {
            notes.append("its figures cannot be read at the moment (edge-gateway status)")
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
