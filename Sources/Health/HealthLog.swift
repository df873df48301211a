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

    /// What began and what ended between two looks.
    public struct Change: Sendable, Equatable {
        public var began: [HealthCondition] = []
        public var ended: [HealthCondition] = []
    }

    private var since: [Key: (began: Int64, condition: HealthCondition)] = [:]
    private var lastLook: Int64

    /// - Parameter uptime: when the daemon started, `CLOCK_BOOTTIME` µs.
    public init(startedAt uptime: Int64) { lastLook = uptime }

    /// Takes over what holds at a look. A condition that is new began after the look before: it counts
    /// from then, so that a caller between two looks gets the same beginning as a later one.
    public mutating func look(_ conditions: [HealthCondition], at uptime: Int64) -> Change {
        var change = Change()
        var next: [Key: (began: Int64, condition: HealthCondition)] = [:]
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

    /// Since when a condition that holds now holds, `CLOCK_BOOTTIME` µs.
    public func began(_ condition: HealthCondition) -> Int64 {
        since[Key(condition)]?.began ?? lastLook
    }
}
