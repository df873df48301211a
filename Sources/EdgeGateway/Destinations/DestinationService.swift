import Basics
import Foundation
import Logging
import OfflineQueue
import Uplink

/// Adds, changes, tests and removes destinations other than exchanges, and chooses their straps.
struct DestinationService: Sendable {
    /// How many days samples wait for a destination that cannot take them, by default: the longest outage to
    /// expect of a further destination.
    static let keepDays = 30
    /// The longest such time: a gateway's disk does not last longer.
    private static let keepDaysMax = 3_650
    /// Lists show the name in a column.
    private static let nameCharactersMax = 64

    let settings: Settings
    let queue: SampleQueue
    let destinations: Destinations
    let changes: EnrollmentChanges
    let erasing: EraseService
    let deliveries: Deliveries
    let clock: any GatewayClock
    let logger: Logger

    // MARK: - Adding

    /// Tries a destination, stores it, and starts its delivery. An existing one of that name and kind gets the
    /// new settings.
    ///
    /// - Throws: ``ProblemReport``; before the destination is stored, nothing was changed.
    func add(_ given: DestinationAddRequest) async throws -> DestinationAddReport {
        var ask = given
        try EnrollmentService.check(resolution: ask.resolution)
        let beginning = try Self.beginning(ask.from)
        let assignments = try await assignments(of: ask.straps ?? [])
        let existing = try await queue.enrollments()
        let name = ask.name ?? ask.kind
        makeSettings(of: &ask, insteadOf: existing.first { $0.terms.name == name })
        let kind = try Self.stated { () throws(DestinationProblem) in
            try DestinationRegistry.destination(ask.kind, ask.settings)
        }
        try checkBesideOwnFiles(kind)
        guard Printable.line(name) == name, 1...Self.nameCharactersMax ~= name.count else {
            throw ProblemReport(
                code: .badRequest, message: "this is not a name for a destination",
                advice: "give 1 to \(Self.nameCharactersMax) printable characters")
        }
        let same = existing.first { $0.terms.name == name }
        if let same, same.terms.kind != .destination || same.terms.system != ask.kind {
            throw ProblemReport(
                code: .nameTaken, message: "the name \(name) is another destination's",
                advice: "choose another --name; edge-gateway destination list")
        }
        if let other = existing.first(where: {
            $0.terms.origin == kind.place && $0.id != same?.id && kind is FileKind
        }) {
            throw ProblemReport(
                code: .badDestination, message: "\(other.terms.name) writes this file already",
                advice: "choose another file")
        }
        // A delivery holds its file locked; only a new one is tried.
        let isOpen = kind is FileKind && same?.terms.origin == kind.place
        let probe = isOpen ? nil : try await self.probe(kind, insteadOf: same)
        let fields = type(of: kind).fields
        let secrets = Set(fields.filter { $0.isSecret }.map { $0.name })
        let terms = try terms(ask, name, kind, insteadOf: same, secrets)
        guard !terms.takesEveryStrap || !kind.servesOnePatient else {
            throw ProblemReport(
                code: .badDestination, message: "with these settings it shows one patient's rate",
                advice: "choose the straps with --strap, and add a destination for each patient")
        }
        let stored = try await changes.begin(
            terms, insteadOf: same,
            .secrets(
                DestinationSecrets(
                    values: ask.settings.filter { secrets.contains($0.key) }
                        .mapValues { Secret($0) },
                    tokens: probe?.tokens)),
            hold: same?.isPaused == true ? .paused : nil)
        try await attach(stored, to: assignments, beginning, isEvery: terms.takesEveryStrap)
        return DestinationAddReport(
            destination: try await destinations.report(on: stored),
            test: DestinationTestReport(
                name: name, checked: probe?.checked ?? [], unchecked: probe?.unchecked ?? []))
    }

    /// Makes the settings that are the gateway's to make, or takes those that it made before.
    private func makeSettings(of ask: inout DestinationAddRequest, insteadOf same: Enrollment?) {
        let fields = (try? DestinationRegistry.kind(ask.kind))?.fields ?? []
        for field in fields where field.need == .made && ask.settings[field.name] == nil {
            let known = same.flatMap { try? changes.secretFile(of: $0.id).load() }?
                .values[field.name]
            ask.settings[field.name] = known?.revealed ?? Self.randomText()
        }
    }

    /// 128 random bits in hexadecimal.
    private static func randomText() -> String {
        (0..<4).map { _ in
            let digits = String(UInt32.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 8 - digits.count) + digits
        }.joined()
    }

