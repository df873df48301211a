import Basics
import Foundation
import Health
import Logging
import OfflineQueue
import Uplink

/// One alert as its file has it. All settings are secrets there: addresses are.
struct AlertRecord: Codable, Sendable {
    /// Random, so that the messages of two gateways are never taken for one another.
    var id: String
    var name: String
    var kind: String
    var settings: [String: Secret]
    var errorsAfter: Int
    var warningsAfter: Int
    var strapNames: Bool
    var isPaused = false

    var patience: AlertSchedule.Patience {
        AlertSchedule.Patience(
            errors: .seconds(errorsAfter), warnings: .seconds(warningsAfter))
    }
}

/// The memory of an alert, as its file has it.
private struct AlertMemory: Codable, Sendable {
    var state: AlertSchedule.State
    /// The boot to which its instants belong, and when they were written.
    var boot: String
    var written: ClockReading
    var lastSent: UTC?
}

/// The alerts, and what each has to say. It alone changes their files.
actor Alerts {
    /// More than a household or a ward has.
    static let countMax = 8

    private typealias Attempt = @Sendable () async throws(AlertFault) -> Void

    private struct Alert {
        var record: AlertRecord
        /// Nil if a newer or damaged file has settings that are not understood.
        let kind: (any AlertKind)?
        var schedule: AlertSchedule
        var sign: LifeSign?
        /// The state that the file has.
        var stored: AlertSchedule.State
        var lastSent: UTC?
        var fault: String?
        var lastBoot: LastBoot?
        /// The attempt that is being sent: a server may take its time, and the next message waits for it. An alert that
        /// is changed meanwhile begins anew, and what comes of an older attempt is not its own.
        var underWay: Int?
    }

    /// The end of an earlier boot, until the clock is trusted: then it is known how long the machine was off.
    private struct LastBoot {
        let written: UTC
        /// When this run began, before anything of it.
        let start: Uptime
    }

    private let settings: Settings
    private let queue: SampleQueue
    private let clock: any GatewayClock
    private let boot: String
    private let logger: Logger
    /// A server that hangs then keeps no other one waiting.
    private let transport: @Sendable () -> any HTTPTransport
    private var alerts: [Alert] = []
    private var attempts = 0
    /// Why the file of all alerts could not be read.
    private var unreadable: String?

    init(
        settings: Settings, queue: SampleQueue, clock: any GatewayClock, logger: Logger,
        boot: String = BootID.current() ?? "unknown",
        transport: (@Sendable () -> any HTTPTransport)? = nil
    ) {
        self.settings = settings
        self.queue = queue
        self.clock = clock
        self.boot = boot
        self.logger = logger
        self.transport = transport ?? { [curl = settings.curl] in CurlTransport(curl) }
        (alerts, unreadable) = Self.load(settings, boot: boot, at: clock.read())
    }

    // MARK: - Files

    private static func recordFile(_ settings: Settings) -> SecretFile<[AlertRecord]> {
        SecretFile(path: settings.stateDirectory + "/alerts.json", policy: settings.sealTokens)
    }

    private static func memoryFile(_ settings: Settings, _ id: String) -> SecretFile<AlertMemory> {
        SecretFile(path: settings.stateDirectory + "/alert-\(id).json")
    }

    private static func load(
        _ settings: Settings, boot: String, at now: ClockReading
    ) -> (alerts: [Alert], unreadable: String?) {
        do throws(SecretFile<[AlertRecord]>.Fault) {
            let alerts = try recordFile(settings).load().map { record in
                let memory = try? memoryFile(settings, record.id).load()
                return alert(record, memory, boot: boot, at: now)
            }
            return (alerts, nil)
        } catch {
            if case .missing = error { return ([], nil) }
            return ([], "\(error)")
        }
    }

    /// Reads the file again if it could not be read: a person may have corrected its mode, or the disk, or what
    /// `systemd-creds` needs.
    func readAgain() {
        guard unreadable != nil else { return }
        (alerts, unreadable) = Self.load(settings, boot: boot, at: clock.read())
    }

    private static func alert(
        _ record: AlertRecord, _ memory: AlertMemory?, boot: String, at now: ClockReading
    ) -> Alert {
        var state = memory?.state ?? AlertSchedule.State()
        var lastBoot: LastBoot?
        if let memory, memory.boot != boot {
            state.shift(
                by: now.uptime - memory.written.uptime, before: Uptime(microseconds: .max))
            lastBoot = memory.written.trustedWall.map {
                LastBoot(written: $0, start: now.uptime)
            }
        }
        return Alert(
            record: record, kind: kind(record),
            schedule: AlertSchedule(record.patience, state: state),
            sign: sign(record), stored: memory?.state ?? AlertSchedule.State(),
            lastSent: memory?.lastSent, lastBoot: lastBoot)
    }

    private static func kind(_ record: AlertRecord) -> (any AlertKind)? {
        try? AlertRegistry.alert(record.kind, record.settings.mapValues(\.revealed))
    }

    private static func sign(_ record: AlertRecord) -> LifeSign? {
        (kind(record) as? SignOfLife).map {
            LifeSign(every: $0.every, hasFailureAddress: $0.hasFailureAddress)
        }
    }

    private func store(_ records: [AlertRecord]) throws {
        do throws(SecretFile<[AlertRecord]>.Fault) {
            try Self.recordFile(settings).save(records)
        } catch {
            throw ProblemReport(
                code: .stateUnwritable, message: "the alerts' file cannot be written: \(error)",
                advice: "check the disk: df -h; edge-gateway status")
        }
    }

    /// Puts on the disk what an alert has said, if that has changed.
    private func remember(_ index: Int, at now: ClockReading) {
        let state = alerts[index].schedule.kept(at: now.uptime)
        guard alerts[index].stored != state else { return }
        let memory = AlertMemory(
            state: state, boot: boot, written: now,
            lastSent: alerts[index].lastSent)
        do throws(SecretFile<AlertMemory>.Fault) {
            try Self.memoryFile(settings, alerts[index].record.id).save(memory)
            alerts[index].stored = memory.state
        } catch {
            // The disk is a health item of its own; after a restart something may be said twice.
        }
    }

    // MARK: - Asking

    /// Whether there is nothing to look for.
    var isIdle: Bool { !alerts.contains { !$0.record.isPaused } }

    /// The alert of that name.
    ///
    /// - Throws: ``ProblemReport`` if their file cannot be read.
    func record(_ name: String) throws -> AlertRecord? {
        try checkAreRead()
        return alerts.first { GivenName.areSame($0.record.name, name) }?.record
    }

    /// All of them.
    ///
    /// - Throws: ``ProblemReport`` if their file cannot be read.
    func reports() throws -> [AlertReport] {
        try checkAreRead()
        return alerts.map { report($0, at: clock.read()) }
    }

    /// A file that cannot be read may have alerts that nobody sees: it is not taken for an empty one, nor replaced.
    private func checkAreRead() throws {
        readAgain()
        guard let unreadable else { return }
        let path = Self.recordFile(settings).path
        throw ProblemReport(
            code: .cannotOpen, message: "the file of the alerts cannot be read: \(unreadable)",
            advice:
                "nothing was changed; make \(path) readable for the daemon's user, or move it away and add "
                + "the alerts anew")
    }

    private func report(_ alert: Alert, at now: ClockReading) -> AlertReport {
        let isSign = alert.sign != nil
        let waiting = alert.schedule.state.failures > 0 ? alert.schedule.state.outgoing : nil
        return AlertReport(
            name: alert.record.name, kind: alert.record.kind,
            place: alert.kind?.place ?? "its settings are not understood",
            state: alert.record.isPaused ? "paused" : "active",
            errorsAfter: isSign ? nil : alert.record.errorsAfter,
            warningsAfter: isSign ? nil : alert.record.warningsAfter,
            every: (alert.kind as? SignOfLife).map { Int($0.every.inSeconds) },
            strapNames: alert.record.strapNames,
            waitingSince: waiting.flatMap { now.at($0.due).trustedWall }.map { Date($0) },
            fault: alert.fault, lastSent: alert.lastSent.map { Date($0) })
    }

    /// One of them.
    ///
    /// - Throws: ``ProblemReport`` if there is none of that name.
    func report(_ name: String) throws -> AlertReport {
        let index = try index(name)
        return report(alerts[index], at: clock.read())
    }

    private func index(_ name: String) throws -> Int {
        try checkAreRead()
        guard let index = alerts.firstIndex(where: { $0.record.name == name }) else {
            throw ProblemReport.unknownAlert
        }
        return index
    }

    /// Alerts whose messages do not arrive.
    func faults(at now: Uptime) -> [HealthSnapshot.Alert] {
        var faults = alerts.compactMap { alert -> HealthSnapshot.Alert? in
            let time =
                alert.sign == nil
                ? alert.schedule.undeliveredTime(at: now) : alert.sign?.undeliveredTime(at: now)
            if alert.kind == nil {
                return HealthSnapshot.Alert(
                    name: alert.record.name, undeliveredTime: .zero,
                    fault: "its settings are not understood")
            }
            guard !alert.record.isPaused, let time else { return nil }
            return HealthSnapshot.Alert(
                name: alert.record.name, undeliveredTime: time,
                fault: alert.fault ?? "the last attempt failed")
        }
        if let unreadable {
            faults.append(
                HealthSnapshot.Alert(name: "alerts", undeliveredTime: .zero, fault: unreadable))
        }
        return faults
    }

    // MARK: - Changing

    /// Adds an alert, or gives the one of its name new settings: what that one has said counts.
    func add(_ given: AlertRecord) throws -> AlertReport {
        try checkAreRead()
        var record = given
        let now = clock.read()
        if let index = alerts.firstIndex(where: { $0.record.name == record.name }) {
            record.id = alerts[index].record.id
            var records = alerts.map(\.record)
            records[index] = record
            try store(records)
            alerts[index] = Alert(
                record: record, kind: Self.kind(record),
                schedule: AlertSchedule(
                    record.patience, state: alerts[index].schedule.state),
                sign: Self.sign(record), stored: alerts[index].stored,
                lastSent: alerts[index].lastSent)
        } else {
            guard alerts.count < Self.countMax else {
                throw ProblemReport(
                    code: .tooManyAlerts, message: "there are \(Self.countMax) alerts already",
                    advice: "edge-gateway alert remove NAME; a mailing list reaches more people")
            }
            try store(alerts.map(\.record) + [record])
            alerts.append(Self.alert(record, nil, boot: boot, at: now))
        }
        logger.notice("alert added", metadata: ["alert": "\(Printable.line(record.name))"])
        return try report(record.name)
    }

    /// Says nothing until it is resumed, or goes on.
    func pause(_ name: String, _ isPaused: Bool) throws -> AlertReport {
        let index = try index(name)
        if alerts[index].record.isPaused != isPaused {
            var records = alerts.map(\.record)
            records[index].isPaused = isPaused
            try store(records)
            alerts[index].record.isPaused = isPaused
            alerts[index].fault = nil
            alerts[index].sign = Self.sign(alerts[index].record)
            logger.notice(
                isPaused ? "alert paused" : "alert resumed",
                metadata: ["alert": "\(Printable.line(name))"])
        }
        return try report(name)
    }

    /// Takes an alert away, with its secrets and what it has said.
    func remove(_ name: String) throws -> AlertReport {
        let index = try index(name)
        let report = try report(name)
        var records = alerts.map(\.record)
        let id = records.remove(at: index).id
        try store(records)
        alerts.remove(at: index)
        try? Self.memoryFile(settings, id).remove()
        logger.notice("alert removed", metadata: ["alert": "\(Printable.line(name))"])
        return report
    }

    // MARK: - Telling

    /// Tries an alert with settings that need not be stored.
    func test(_ record: AlertRecord) async throws(AlertFault) {
        let now = clock.read()
        let parts = parts(at: now)()
        switch Self.kind(record) {
        case let sender as any AlertSender:
            let text = AlertText(gateway: settings.identity.name, now: now)
            try await sender.send(text.test(id: Self.randomText()), parts)
        case let sign as SignOfLife: try await sign.callAlive(parts)
        default: break
        }
    }

    private func parts(at now: ClockReading) -> @Sendable () -> AlertParts {
        { [transport, network = settings.curl] in
            AlertParts(transport: transport(), network: network, now: now)
        }
    }

    /// 64 random bits in hexadecimal.
    static func randomText() -> String { String(UInt64.random(in: .min ... .max), radix: 16) }

    /// One message, or one sign of life, that is due.
    struct Sending: Sendable {
        let alert: String
        /// Sends it, and notes what came of that.
        let send: @Sendable () async -> Void
    }

    /// Takes over what holds, and gives what is due. Each is to be sent by itself: a server that hangs keeps only its
    /// own alert waiting, which gives nothing more until it is sent or has failed.
    func due(_ view: HealthView) async -> [Sending] {
        var sendings: [Sending] = []
        let names = await strapNames()
        let now = view.reading
        let parts = parts(at: now)
        for index in alerts.indices where !alerts[index].record.isPaused {
            let record = alerts[index].record
            func begin(_ attempt: @escaping Attempt) {
                attempts += 1
                alerts[index].underWay = attempts
                sendings.append(
                    Sending(alert: record.name) { [attempts] in
                        await self.send(record.id, attempts, attempt)
                    })
            }
            if let sign = alerts[index].kind as? SignOfLife {
                guard alerts[index].underWay == nil else { continue }
                switch alerts[index].sign?.next(isFlowing: view.isFlowing, at: now.uptime) {
                case .alive: begin { () throws(AlertFault) in try await sign.callAlive(parts()) }
                case .failure:
                    begin { () throws(AlertFault) in try await sign.callFailure(parts()) }
                case nil: break
                }
                continue
            }
            if let last = alerts[index].lastBoot, let wall = now.trustedWall {
                let start = wall - (now.uptime - last.start)
                alerts[index].schedule.backdate(
                    by: start - last.written, before: last.start + .microseconds(1))
                alerts[index].lastBoot = nil
            }
            // That nothing arrives here cannot be said here.
            alerts[index].schedule.look(
                view.items.filter { !$0.isAbout(alert: record.name) }, unjudged: view.unjudged,
                at: now.uptime)
            let news =
                alerts[index].underWay == nil ? alerts[index].schedule.next(at: now.uptime) : nil
            // Before it is sent: after a restart it is the same message.
            remember(index, at: now)
            guard let news, let sender = alerts[index].kind as? any AlertSender else { continue }
            let text = AlertText(
                gateway: settings.identity.name, straps: record.strapNames ? names : [:], now: now)
            let message = text.message(news, id: record.id)
            begin { () throws(AlertFault) in try await sender.send(message, parts()) }
        }
        return sendings
    }

    private func send(_ id: String, _ number: Int, _ attempt: Attempt) async {
        do throws(AlertFault) {
            try await attempt()
            settle(id, number, nil)
        } catch {
            settle(id, number, error)
        }
    }

    /// The result of an attempt. The alert may be gone, changed or paused by now.
    private func settle(_ id: String, _ number: Int, _ fault: AlertFault?) {
        guard
            let index = alerts.firstIndex(where: {
                $0.record.id == id && $0.underWay == number
            })
        else { return }
        alerts[index].underWay = nil
        guard fault == nil || !Task.isCancelled else { return }
        let now = clock.read()
        if fault == nil { alerts[index].lastSent = now.trustedWall ?? alerts[index].lastSent }
        if let fault, alerts[index].fault != fault.message {
            logger.warning(
                "the alert was not sent: \(Printable.line(fault.message))",
                metadata: ["alert": "\(Printable.line(alerts[index].record.name))"])
        }
        alerts[index].fault = fault?.message
        if alerts[index].sign != nil {
            alerts[index].sign?.called(works: fault == nil, at: now.uptime)
        } else if let fault {
            alerts[index].schedule.failed(at: now.uptime, retryAfter: fault.retryAfter)
        } else {
            alerts[index].schedule.sent(at: now.uptime)
        }
        remember(index, at: now)
    }

    private func strapNames() async -> [Int64: String] {
        guard alerts.contains(where: { $0.record.strapNames }),
            let sensors = try? await queue.sensors(includingForgotten: true)
        else { return [:] }
        var names: [Int64: String] = [:]
        for sensor in sensors { names[sensor.id] = sensor.details.name.map { Printable.line($0) } }
        return names
    }
}

extension AlertSchedule.Seen {
    /// Whether the item is that this alert cannot be delivered.
    fileprivate func isAbout(alert: String) -> Bool {
        name == .alertNotDelivered && subject == alert
    }
}
