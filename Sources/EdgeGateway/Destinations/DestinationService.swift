import Basics
import Foundation
import Logging
import OfflineQueue
import Uplink

/// Adds, changes, pauses and removes destinations other than exchanges.
struct DestinationService: Sendable {
    /// How many days samples wait for a destination that cannot take them, by default: the longest outage to
    /// expect of a further destination.
    static let keepDays = 30
    /// The longest such time: a gateway's disk does not last longer.
    private static let keepDaysMax = 3_650

    let settings: Settings
    let queue: SampleQueue
    let destinations: Destinations
    let changes: EnrollmentChanges
    let erasing: EraseService
    let straps: DestinationStraps
    let probing: DestinationProbe
    let deliveries: Deliveries
    let logger: Logger

    // MARK: - Adding

    /// Tries a destination, stores it, and starts its delivery. An existing one of that name and kind gets the
    /// new settings, if the request says `replace` or only secrets, straps and times differ.
    ///
    /// - Throws: ``ProblemReport``; before the destination is stored, nothing was changed.
    func add(_ given: DestinationAddRequest) async throws -> DestinationAddReport {
        var ask = given
        try EnrollmentService.check(resolution: ask.resolution)
        let beginning = try DestinationStraps.beginning(ask.from)
        let assignments = try await straps.assignments(of: ask.straps ?? [])
        let existing = try await queue.enrollments()
        let same = existing.named(ask.name ?? ask.kind)
        if same == nil { try GivenName.check(ask.name) }
        let name = same?.terms.name ?? ask.name ?? ask.kind
        makeSettings(of: &ask, insteadOf: same)
        let kind = try ProblemReport.ofDestination { () throws(DestinationProblem) in
            try DestinationRegistry.destination(ask.kind, ask.settings)
        }
        try checkBesideOwnFiles(kind)
        if let same, same.terms.kind != .destination || same.terms.system != ask.kind {
            throw ProblemReport(
                code: .nameTaken, message: "the name \(name) is another destination's",
                advice: "choose another --name; edge-gateway destination list")
        }
        let fields = type(of: kind).fields
        if let same, let field = fields.first(where: { $0.differs(in: ask.settings, from: same) }) {
            throw ProblemReport(
                code: .badDestination,
                message: "\(field.name) of the destination \(name) cannot change",
                advice:
                    "choose another --name; or first edge-gateway destination remove \(name.shellWord), "
                    + "which ends its link")
        }
        if let same, ask.replace != true {
            try checkIsSame(ask, same, fields)
        }
        let file = Self.file(of: kind)
        if let file,
            let other = existing.first(where: { $0.terms.writes(to: file) && $0.id != same?.id })
        {
            throw ProblemReport(
                code: .badDestination, message: "\(other.terms.name) writes this file already",
                advice: "choose another file")
        }
        // A delivery holds its file locked; only a new one is tried.
        let isOpen = file.map { same?.terms.writes(to: $0) ?? false } ?? false
        let probe = isOpen ? nil : try await probing.probe(kind, insteadOf: same)
        let secrets = Set(fields.filter { $0.isSecret }.map { $0.name })
        let terms = try terms(ask, name, kind, insteadOf: same, secrets)
        guard !terms.takesEveryStrap || !kind.servesOnePatient else {
            throw ProblemReport(
                code: .badDestination, message: "with these settings it shows one patient's rate",
                advice: "choose the straps with --strap, and add a destination for each patient")
        }
        try await straps.checkPatients(of: assignments, for: terms)
        try await straps.catchUp()
        let stored = try await changes.begin(
            terms, insteadOf: same,
            .secrets(
                DestinationSecrets(
                    place: terms.origin,
                    values: ask.settings.filter { secrets.contains($0.key) }
                        .mapValues { Secret($0) },
                    tokens: probe?.tokens)))
        try await straps.attach(stored, to: assignments, beginning, isEvery: terms.takesEveryStrap)
        return DestinationAddReport(
            destination: try await destinations.report(on: stored),
            test: DestinationTestReport(
                name: name, checked: probe?.checked ?? [], unchecked: probe?.unchecked ?? []))
    }

