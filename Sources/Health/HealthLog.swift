import Basics

/// Since when each condition holds, as far as looks at regular intervals can tell.
public struct HealthLog: Sendable {
    /// The items that began and those that ended between two looks.
    public struct Change: Sendable, Equatable {
        /// Conditions that hold now and did not at the look before.
        public var began: [HealthCondition] = []
        /// Conditions that held at the look before and no longer do.
        public var ended: [HealthCondition] = []
    }

    private var since: [HealthCondition.Identity: (began: Uptime, condition: HealthCondition)] = [:]
    private var lastLook: Uptime

    /// - Parameter uptime: when the daemon started.
    public init(startedAt uptime: Uptime) { lastLook = uptime }

    /// Takes over what holds at a look. A condition that is new began after the look before: it counts
    /// from then, so that a caller between two looks gets the same beginning as a later one. One that held and that
    /// nobody looked for holds on.
    public mutating func look(
        _ conditions: [HealthCondition], unjudged: Unjudged = Unjudged(), at uptime: Uptime
    ) -> Change {
        var change = Change()
        var next = since.filter { unjudged.contains($0.key) }
        for condition in conditions {
            let key = condition.identity
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
        since[condition.identity]?.began ?? lastLook
    }
}
