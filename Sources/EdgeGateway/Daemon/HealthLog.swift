import Foundation

/// What keeps the gateway from being well, and since when.
///
/// A value: whoever owns it says what is the case now, and it remembers since when.
struct HealthLog {
    private var since: [String: Date] = [:]
    private(set) var items: [HealthItem] = []

    /// Replaces the list; a condition that was in force before keeps its beginning.
    mutating func update(_ conditions: [HealthCondition], at now: Date) {
        var kept: [String: Date] = [:]
        items = conditions.map { condition in
            let key = condition.name + "/" + condition.subject
            let began = since[key] ?? now
            kept[key] = began
            return HealthItem(
                name: condition.name, since: began, message: condition.message,
                advice: condition.advice)
        }
        since = kept
    }
}

/// One thing that is not well now. The names are a stable contract (docs/operations.md).
struct HealthCondition: Equatable {
    var name: String
    /// What it is about when several can have the same name: a sensor, an enrollment.
    var subject = ""
    var message: String
    var advice: String
}
