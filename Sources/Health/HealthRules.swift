/// The health items of a snapshot: a pure function, so that every caller gets the same answer and
/// asking changes nothing.
///
/// Each subject has a file with its rules. Most rules name a cause; those in `HealthRules.flow` only check
/// whether heartbeats arrive where they belong, whatever the cause.
public enum HealthRules {
    /// The conditions that hold, in the order in which a person should handle them.
    public static func conditions(of snapshot: HealthSnapshot) -> [HealthCondition] {
        let causes =
            radio(snapshot) + adapters(snapshot) + straps(snapshot) + store(snapshot)
            + services(snapshot) + alerts(snapshot) + board(snapshot) + deliveries(snapshot)
        return (causes + flow(snapshot, beside: causes)).withoutRepetitions
    }
}

extension [HealthCondition] {
    /// One thing is one item, whichever rules find it: the first of each name and subject.
    fileprivate var withoutRepetitions: [HealthCondition] {
        var known: Set<HealthCondition.Identity> = []
        return filter { known.insert($0.identity).inserted }
    }
}

/// One thing that is not well.
public struct HealthCondition: Sendable, Equatable {
    /// The health item.
    public var name: HealthName
    /// The subject, where several items can have the same name: a sensor's number, an enrollment.
    public var subject: String
    /// The number of the strap that it is about, if it is about one.
    public var strap: Int64?
    /// The names of the deliveries that it keeps from delivering: several, where one cause has stopped them all.
    public var deliveries: [String]
    /// The event, one line.
    public var message: String
    /// The remedy, one line.
    public var advice: String
    /// Whether it keeps what straps send now from the store or from a destination.
    public var stopsHeartbeats: Bool

    /// Makes a condition. Without `advice` and `stopsHeartbeats` it has those of its name.
    public init(
        _ name: HealthName, subject: String = "", strap: Int64? = nil, deliveries: [String] = [],
        message: String, advice: String? = nil, stopsHeartbeats: Bool? = nil
    ) {
        self.name = name
        self.subject = subject
        self.strap = strap
        self.deliveries = deliveries
        self.message = message
        self.advice = advice ?? name.remedy
        self.stopsHeartbeats = stopsHeartbeats ?? name.stopsHeartbeats
    }

    /// What tells an item from others.
    struct Identity: Hashable, Sendable {
        var name: HealthName
        var subject: String
    }

    var identity: Identity { Identity(name: name, subject: subject) }

    /// About a strap: a command in the remedy can be copied, the strap's address is in it.
    init(_ name: HealthName, about strap: HealthSnapshot.Strap, message: String) {
        self.init(
            name, subject: "\(strap.id)", strap: strap.id, message: "\(strap.label) \(message)",
            advice: name.remedy.split(separator: "STRAP", omittingEmptySubsequences: false)
                .joined(separator: strap.address))
    }
}

/// An age as messages have it: "40 s", "12 min", "3 h", "2 d".
func age(_ time: Duration) -> String {
    let seconds = time.components.seconds
    return switch seconds {
    case ..<120: "\(max(0, seconds)) s"
    case ..<7200: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3600) h"
    default: "\(seconds / 86_400) d"
    }
}
