import Basics
import BlueZ
import OfflineQueue
import Recording

/// Reads the states of the parts that record. It changes nothing, and reads only memory and the store's
/// counters.
public struct RecordingHealth: Sendable {
    let recorder: Recorder
    let central: Central
    let queue: SampleQueue

    /// Reads these three.
    public init(recorder: Recorder, central: Central, queue: SampleQueue) {
        self.recorder = recorder
        self.central = central
        self.queue = queue
    }

    /// The snapshot of radio, straps and store, and what was counted for it.
    public func read(
        _ reading: ClockReading, history: HealthHistory
    ) async -> (snapshot: HealthSnapshot, counts: HealthHistory.Counts) {
        var snapshot = HealthSnapshot()
        snapshot.clockDoubt = queue.clock.doubt(reading)
        snapshot.radio = HealthSnapshot.Radio(await recorder.radio, at: reading.uptime)
        let links = await central.snapshots()
        snapshot.adapters = await central.adapterSnapshots().map {
            HealthSnapshot.Adapter($0, links: links, at: reading.uptime)
        }
        var counts = HealthHistory.Counts()
        let health = await queue.health()
        counts.buffered = health.buffered
        snapshot.store = HealthSnapshot.Store(health)
        snapshot.clockStep = health.clockSteps.compactMap { .init($0, at: reading.uptime) }
            .max { abs($0.size.inSeconds) < abs($1.size.inSeconds) }
        do {
            let totals = try await queue.totals()
            counts.take(totals)
            snapshot.store.dead = totals.dead
            snapshot.store.notEnrolled = totals.notEnrolled
            snapshot.store.notEnrolledEnded = totals.notEnrolledEnded
            snapshot.store.clockUnknown = totals.clockUnknown
            snapshot.store.lost = totals.lost
            snapshot.store.fill = HealthSnapshot.Store.Fill(try await queue.fill())
            snapshot.straps = try await straps(links, reading, history, &counts)
        } catch {
            snapshot.store.readFault = "\(error.operation): \(error.cause)"
        }
        snapshot.store.uncommittedTime = history.uncommittedTime(now: counts, at: reading.uptime)
        return (snapshot, counts)
    }

    private func straps(
        _ links: [LinkSnapshot], _ reading: ClockReading, _ history: HealthHistory,
        _ counts: inout HealthHistory.Counts
    ) async throws(QueueError) -> [HealthSnapshot.Strap] {
        let recorded = await recorder.recorded
        let uptime = reading.uptime
        let sensors = try await queue.sensors()
        let links = Dictionary(
            links.map { ($0.address, $0) }, uniquingKeysWith: { first, _ in first })
        counts.unrecorded = Set(sensors.map(\.id)).subtracting(recorded.keys)
        return sensors.map { [counts] sensor in
            var strap = HealthSnapshot.Strap(
                id: sensor.id, address: sensor.address, label: sensor.label)
            guard let (address, session) = recorded[sensor.id] else {
                strap.unrecordedTime = history.unrecordedTime(
                    of: sensor.id, now: counts, at: uptime)
                return strap
            }
            strap.batteryPercent = session.batteryPercent
            strap.isDoubled = session.isDoubled
            strap.silentTime = session.silentTime(at: uptime)
            strap.silenceLimit = session.silenceLimit
            strap.missingTime = session.missingTime
            // A strap that sends nothing has nothing to store.
            if strap.silentTime < strap.silenceLimit {
                if let without = session.rateFault {
                    strap.withoutRateTime = uptime - without.since
                    strap.rateFault = without.fault.meaning
                }
                strap.unstoredTime = min(
                    history.unstoredTime(of: sensor.id, now: counts, at: uptime),
                    session.sendingTime(at: uptime))
            }
            guard let link = links[address] else { return strap }
            strap.link = link.state.kind
            strap.trouble = link.trouble.map { HealthSnapshot.Strap.Trouble($0, at: uptime) }
            strap.fixedAge = link.fixedAge
            return strap
        }
    }
}

extension Sensor {
    /// The name for a person: its own, or the end of its address if that is blank.
    public var label: String {
        details.name.flatMap { $0.allSatisfy(\.isWhitespace) ? nil : $0 }
            ?? "strap " + Recorder.masked(address)
    }
}

extension HealthSnapshot.Strap.Trouble {
    fileprivate init(_ trouble: LinkTrouble, at uptime: Uptime) {
        switch trouble {
        case .bondRefused: self = .bondRefused
        case .bondMissing: self = .bondMissing
        case .unreachable(let since): self = .unreachable(for: uptime - since)
        case .noPlace: self = .noPlace
        case .taken: self = .taken
        case .classic: self = .classic
        case .otherAddress(let address): self = .otherAddress(address)
        }
    }
}

