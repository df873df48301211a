import Basics

/// Damage of the store that was met, and what was done about it.
struct StoreRepair: Sendable {
    /// Pause between two replacements of the store. A card that breaks the new store at
    /// once is not helped by writing more to it.
    static let replacePause = Duration.seconds(600)
    /// Errors of the device for so long are taken for damage.
    static let devicePatience = Duration.seconds(300)
    /// Without one for so long, the next is a new one.
    private static let deviceCalm = Duration.seconds(60)
    /// Pause between two attempts to carry a store over whose files are gone.
    static let carryPause = Duration.seconds(60)

    /// Damage that some call met, until a fresh store has taken the place.
    private(set) var damage: QueueError?
    /// Why the files were renamed that a fresh store is to replace; nil once it is open.
    private(set) var replacementCause: QueueError?
    /// The latest salvage, until it is acknowledged.
    var salvage: SalvageReport?
    /// Other damage that was not acknowledged yet.
    var findings = StoreFindings()
    /// The walk that looks for damage in the background.
    var walk = ChecksumWalk()
    private var replacedUptime: Uptime?
    private var carriedUptime: Uptime?
    /// When errors of the device began, and the last of them, by the operation that has not succeeded since.
    private var deviceFailing: [String: (since: Uptime, last: Uptime)] = [:]

    /// The state that a run finds at its start.
    mutating func begin(_ start: RunStart, _ findings: StoreFindings) {
        (damage, replacementCause) = (nil, nil)
        deviceFailing = [:]
        salvage = start.salvage
        self.findings = findings
        walk = ChecksumWalk(after: start.walkedThrough)
    }

    /// Remembers that a call met damage. `rowsOnly`: the call's arguments cannot be at fault, so that a
    /// check of the schema that fails speaks of damaged rows too.
    mutating func note(_ error: QueueError, rowsOnly: Bool = false, at uptime: Uptime) {
        guard damage == nil else { return }
        if error.code == .inputOutput || error.code == .readOnly {
            return noteDevice(error, at: uptime)
        }
        // SQLite does not understand SQL that every test runs: the schema it reads is not ours any more.
        let isSchemaLost = error.code == .internalFault && error.cause.hasPrefix("SQLite 1:")
        guard error.code == .corrupt || isSchemaLost || (rowsOnly && error.isDamage) else { return }
        damage = error
    }

    /// The disk may recover; what it holds is not damaged by that.
    private mutating func noteDevice(_ error: QueueError, at uptime: Uptime) {
        var failing = deviceFailing[error.operation] ?? (uptime, uptime)
        if uptime - failing.last > Self.deviceCalm { failing.since = uptime }
        failing.last = uptime
        deviceFailing[error.operation] = failing
        if uptime - failing.since >= Self.devicePatience { damage = error }
    }

    /// The device did it after all.
    mutating func worked(_ operation: String) {
        if !deviceFailing.isEmpty { deviceFailing[operation] = nil }
    }

    // MARK: - Replacement

    /// The damage for which the store is to be replaced.
    func replacementDue(uptime: Uptime) -> QueueError? {
        guard let damage, mayReplace(uptime: uptime) else { return nil }
        // A row that the schema refuses may be a defect of this program and not of the disk: the store is replaced once.
        return replacedUptime != nil && damage.code == .internalFault ? nil : damage
    }

    func mayReplace(uptime: Uptime) -> Bool {
        replacedUptime.map { uptime - $0 >= Self.replacePause } ?? true
    }

    mutating func replaced(uptime: Uptime) { replacedUptime = uptime }

    /// The broken files have another name: what is found in their place from now on is another store.
    mutating func setAside(because cause: QueueError, uptime: Uptime) {
        (damage, replacementCause) = (nil, cause)
        deviceFailing = [:]
        replaced(uptime: uptime)
    }

    // MARK: - Findings

    /// Whether an attempt is due to carry a store over whose files are gone; the next is a minute later.
    mutating func isCarryDue(uptime: Uptime) -> Bool {
        if let carriedUptime, uptime - carriedUptime < Self.carryPause { return false }
        carriedUptime = uptime
        return true
    }

    mutating func acknowledge() {
        salvage = nil
        findings = StoreFindings()
    }
}