    private func terms(
        _ ask: DestinationAddRequest, _ name: String, _ kind: any DestinationKind,
        insteadOf same: Enrollment?, _ secrets: Set<String>
    ) throws -> EnrollmentTerms {
        var terms = EnrollmentTerms(
            name: name, kind: .destination, origin: kind.place, fhirBase: "",
            codeSystem: ObservationCode.omhHeartRate.system,
            code: ObservationCode.omhHeartRate.code,
            identifierSystem: settings.identifierSystem)
        terms.resolution = ask.resolution ?? same?.terms.resolution ?? terms.resolution
        terms.system = ask.kind
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let plain = ask.settings.filter { !secrets.contains($0.key) }
        terms.settings = String(decoding: try encoder.encode(plain), as: UTF8.self)
        terms.takesEveryStrap = ask.everyStrap ?? same?.terms.takesEveryStrap ?? false
        if let days = ask.keepDays {
            guard 0...Self.keepDaysMax ~= days else {
                throw ProblemReport(
                    code: .badRequest, message: "samples cannot wait \(days) days",
                    advice:
                        "give 1 to \(Self.keepDaysMax) days, or 0 to keep them until they are delivered"
                )
            }
            terms.keep = days == 0 ? nil : Coverage.day * days
        } else if let same {
            terms.keep = same.terms.keep
        } else {
            terms.keep = Coverage.day * Self.keepDays
        }
        return terms
    }

    /// Nothing may be appended to the gateway's own files.
    private func checkBesideOwnFiles(_ kind: any DestinationKind) throws {
        guard kind.place.hasPrefix("file://"),
            let refusal = GatewayFiles(settings: settings)
                .refusal(of: String(kind.place.dropFirst("file://".count)))
        else { return }
        throw ProblemReport(
            code: .badRequest, message: refusal,
            advice: "choose another directory, or another name that ends in .ndjson")
    }

    private func probe(
        _ kind: any DestinationKind, insteadOf same: Enrollment?
    ) async throws -> ProbeReport {
        var parts = DestinationParts(
            transport: CurlTransport(settings.curl), network: settings.curl, clock: clock,
            logger: logger)
        parts.storedTokens = same.flatMap { try? changes.secretFile(of: $0.id).load() }?.tokens
        do {
            return try await kind.probe(parts)
        } catch {
            throw ProblemReport(
                code: .destinationRefuses, message: error.message, advice: error.advice)
        }
    }

    /// What is wrong with settings, as a problem.
    private static func stated<Value>(
        _ work: () throws(DestinationProblem) -> Value
    ) throws -> Value {
        do throws(DestinationProblem) {
            return try work()
        } catch {
            throw ProblemReport(
                code: .badDestination, message: error.message, advice: error.advice)
        }
    }

    // MARK: - Straps

    /// Has straps go to a destination beside their own, or no more.
    ///
    /// - Throws: ``ProblemReport``
    func changeStraps(_ ask: DestinationStrapsRequest) async throws -> DestinationReport {
        let enrollment = try await destinations.added(ask.name)
        let beginning = try Self.beginning(ask.from)
        let added = try await assignments(of: ask.add ?? [])
        let removed = try await assignments(of: ask.remove ?? [])
        guard !removed.contains(where: { $0.enrollmentID == enrollment.id }) else {
            throw ProblemReport(
                code: .ownDestination,
                message: "\(enrollment.terms.name) is the strap's own destination",
                advice: "pair it again with another --enrollment")
        }
        try await attach(enrollment, to: added, beginning, isEvery: false)
        // Samples of an earlier patient of the strap may wait, too.
        let sensors = Set(removed.map(\.sensorID))
        for assignment in try await queue.assignments()
        where sensors.contains(assignment.sensorID) && assignment.enrollmentID != enrollment.id {
            try await queue.remove(destination: enrollment.id, from: assignment.id)
        }
        return try await destinations.report(on: enrollment)
    }

    /// Has the samples of assignments go to a destination; one whose own destination it is needs nothing.
    private func attach(
        _ enrollment: Enrollment, to assignments: [Assignment], _ beginning: DestinationBeginning,
        isEvery: Bool
    ) async throws {
        // The store has added it to every strap from now on; what is kept, also of patients who wear none any
        // more, is added here.
        let every = isEvery && beginning == .kept ? try await queue.assignments() : []
        for assignment in assignments + every where assignment.enrollmentID != enrollment.id {
            try await queue.add(
                destination: enrollment.id, to: assignment.id, from: beginning)
        }
        await deliveries.wake(enrollment.id)
    }

