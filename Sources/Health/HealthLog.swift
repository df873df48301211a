import Basics

/// Since when each condition holds, as far as looks at regular intervals can tell.
public struct HealthLog: Sendable {
    private struct Key: Hashable {
        var name: HealthName
        var subject: String

        init(_ condition: HealthCondition) {
            name = condition.name
            subject = condition.subject
        }
    }

    /// The items that began and those that ended between two looks.
    public struct Change: Sendable, Equatable {
        /// Conditions that hold now and did not at the look before.
        public var began: [HealthCondition] = []
        /// Conditions that held at the look before and no longer do.
        public var ended: [HealthCondition] = []
    }

    private var since: [Key: (began: Uptime, condition: HealthCondition)] = [:]
    private var lastLook: Uptime

    /// - Parameter uptime: when the daemon started.
    public init(startedAt uptime: Uptime) { lastLook = uptime }

    /// Takes over what holds at a look. A condition that is new began after the look before: it counts
    /// from then, so that a caller between two looks gets the same beginning as a later one.
    public mutating func look(_ conditions: [HealthCondition], at uptime: Uptime) -> Change {
        var change = Change()
        var next: [Key: (began: Uptime, condition: HealthCondition)] = [:]
        for condition in conditions {
            let key = Key(condition)
            if since[key] == nil { change.began.append(condition) }
            next[key] = (began(condition), condition)
        }
        change.ended = since.filter { next[$0.key] == nil }.map(\.value.condition)
            .sorted { ($0.name.rawValue, $0.subject) < ($1.name.rawValue, $1.subject) }
        since = next
        lastLook = uptime
        return change
    }

    /// Since when a condition that holds now holds.
    public func began(_ condition: HealthCondition) -> Uptime {
        since[Key(condition)]?.began ?? lastLook
    }
}
