import Basics
import OfflineQueue

/// Everything that decides whether the gateway is well, at one instant: plain values, so that a rule can
/// be tested without a radio, a store or an exchange.
public struct HealthSnapshot: Sendable, Equatable {
    /// The reason not to trust the wall clock; nil while it is trusted.
    public var clockDoubt: ClockDoubt?
    /// By how much the wall clock was set, and how long ago, while a person should still know of it.
    public var clockStep: ClockStepSeen?
    /// The abilities of the radio.
    public var radio = Radio.ready
    /// The Bluetooth adapters in use.
    public var adapters: [Adapter] = []
    /// The straps that are paired.
    public var straps: [Strap] = []
    /// The store.
    public var store = Store()
    /// The delivery of each enrollment.
    public var deliveries: [Delivery] = []
    /// Whether the store was on other hardware before, and nobody has confirmed this one.
    public var isOtherBoard = false
    /// The parts of the daemon.
    public var services: [Service] = []
    /// The alerts whose messages do not arrive.
    public var alerts: [Alert] = []
    /// A battery below this is low, percent.
    public var batteryLowPercent = 15

    /// A gateway on which nothing happens.
    public init() {}

    /// The abilities of the radio.
    public enum Radio: Sendable, Equatable {
        /// Nothing is known yet.
        case unknown
        /// It works; or what is missing, from the bus down to the power of the adapter.
        case ready, noBus, noDaemon, noAdapter, poweredOff
        /// bluetoothd owns its name, and the bus does not let the gateway ask it.
        case daemonDenied
        /// bluetoothd owns its name and answers the gateway with the error of this name.
        case daemonRefuses(error: String)
        /// bluetoothd owns its name and has answered nothing for so long.
        case daemonHung(for: Duration)
    }

    /// The wall clock was set.
    public struct ClockStepSeen: Sendable, Equatable {
        /// By how much; negative: back.
        public var size: Duration
        /// How long ago.
        public var age: Duration

        /// A step of `size`, `age` ago.
        public init(size: Duration, age: Duration) {
            self.size = size
            self.age = age
        }
    }

    /// One Bluetooth adapter.
    public struct Adapter: Sendable, Equatable {
        /// Its address; nothing of it goes into a log.
        public var address: String
        /// How long it has heard nothing at all though it listens; nil while it hears.
        public var silentTime: Duration?
        /// It carries no further link, and a strap waits for one.
        public var refusesLinks = false
        /// Links that it carries.
        public var linkCount = 0

        /// An adapter that hears and carries no link.
        public init(address: String) { self.address = address }
    }

    /// One strap that is paired.
    public struct Strap: Sendable, Equatable {
        /// The store's number for it.
        public var id: Int64
        /// For commands that a person can copy; nothing of it goes into a log.
        public var address: String
        /// The name for a person: its own, or the end of its address.
        public var label: String
        /// The state of its link, as in the report on a sensor.
        public var link = "absent"
        /// Charge, 0…100; nil where it is not known.
        public var batteryPercent: Int?
        /// The reason that keeps it from streaming, where that is known.
        public var trouble: Trouble?
        /// The age at which it ends its links again and again.
        public var fixedAge: Duration?
        /// Each of its frames arrives twice: another program listens as well.
        public var isDoubled = false
        /// How long no frame has come.
        public var silentTime = Duration.zero
        /// A silence of this strap counts from here on: some send once in twenty seconds.
        public var silenceLimit = Duration.seconds(60)
        /// How much of the last quarter of an hour is without a heart rate while the strap comes and goes; nil while
        /// it does not.
        public var missingTime: Duration?
        /// How long its frames have had no heart rate.
        public var withoutRateTime = Duration.zero
        /// The reason why the last frame had no heart rate, in words.
        public var rateFault = ""
        /// How long no sample of the strap has been stored although frames came.
        public var unstoredTime = Duration.zero
        /// How long the gateway has not recorded the strap at all.
        public var unrecordedTime = Duration.zero

