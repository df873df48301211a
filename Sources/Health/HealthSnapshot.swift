/// Everything that decides whether the gateway is well, at one instant: plain values, so that a rule can
/// be tested without a radio, a store or an exchange.
public struct HealthSnapshot: Sendable, Equatable {
    /// Whether the wall clock counts.
    public var isClockTrusted = true
    public var radio = Radio.ready
    public var adapters: [Adapter] = []
    public var straps: [Strap] = []
    public var store = Store()
    public var deliveries: [Delivery] = []
    public var services: [Service] = []
    /// A battery below this is low, percent.
    public var batteryLowPercent = 15

    /// A gateway on which nothing happens.
    public init() {}

    /// What the radio is able to do.
    public enum Radio: Sendable, Equatable {
        /// Nothing is known yet.
        case unknown
        case ready, noBus, noDaemon, noAdapter, poweredOff
        /// bluetoothd owns its name and has answered nothing for so long.
        case daemonHung(for: Duration)
    }

    /// One Bluetooth adapter.
    public struct Adapter: Sendable, Equatable {
        public var address: String
        /// How long it has heard nothing at all though it listens; nil while it hears.
        public var silentTime: Duration?
        /// It carries no further link, and a strap waits for one.
        public var refusesLinks = false
        public var linkCount = 0

        public init(address: String) { self.address = address }
    }

    /// One strap that is paired.
    public struct Strap: Sendable, Equatable {
        /// The store's number for it.
        public var id: Int64
        /// For commands that a person can copy; nothing of it goes into a log.
        public var address: String
        /// What a person calls it: its name, or the end of its address.
        public var label: String
        /// The state of its link, as in the report on a sensor.
        public var link = "absent"
        public var batteryPercent: Int?
        public var isBondLost = false
        /// The age at which it ends its links again and again.
        public var fixedAge: Duration?
        public var isDoubled = false
        /// How long it has been heard and could not be connected to.
        public var unreachableTime: Duration?
        /// How long no frame has come.
        public var silentTime = Duration.zero
        /// A silence of this strap counts from here on: some send once in twenty seconds.
        public var silenceLimit = Duration.seconds(60)
        /// How long nothing of it has been stored though frames came.
        public var unstoredTime = Duration.zero

        public init(id: Int64, address: String, label: String) {
            self.id = id
            self.address = address
            self.label = label
        }
    }

    /// The store.
    public struct Store: Sendable, Equatable {
        /// Why it cannot be read; nil if it can.
        public var readFault: String?
        /// Why the last commit failed, and what a person does about it.
        public var writeFault: Fault?
        public var buffered = 0
        public var refused = 0
        /// How long samples have waited in memory without a commit.
        public var uncommittedTime = Duration.zero
        public var salvage: Salvage?
        /// What happened to a store that is no longer in its place; nil while it is there.
        public var missing: String?
        /// Rows that fail their checksum, as far as is known.
        public var damagedRows = 0
        public var fill: Fill?
        /// Samples that are dead letters.
        public var dead = 0
        /// Samples held because no enrollment delivers them.
        public var notEnrolled = 0
        /// Samples that were lost and nobody has acknowledged, by reason.
        public var lost: [String: Int] = [:]

        public init() {}

        public struct Fault: Sendable, Equatable {
            public var message: String
            public var advice: String

            public init(message: String, advice: String) {
                self.message = message
                self.advice = advice
            }
        }

        public struct Salvage: Sendable, Equatable {
            public var id: Int64
            public var carried: Int
            public var lost: Int
            /// The name of the file that is kept.
            public var file: String

            public init(id: Int64, carried: Int, lost: Int, file: String) {
                self.id = id
                self.carried = carried
                self.lost = lost
                self.file = file
            }
        }

        /// Set once four fifths of the limit are taken.
        public struct Fill: Sendable, Equatable {
            public var percent: Int
            public var isFull: Bool
            /// At the limit new samples are refused; else the oldest are dropped.
            public var refusesNew: Bool

            public init(percent: Int, isFull: Bool, refusesNew: Bool) {
                self.percent = percent
                self.isFull = isFull
                self.refusesNew = refusesNew
            }
        }
    }

    /// What one enrollment delivers.
    public struct Delivery: Sendable, Equatable {
        /// The store's number for the enrollment.
        public var id: Int64
        public var name: String
        public var kind = Kind.invitation
        /// The authorization is lost, or cannot be read.
        public var wantsEnrolling = false
        /// The tokens, or the secrets of a destination, exist but cannot be read.
        public var hasUnreadableTokens = false
        /// Why all its samples are held.
        public var hold: Hold?
        /// Why the last request brought no usable answer, in a few words.
        public var fault: String?
        /// Why the task that delivers does not run.
        public var stopped: String?
        /// Straps whose patient's samples are held while the others' go on.
        public var heldStraps: [HeldStrap] = []
        /// Samples that wait and are not held.
        public var pending = 0
        /// How long samples have waited without one of them being settled.
        public var stalledTime = Duration.zero
        /// By how many samples the backlog has grown in the last hour, if it grew all the time.
        public var growth: Int?

        public enum Kind: Sendable { case invitation, practitionerKey, file, destination }

        public struct HeldStrap: Sendable, Equatable {
            public var strap: Int64
            public var label: String
            public var hold: Hold

            public init(strap: Int64, label: String, hold: Hold) {
                self.strap = strap
                self.label = label
                self.hold = hold
            }
        }

        /// Why samples are held: the stored reason, and its words for a person.
        public struct Hold: Sendable, Equatable {
            public var reason: String
            public var meaning: String
            public var remedy: String
            public var cause: Cause

            /// Who ends the hold, as far as the rules distinguish it.
            public enum Cause: Sendable { case consent, paused, other }

            public init(
                reason: String, meaning: String, remedy: String, cause: Cause = .other
            ) {
                self.reason = reason
                self.meaning = meaning
                self.remedy = remedy
                self.cause = cause
            }
        }

        public init(id: Int64, name: String) {
            self.id = id
            self.name = name
        }
    }

    /// A part of the daemon that runs for as long as the daemon does.
    public struct Service: Sendable, Equatable {
        /// Its name, as in the log.
        public var name: String
        /// A server that people look at; recording does not depend on it.
        public var isPage: Bool
        /// Why it does not run, and the setting to look at if there is one; nil while it runs.
        public var fault: String?

        public init(name: String, isPage: Bool = false, fault: String?) {
            self.name = name
            self.isPage = isPage
            self.fault = fault
        }
    }
}
