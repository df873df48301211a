import BlueZ
import Recording
import ServiceLifecycle

/// Runs the radio and feeds its events to the recorder.
struct RadioService: Service {
    let central: Central
    let recorder: Recorder
    /// Run what comes from the bus, and what the recorder makes of it. It passes through two threads so, one of
    /// which waits for no disk; Swift's shared pool would wake another for each task and for each call of the store.
    let radioTasks: (any TaskExecutor)?
    let storeTasks: (any TaskExecutor)?

    /// Returns after a graceful shutdown.
    ///
    /// - Throws: ``RadioStopped`` if the radio or its events end while the gateway runs.
    func run() async throws {
        let events = central.events()
        try await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask(executorPreference: radioTasks) { await central.run() }
                group.addTask(executorPreference: storeTasks) {
                    for await batch in events { await recorder.take(batch) }
                }
                // One without the other records nothing.
                await group.next()
                if await !recorder.isStopping { await central.stop(disconnecting: false) }
                await group.waitForAll()
            }
            guard await recorder.isStopping || Task.isCancelled else { throw RadioStopped() }
        } onGracefulShutdown: {
            // Links are left up: bluetoothd keeps them, and the next start adopts them.
            Task {
                await recorder.stop()
                await central.stop(disconnecting: false)
            }
        }
    }
}

/// The radio or its events ended while the gateway runs.
struct RadioStopped: Error, CustomStringConvertible {
    var description: String { "the radio stopped by itself" }
}
