/// Keeps a part of the daemon running.
enum KeepRunning {
    /// The pauses before a part is started again; the last one is for every later time.
    static let pauses: [Duration] = [.seconds(1), .seconds(5), .seconds(15), .seconds(60)]

    /// Runs `work` until the task is cancelled. When it throws or returns before, `report` gets the reason,
    /// and nil when it is started again after a pause.
    static func keepRunning(
        isolation: isolated (any Actor)? = #isolation,
        sleep: (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        _ work: () async throws -> Void, report: (String?) async -> Void
    ) async {
        var endings = 0
        while !Task.isCancelled {
            var fault = "it ended by itself"
            do {
                try await work()
            } catch {
                fault = "\(error)"
            }
            guard !Task.isCancelled else { return }
            await report(fault)
            let pause = pauses[min(endings, pauses.count - 1)]
            endings += 1
            try? await sleep(pause)
            guard !Task.isCancelled else { return }
            await report(nil)
        }
    }
}
