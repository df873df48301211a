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

    /// Returns after a graceful shutdown or a cancellation, once all that the radio has handed over is in the queue:
    /// a disk may hold that up for longer than services have to end.
    ///
    /// - Throws: ``RadioStopped`` if the radio ends while the gateway runs.
    func run() async throws {
        let events = central.events()
        // Tasks of their own, which the cancellation of this one does not reach.
        let radio = Task(executorPreference: radioTasks) { await central.run() }
        let taking = Task(executorPreference: storeTasks) {
            for await batch in events { await recorder.take(batch) }
            await recorder.finish()
        }
        await withTaskCancellationOrGracefulShutdownHandler {
            await radio.value
            await taking.value
        } onCancelOrGracefulShutdown: {
            // Links are left up: bluetoothd keeps them, and the next start adopts them.
            Task {
                await recorder.stop()
                await central.stop(disconnecting: false)
            }
        }
        guard await recorder.isStopping else { throw RadioStopped() }
    }
}

/// The radio ended while the gateway runs.
struct RadioStopped: Error, CustomStringConvertible {
    var description: String { "the radio stopped by itself" }
}
