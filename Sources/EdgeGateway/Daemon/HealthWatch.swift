import ServiceLifecycle

/// Looks at the gateway's health while nobody asks: an item began when it began, not when somebody looked.
struct HealthWatch: Service {
    /// How true `since` is. The look is a walk through the books, some milliseconds.
    private static let period = Duration.seconds(60)

    let gateway: Gateway

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                // A store that cannot be read is said where somebody asks.
                _ = try? await gateway.status()
                try? await Task.sleep(for: Self.period)
            }
        }
    }
}
