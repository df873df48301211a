/// This start of the program, in the running boot.
struct CurrentRun: Sendable {
    /// How the kernel names the boot (``BootID``).
    let bootID: String
    /// The nonce that the identities of this run's samples are made of.
    let nonce: UInt64
    /// When the program started.
    let started: ClockReading
    /// The rows of the boot and of the run; 0 until the run has begun in the store.
    private(set) var boot: Int64 = 0
    private(set) var id: Int64 = 0
    /// Of the boot, as the store has it.
    private(set) var clock = BootClock()

    init(bootID: String, started: ClockReading, nonce: UInt64) {
        self.bootID = bootID
        self.started = started
        self.nonce = nonce
    }

    /// Whether the store has a row of it.
    var hasBegun: Bool { id != 0 }

    mutating func begin(_ start: RunStart) {
        boot = start.boot
        id = start.run
        clock = start.clock
    }

    /// The store has what there is to remember of it.
    mutating func adopt(_ clock: BootClock) { self.clock = clock }
}