extension RateFault {
    fileprivate var meaning: String {
        switch self {
        case .unreadable: "its frames cannot be read"
        case .contactLost: "no skin contact"
        case .noPulse: "it finds no pulse"
        case .implausible(let bpm): "its rate is \(bpm), which no heart has"
        }
    }
}

extension HealthHistory.Counts {
    fileprivate mutating func take(_ totals: StoreTotals) {
        stored = totals.received
        written = totals.received.values.reduce(0, +)
        let enrollments = Set(totals.settled.keys).union(totals.pending.keys)
        for id in enrollments {
            deliveries[id] = HealthHistory.Backlog(
                settled: totals.settled[id] ?? 0, pending: totals.pending[id] ?? 0)
        }
    }
}

extension HealthSnapshot.Radio {
    fileprivate init(_ radio: Recorder.Radio, at uptime: Uptime) {
        switch radio {
        case .unknown: self = .unknown
        case .ready: self = .ready
        case .noBus: self = .noBus
        case .noDaemon: self = .noDaemon
        case .hung(let since): self = .daemonHung(for: uptime - since)
        case .refused(let fault):
            self =
                fault.name == DBusFault.accessDenied
                ? .daemonDenied : .daemonRefuses(error: fault.name)
        case .noAdapter: self = .noAdapter
        case .poweredOff: self = .poweredOff
        }
    }
}

extension HealthSnapshot.Adapter {
    init(_ state: AdapterSnapshot, links: [LinkSnapshot], at uptime: Uptime) {
        self.init(address: state.adapter.address)
        silentTime = state.silentSince.map { uptime - $0 }
        linkCount = state.linkCount
        let waiting = links.filter { $0.state.canUseAPlace }
        let isRefused = waiting.contains {
            $0.adapter == state.adapter.address && $0.reason == .error(.slots)
        }
        refusesLinks = isRefused || state.isFull && !waiting.isEmpty
    }
}

extension LinkState {
    /// Whether the sensor could use one more link of the adapter. It could not while it has a link or is away, whatever
    /// the result of the last attempt to connect was.
    fileprivate var canUseAPlace: Bool {
        switch self {
        case .streaming, .absent, .suspended(.outOfRange): false
        default: true
        }
    }
}

extension HealthSnapshot.Store {
    fileprivate init(_ health: StoreFacts) {
        self.init()
        writeFault = health.fault.map {
            let had = health.lastKnown.map {
                "; the store had \($0.samples) samples at \($0.atText)"
            }
            return Fault(
                message: "\($0.operation): \($0.cause)\(had ?? "")", advice: $0.code.advice)
        }
        registryFault = health.sidecarFault.map { "\($0.operation): \($0.cause)" }
        scarceBytes = health.room.flatMap { $0.isNearlyFull ? $0.freeBytes : nil }
        buffered = health.buffered
        refused = health.refused
        damagedRows = health.damagedRows
        givesTimes = health.givesTimes
        missing = health.missing.map {
            "a store that was here is missing: \($0.detail)"
                + ($0.isCarried ? "; all of it was carried into new files" : "")
        }
        salvage = health.salvage.map { report in
            Salvage(
                id: report.id, carried: report.isDone ? report.carried : health.saved,
                stored: report.stored.map { .init(samples: $0.samples, at: $0.atText) },
                unknown: report.unknown, isDone: report.isDone, fault: report.fault,
                file: report.brokenFile)
        }
    }
}

extension HealthSnapshot.Store.Fill {
    fileprivate init?(_ fill: StoreFill) {
        guard fill.isNearlyFull else { return nil }
        self.init(
            percent: Int((fill.fraction ?? 0) * 100), isFull: fill.isFull,
            refusesNew: fill.policy == .refuseNew)
    }
}

extension HealthSnapshot.ClockStepSeen {
    /// A day: until then a person can still tell which of today's times are meant.
    private static let shownTime = Duration.seconds(86_400)

    /// Nil for a step that is no larger than a trusted clock may be wrong, and for an old one.
    init?(_ step: ClockStep, at uptime: Uptime) {
        let age = uptime - step.at
        let size = step.size < .zero ? .zero - step.size : step.size
        guard size > ClockTrust.errorMax, age <= Self.shownTime else { return nil }
        self.init(size: step.size, age: max(.zero, age))
    }
}
