/// The state of a delivery in a word, the same wherever a person reads it: why it is held, what else `status` says of
/// it, or the state of its enrollment.
protocol DeliveryState {
    var name: String { get }
    var state: String { get }
    var held: String? { get }
    var health: [String]? { get set }
}

extension EnrollmentReport: DeliveryState {}
extension DestinationReport: DeliveryState {}

extension DeliveryState {
    var stateInAWord: String { held ?? health?.first ?? state }
}

extension [HealthItem] {
    /// The reports with the items that are about each.
    func noted<Report: DeliveryState>(in reports: [Report]) -> [Report] {
        var names: [String: [String]] = [:]
        for item in self {
            for delivery in item.deliveries ?? [] { names[delivery, default: []].append(item.name) }
        }
        return reports.map { report in
            var report = report
            report.health = names[report.name]
            return report
        }
    }
}
