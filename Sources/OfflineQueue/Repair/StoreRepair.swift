import Basics

/// Damage of the store that was met, and what was done about it.
struct StoreRepair: Sendable {
    /// Pause between two salvages while running. A card that breaks the new store at
    /// once is not helped by writing more to it.
    static let salvagePause = Duration.seconds(600)
    /// The same after one for which the disk had no room.
    static let retryPause = Duration.seconds(60)
    /// Pause between two attempts to carry a store over whose files are gone.
    static let carryPause = Duration.seconds(60)

    /// Damage that some call met, until the store has been salvaged.
    private(set) var damage: QueueError?
    /// The latest salvage, until it is acknowledged.
    private(set) var salvage: SalvageReport?
    /// Other damage that was not acknowledged yet.
    private(set) var findings = StoreFindings()
    /// The walk that looks for damage in the background.
    var walk = ChecksumWalk()
    private var salvagedUptime: Uptime?
    private var carriedUptime: Uptime?

    /// What a run finds at its start.
    mutating func begin(_ start: RunStart, _ findings: StoreFindings) {
        salvage = start.salvage
        self.findings = findings
        walk.through = start.walkedThrough
    }

    /// Remembers that a call met damage. `rowsOnly`: the call's arguments cannot be at fault, so that a
    /// check of the schema that fails speaks of damaged rows too.
    mutating func note(_ error: QueueError, rowsOnly: Bool = false) {
        // SQLite does not understand SQL that every test runs: the schema it reads is not ours any more.
        let isSchemaLost = error.code == .internalFault && error.cause.hasPrefix("SQLite 1:")
        guard damage == nil,
            error.code == .corrupt || isSchemaLost || (rowsOnly && error.isDamage)
        else { return }
        damage = error
    }

    /// The store cannot be opened for this reason.
    mutating func noteAbsence(_ error: QueueError) {
        if error.isDamage { damage = error }
    }

    // MARK: - Salvage

    /// The damage for which a salvage is due.
    func salvageDue(uptime: Uptime) -> QueueError? {
        guard let damage else { return nil }
        if let salvagedUptime {
            if uptime - salvagedUptime < Self.salvagePause { return nil }
            // What the schema's checks refuse may be a defect of this program and not of the disk: once.
            if damage.code == .internalFault { return nil }
        }
        return damage
    }

    mutating func salvageBegan(uptime: Uptime) {
        salvagedUptime = uptime
    }

    mutating func salvageEnded(_ error: QueueError?, uptime: Uptime) {
        guard let error else {
            damage = nil
            return
        }
        // A person may make room soon.
        if !error.isDamage {
            salvagedUptime = uptime - Self.salvagePause + Self.retryPause
        }
    }

    mutating func report(_ salvage: SalvageReport?) {
        self.salvage = salvage
    }

    // MARK: - Findings

    /// Whether an attempt is due to carry a store over whose files are gone; the next is a minute later.
    mutating func isCarryDue(uptime: Uptime) -> Bool {
        if let carriedUptime, uptime - carriedUptime < Self.carryPause { return false }
        carriedUptime = uptime
        return true
    }

    mutating func found(missing: MissingStore) {
        findings.missing = missing
    }

    mutating func found(damagedRows: Int) {
        findings.damagedRows = damagedRows
    }

    mutating func acknowledge() {
        salvage = nil
        findings = StoreFindings()
    }
}
