import BlueZ
import Recording
import ServiceLifecycle

/// Runs the radio and feeds the recorder with what it tells.
struct RadioService: Service {
    let central: Central
    let recorder: Recorder

    func run() async throws {
        let events = central.events()
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await central.run() }
                group.addTask {
                    for await batch in events { await recorder.take(batch) }
                }
            }
        } onGracefulShutdown: {
            // Links are left up: bluetoothd keeps them, and the next start adopts them.
            Task {
                await recorder.stop()
                await central.stop(disconnecting: false)
            }
        }
    }
}
