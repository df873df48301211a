import ServiceLifecycle

/// Looks again at token files that could not be read: somebody may mend their mode, their disk, or what
/// `systemd-creds` needs, while the gateway runs.
struct TokenWatch: Service {
    /// Between two looks. A sealed file costs a process each.
    private static let pause = Duration.seconds(60)

    let gateway: Gateway

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try? await Task.sleep(for: Self.pause)
                if !Task.isCancelled { await gateway.startLanesWithoutTokens() }
            }
        }
    }
}