    /// Who adds a second destination and names neither would turn the first one's samples elsewhere.
    private func checkIsSame(
        _ ask: DestinationAddRequest, _ same: Enrollment, _ fields: [SettingField]
    ) throws {
        let known = same.terms.settingValues
        let other = fields.filter {
            !$0.isSecret && $0.value(in: ask.settings) != $0.value(in: known)
        }.map(\.name).joined(separator: ", ")
        guard !other.isEmpty else { return }
        let name = same.terms.name
        throw ProblemReport(
            code: .nameTaken,
            message: "there is a destination \(name) already, with another \(other)",
            advice:
                "give a second one a --name of its own, or --replace the settings of this one "
                + "(edge-gateway destination show \(name.shellWord))")
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
        terms.resolution =
            ask.resolution ?? same?.terms.resolution ?? kind.resolution.rawValue
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

    /// The file that it appends to; nil for one that sends elsewhere.
    private static func file(of kind: any DestinationKind) -> String? {
        kind is FileKind ? String(kind.place.dropFirst("file://".count)) : nil
    }

    /// Nothing may be appended to the gateway's own files.
    private func checkBesideOwnFiles(_ kind: any DestinationKind) throws {
        guard let file = Self.file(of: kind),
            let refusal = GatewayFiles(settings: settings).refusal(of: file)
        else { return }
        throw ProblemReport(
            code: .badRequest, message: refusal,
            advice: "choose another directory, or another name that ends in .ndjson")
    }

    // MARK: - Pausing, removing

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
        try await changes.alone {
            // As it is now: another reason to hold it may have come meanwhile.
            let enrollment = try await destinations.known(name)
            guard enrollment.isPaused else { return }
            try await queue.setHold(enrollment: enrollment.id, reason: nil)
            try await changes.startDelivery(of: enrollment.id)
            logger.notice("delivery resumed", metadata: ["enrollment": "\(name)"])
        }
        return try await destinations.report(on: try await destinations.known(name))
    }

    /// Ends the delivery to a destination for good. What it has it keeps.
    ///
    /// - Throws: ``ProblemReport`` while it is a strap's own destination, or while samples wait that were not
    ///   given up.
    func remove(_ ask: DestinationRemoveRequest) async throws -> DestinationReport {
        let givesUp = ask.undelivered ?? false
        let report = try await changes.alone {
            let enrollment = try await destinations.added(ask.name)
            let removal = Erasure(further: enrollment.id, givesUp: givesUp)
            // A delivery during the check would not be counted.
            await deliveries.stop(enrollment.id)
            do {
                try await queue.check(removal)
                let report = try await destinations.report(on: enrollment)
                try await withdraw(enrollment, givesUp: givesUp)
                try await erasing.empty(removal)
                return report
            } catch {
                try? await changes.startDelivery(of: enrollment.id)
                throw error
            }
        }
        logger.notice("destination removed", metadata: ["enrollment": "\(ask.name)"])
        return report
    }

    /// Has a destination end what it shows to others. Its delivery does not run.
    private func withdraw(_ enrollment: Enrollment, givesUp: Bool) async throws {
        let path = changes.tokenFile(of: enrollment.id).path
        guard let left = try await deliveries.withdraw(enrollment, tokens: path) else { return }
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
}

extension SettingField {
    /// Whether a destination has another value that is for good.
    fileprivate func differs(in given: [String: String], from destination: Enrollment) -> Bool {
        isFixed && value(in: given) != value(in: destination.terms.settingValues)
    }
}

extension EnrollmentTerms {
    /// Whether samples are delivered into the file at `path`, by whatever name.
    func writes(to path: String) -> Bool {
        FilePlace.path(of: self).map { GivenPath.isSame($0, path) } ?? false
    }
}