        /// The reason that keeps a strap from streaming.
        public enum Trouble: Sendable, Equatable {
            /// There is a bond here, and the strap no longer knows it.
            case bondRefused
            /// It requires a bond, and this machine has none with it.
            case bondMissing
            /// It has been heard for so long and could not be connected to.
            case unreachable(for: Duration)
            /// Its adapter carries no further link.
            case noPlace
            /// Another program has its notifications to itself.
            case taken
            /// bluetoothd connects to it over classic Bluetooth.
            case classic
            /// A sensor of its name is heard under this address.
            case otherAddress(String)
        }

        /// A strap of which nothing has been heard.
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
        /// The reason why the list of straps and patients could not be written beside the store; nil if it was written.
        public var registryFault: String?
        /// Bytes left on its disk, if there are few; nil otherwise.
        public var scarceBytes: Int64?
        /// Samples that wait in memory.
        public var buffered = 0
        /// Frames of this run that neither disk nor memory could take.
        public var refused = 0
        /// How long samples have waited in memory without a commit.
        public var uncommittedTime = Duration.zero
        /// The outcome of a store that was found broken, until a person acknowledges it.
        public var salvage: Salvage?
        /// The fate of a store that is no longer in its place; nil while it is there.
        public var missing: String?
        /// Rows that fail their checksum, as far as is known.
        public var damagedRows = 0
        /// How full it is, if it is nearly full.
        public var fill: Fill?
        /// Samples that are dead letters.
        public var dead = 0
        /// Samples held because no enrollment delivers them.
        public var notEnrolled = 0
        /// Of these, those that no strap records any more: no pairing gives them to an enrollment.
        public var notEnrolledEnded = 0
        /// Samples of earlier boots held because the clock of their boot was never trusted.
        public var clockUnknown = 0
        /// Whether a sample that comes now has a time; without one it is held.
        public var givesTimes = true
        /// Samples that were lost and nobody has acknowledged, by reason.
        public var lost: [String: Int] = [:]

        /// An empty store that works.
        public init() {}

        /// Why the disk takes nothing.
        public struct Fault: Sendable, Equatable {
            /// The event, one line.
            public var message: String
            /// The remedy, for a person, one line.
            public var advice: String

            /// A fault with its advice.
            public init(message: String, advice: String) {
                self.message = message
                self.advice = advice
            }
        }

        /// A store that was found broken and replaced.
        public struct Salvage: Sendable, Equatable {
            /// The store's number for the salvage.
            public var id: Int64
            /// Samples that were carried over.
            public var carried: Int
            /// The number of samples in the store, and the time of that count; nil if it is unknown.
            public var stored: Stored?
            /// Samples that are unaccounted for; nil if their number is unknown.
            public var unknown: Int?
            /// Whether the salvage has ended.
            public var isDone: Bool
            /// The reason why the salvage cannot go on; nil while it can.
            public var fault: String?
            /// The name of the file that is kept.
            public var file: String

            /// How many samples a store had.
            public struct Stored: Sendable, Equatable {
                /// So many.
                public var samples: Int
                /// When, as text.
                public var at: String

                /// So many samples at a time.
                public init(samples: Int, at: String) {
                    self.samples = samples
                    self.at = at
                }
            }

            /// A salvage with its figures.
            public init(
                id: Int64, carried: Int, stored: Stored?, unknown: Int?, isDone: Bool,
                fault: String?, file: String
            ) {
                self.id = id
                self.carried = carried
                self.stored = stored
                self.unknown = unknown
                self.isDone = isDone
                self.fault = fault
                self.file = file
            }

            var message: String {
                let saved = "\(carried.counted("sample is", "samples are")) saved"
                let had =
                    stored.map { ", which had \($0.samples) samples at \($0.at)" }
                    ?? "; the number of its samples is unknown"
                guard isDone, fault == nil else {
                    let rest =
                        isDone
                        ? "the rest cannot be: \(fault ?? "")"
                        : fault.map { "the rest waits: \($0)" } ?? "more are being read"
                    return "the store broke\(had); \(saved) so far, and \(rest)"
                }
                let rest = unknown.map { "\($0) are unaccounted for" }
                return "the store broke\(had); \(saved)" + (rest.map { ", \($0)" } ?? "")
            }
        }