    private static func beginning(_ word: String?) throws -> DestinationBeginning {
        switch word {
        case nil, "now": return .now
        case "kept": return .kept
        default:
            throw ProblemReport(
                code: .badRequest, message: "from must be now or kept",
                advice: "now: only new samples; kept: also those that the gateway still has")
        }
    }

    /// The open assignments of straps with these addresses.
    private func assignments(of addresses: [String]) async throws -> [Assignment] {
        let sensors = try await queue.sensors()
        let open = try await queue.openAssignments()
        return try addresses.map { text in
            let address = try SensorAddress.checked(text)
            guard let sensor = sensors.first(where: { $0.address == address }),
                let assignment = open.first(where: { $0.sensorID == sensor.id })
            else {
                throw ProblemReport(
                    code: .unknownSensor, message: "no such sensor is paired",
                    advice: "edge-gateway sensors lists them")
            }
            return assignment
        }
    }

    // MARK: - Trying, pausing, removing

    /// Tries a destination as `add` does.
    ///
    /// - Throws: ``ProblemReport`` with what is wrong.
    func test(_ name: String) async throws -> DestinationTestReport {
        let enrollment = try await destinations.known(name)
        guard enrollment.terms.kind == .destination, enrollment.terms.system != FileKind.name else {
            return try await look(at: enrollment)
        }
        let report = try await probe(try kind(of: enrollment), insteadOf: enrollment)
        return DestinationTestReport(
            name: name, checked: report.checked, unchecked: report.unchecked)
    }

    /// Asks the destination of a delivery that runs whether it is well: what an exchange's tokens open, and
    /// what a file's lock guards, is the delivery's own.
    private func look(at enrollment: Enrollment) async throws -> DestinationTestReport {
        let name = enrollment.terms.name
        guard let isHealthy = await deliveries.isHealthy(enrollment.id) else {
            throw ProblemReport(
                code: .destinationRefuses, message: "the delivery to \(name) does not run",
                advice: enrollment.isPaused
                    ? "edge-gateway destination resume \(name)" : "edge-gateway status")
        }
        guard isHealthy else {
            throw ProblemReport(
                code: .destinationRefuses,
                message: await deliveries.fault(of: enrollment.id) ?? "\(name) does not answer",
                advice: "check network, DNS, proxy and disk; samples are kept")
        }
        return DestinationTestReport(
            name: name, checked: ["\(enrollment.terms.origin) answers"],
            unchecked: ["whether it takes samples: the first sample shows it"])
    }

    /// Stops a delivery until it is resumed. Its samples are kept, for as long as it says.
    func pause(_ name: String) async throws -> DestinationReport {
        let enrollment = try await destinations.known(name)
        try await changes.alone {
            await deliveries.stop(enrollment.id)
            do {
                try await queue.setHold(
                    enrollment: enrollment.id, reason: HoldReason.paused.rawValue)
            } catch {
                try? await changes.startDelivery(of: enrollment.id)
                throw error
            }
        }
        logger.notice("delivery paused", metadata: ["enrollment": "\(name)"])
        return try await destinations.report(on: try await destinations.known(name))
    }

    /// Goes on with a delivery that was paused.
    func resume(_ name: String) async throws -> DestinationReport {
        let enrollment = try await destinations.known(name)
        if enrollment.isPaused {
            try await changes.alone {
                try await queue.setHold(enrollment: enrollment.id, reason: nil)
                try await changes.startDelivery(of: enrollment.id)
            }
            logger.notice("delivery resumed", metadata: ["enrollment": "\(name)"])
        }
        return try await destinations.report(on: try await destinations.known(name))
    }

    /// Ends the delivery to a destination for good. What it has it keeps.
    ///
    /// - Throws: ``ProblemReport`` while it is a strap's own destination, or while samples wait that were not
    ///   given up.
    func remove(_ ask: DestinationRemoveRequest) async throws -> DestinationReport {
        let enrollment = try await destinations.added(ask.name)
        let owned = try await queue.assignments().filter { $0.enrollmentID == enrollment.id }
        guard owned.isEmpty else {
            throw ProblemReport(
                code: .ownDestination,
                message: "\(ask.name) is the own destination of a strap, now or earlier",
                advice: "pair the strap again with another --enrollment, then edge-gateway erase "
                    + "\(ask.name) erases what was recorded for it")
        }
        // What it delivers while it is looked at would not be counted.
        await changes.alone { await deliveries.stop(enrollment.id) }
        let report: DestinationReport
        do {
            report = try await checkRemoval(of: enrollment, givesUp: ask.undelivered ?? false)
        } catch {
            try? await changes.alone { try await changes.startDelivery(of: enrollment.id) }
            throw error
        }
        try await erasing.remove(enrollment)
        logger.notice("destination removed", metadata: ["enrollment": "\(ask.name)"])
        return report
    }

