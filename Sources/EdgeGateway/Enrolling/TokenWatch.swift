import ServiceLifecycle

/// Starts deliveries that do not run once a minute: a person may mend the mode of their token file, their disk,
/// or what `systemd-creds` needs, while the gateway runs.
struct TokenWatch: Service {
    /// Between two attempts. A sealed file costs a process each.
    private static let pause = Duration.seconds(60)

    let changes: EnrollmentChanges

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try? await Task.sleep(for: Self.pause)
                if !Task.isCancelled { await changes.startMissingDeliveries() }
            }
        }
    }
}