        /// Set once four fifths of the limit are taken.
        public struct Fill: Sendable, Equatable {
            /// Of the limit, 0…100.
            public var percent: Int
            /// Whether the last commit found no room.
            public var isFull: Bool
            /// At the limit new samples are refused; else the oldest are dropped.
            public var refusesNew: Bool

            /// How full it is, and what happens at the limit.
            public init(percent: Int, isFull: Bool, refusesNew: Bool) {
                self.percent = percent
                self.isFull = isFull
                self.refusesNew = refusesNew
            }
        }
    }

    /// The delivery of one enrollment.
    public struct Delivery: Sendable, Equatable {
        /// The store's number for the enrollment.
        public var id: Int64
        /// Its name, for commands.
        public var name: String
        /// Where it leads, such as an exchange's address: deliveries to one place may have one fault.
        public var place = ""
        /// By what the gateway was let in.
        public var kind = Kind.invitation
        /// The authorization is lost, or cannot be read.
        public var wantsEnrolling = false
        /// The tokens, or the secrets of a destination, exist but cannot be read.
        public var hasUnreadableTokens = false
        /// The reason why all samples of the delivery are held; nil if they are not.
        public var hold: Hold?
        /// Why the last request brought no usable answer, in a few words.
        public var fault: String?
        /// The places to look at then, by the kind of system; nil: the item's own advice.
        public var faultRemedy: String?
        /// Whether the delivery waits until a person has confirmed the board.
        public var waitsForBoard = false
        /// Why the task that delivers does not run.
        public var stopped: String?
        /// Straps whose patient's samples are held while the others' go on.
        public var heldStraps: [HeldStrap] = []
        /// Samples that wait and are not held.
        public var pending = 0
        /// From one request to the next, at most, while all goes well.
        public var interval = Duration.zero
        /// How long samples have waited without one of them being settled.
        public var stalledTime = Duration.zero
        /// By how many samples the backlog has grown in the last hour, if it grew all the time.
        public var growth: Int?

        /// An enrollment by an invitation or a practitioner's key, or another system.
        public enum Kind: Sendable { case invitation, practitionerKey, destination }

        /// A strap whose patient's samples are held.
        public struct HeldStrap: Sendable, Equatable {
            /// The store's number for the strap.
            public var strap: Int64
            /// The name that a person gave it.
            public var label: String
            /// Whether that patient wears it now; else it was an earlier one.
            public var isWorn: Bool
            /// Why.
            public var hold: Hold

            /// A strap and its hold.
            public init(strap: Int64, label: String, isWorn: Bool, hold: Hold) {
                self.strap = strap
                self.label = label
                self.isWorn = isWorn
                self.hold = hold
            }
        }

        /// Why samples are held: the stored reason, and its words for a person.
        public struct Hold: Sendable, Equatable {
            /// The word that is stored (`HoldReason`).
            public var reason: String
            /// The meaning, for a person.
            public var meaning: String
            /// The remedy, for a person.
            public var remedy: String
            /// The cause of the hold.
            public var cause: Cause
            /// The destination's own words, if they say more.
            public var detail: String?

            /// The causes of a hold that the rules distinguish.
            public enum Cause: Sendable { case consent, access, paused, place, other }

            /// A hold with its words.
            public init(
                reason: String, meaning: String, remedy: String, cause: Cause = .other
            ) {
                self.reason = reason
                self.meaning = meaning
                self.remedy = remedy
                self.cause = cause
            }
        }

        /// A delivery for which nothing waits.
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

        /// A part that runs, or does not because of `fault`.
        public init(name: String, isPage: Bool = false, fault: String?) {
            self.name = name
            self.isPage = isPage
            self.fault = fault
        }
    }

    /// An alert whose messages do not arrive.
    public struct Alert: Sendable, Equatable {
        /// The name that a person gave it.
        public var name: String
        /// How long the oldest message has waited.
        public var undeliveredTime: Duration
        /// Why the last attempt failed, without an address or a password.
        public var fault: String

        /// An alert that reaches nobody.
        public init(name: String, undeliveredTime: Duration, fault: String) {
            self.name = name
            self.undeliveredTime = undeliveredTime
            self.fault = fault
        }
    }
}
