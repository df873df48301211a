/// Lets one change in at a time; the others wait for their turn.
actor OneAtATime {
    private var isTaken = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// Does `work` once no other change is under way.
    nonisolated func run<Value>(_ work: () async throws -> Value) async rethrows -> Value {
        await enter()
        do {
            let value = try await work()
            await leave()
            return value
        } catch {
            await leave()
            throw error
        }
    }

    private func enter() async {
        guard isTaken else {
            isTaken = true
            return
        }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func leave() {
        if waiting.isEmpty { isTaken = false } else { waiting.removeFirst().resume() }
    }
}