    /// What a destination has when it is removed. Its delivery does not run.
    private func checkRemoval(
        of enrollment: Enrollment, givesUp: Bool
    ) async throws -> DestinationReport {
        try await queue.flush()
        let report = try await destinations.report(on: enrollment)
        let waiting = report.pending + report.dead
        guard waiting == 0 || givesUp else {
            throw ProblemReport(
                code: .samplesWait,
                message: "\(waiting.counted("sample was", "samples were")) not delivered there",
                advice: "wait until they are; or give them up with --undelivered")
        }
        let path = changes.tokenFile(of: enrollment.id).path
        if let left = await deliveries.withdraw(enrollment, tokens: path) {
            guard givesUp else {
                throw ProblemReport(
                    code: .destinationRefuses, message: left,
                    advice:
                        "give the command again when the system answers; with --undelivered the "
                        + "destination goes in any case, and what it shows stays")
            }
            logger.warning(
                "destination still shown to others",
                metadata: ["enrollment": "\(enrollment.terms.name)"])
        }
        return report
    }

    // MARK: - Looking

    /// One destination with its settings and an example of what goes there.
    func show(_ name: String) async throws -> DestinationDetailReport {
        let enrollment = try await destinations.added(name)
        let kind = try kind(of: enrollment)
        let type = type(of: kind)
        var shown = enrollment.terms.settingValues
        let secrets = try? changes.secretFile(of: enrollment.id).load().values
        for name in secrets?.keys ?? [:].keys { shown[name] = "(set)" }
        return DestinationDetailReport(
            destination: try await destinations.report(on: enrollment), settings: shown,
            delivered: type.promise.level.rawValue, deliveredMeans: type.promise.words,
            mayRepeat: type.promise.mayRepeat, patient: kind.patientIdentity.rawValue,
            example: kind.example)
    }

    /// The codes by which the straps that deliver there now are paired at its side.
    ///
    /// - Throws: ``ProblemReport`` also if it needs none.
    func codes(_ name: String) async throws -> DestinationCodesReport {
        let enrollment = try await destinations.added(name)
        let kind = try kind(of: enrollment)
        let reading = clock.read()
        guard kind.pairingCode(sensorID: 0, patient: nil, now: reading.wall) != nil else {
            throw ProblemReport(
                code: .badDestination, message: "\(name) needs no codes",
                advice: "straps deliver there as soon as destination straps or pair names it")
        }
        guard reading.isTrusted else {
            throw ProblemReport(
                code: .clockUntrusted, message: "the clock is not set yet, and codes expire",
                advice: "wait until the machine has the time: timedatectl")
        }
        let sensors = try await queue.sensors()
        let enrollments = try await queue.enrollments()
        var codes: [DestinationCodesReport.Code] = []
        for assignment in try await queue.openAssignments() {
            var patient = assignment.patient
            if assignment.enrollmentID != enrollment.id {
                let further = try await queue.furtherDestinations(of: assignment.id)
                guard further.contains(enrollment.id) else { continue }
                // As the samples name it (PendingSegment).
                let own = enrollments.first { $0.id == assignment.enrollmentID }
                patient = patient ?? own?.terms.patient
            }
            guard let strap = sensors.first(where: { $0.id == assignment.sensorID }),
                let code = kind.pairingCode(
                    sensorID: strap.id, patient: patient, now: reading.wall)
            else { continue }
            codes.append(
                DestinationCodesReport.Code(
                    strap: strap.address, text: code.text,
                    expires: Date(code.expires)))
        }
        return DestinationCodesReport(name: name, codes: codes)
    }

    private func kind(of enrollment: Enrollment) throws -> any DestinationKind {
        let secrets: DestinationSecrets
        do {
            secrets = try changes.secretFile(of: enrollment.id).load()
        } catch {
            throw ProblemReport(
                code: .enrollAgain, message: "its secrets cannot be read: \(error)",
                advice: "edge-gateway destination add with the same settings and name again")
        }
        return try Self.stated { () throws(DestinationProblem) in
            try enrollment.terms.destination(secrets)
        }
    }
}
