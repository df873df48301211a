/// What the daemon answers for a report that others read.
struct DaemonAnswers {
    /// Both nil if the daemon does not answer.
    let status: StatusReport?
    let gaps: GapsReport?
    /// Removes names and other text that people typed, as far as the daemon lists it.
    let redactor: Redactor

    /// - Parameter gapDays: how far back gaps are listed, days.
    static func ask(
        _ daemon: DaemonOptions, _ settings: Settings, gapDays: Int
    ) async throws -> DaemonAnswers {
        let client = try daemon.client(isExact: true)
        let status: StatusReport? = try? await client.get("/v1/status")
        let gaps: GapsReport? = try? await client.get("/v1/gaps?days=\(gapDays)")
        let known: [SensorReport]? = try? await client.get("/v1/sensors?forgotten=true")
        let alerts: [AlertReport]? = try? await client.get("/v1/alerts")
        return DaemonAnswers(
            status: status, gaps: gaps,
            redactor: Redactor(settings: settings, status: status, sensors: known, alerts: alerts))
    }
}
