import BlueZ
import GATTHeartRate
import OfflineQueue
import Recording

/// Which sensors are recorded: the radio looks for them, and the recorder takes their frames.
struct SensorRecording: Sendable {
    let recorder: Recorder
    let central: Central
    /// One assignment changes at a time: from the last frame before to the first after.
    let changes = OneAtATime()

    /// Records a sensor from now on.
    func start(_ sensor: Sensor, as assignment: Int64) async {
        await recorder.record(
            address: sensor.address, sensorID: sensor.id, assignmentID: assignment)
        await central.watch(
            address: sensor.address, service: HeartRateService.service,
            characteristic: HeartRateService.measurement)
    }

    /// Records nothing more of a sensor whose assignment has ended, disconnects from it, and lets bluetoothd forget it
    /// and its bond.
    func stop(_ address: String) async {
        await recorder.forget(address)
        await central.forget(address: address)
    }

    /// Records nothing more of a sensor, and disconnects from it.
    func letGo(_ address: String) async {
        await recorder.forget(address)
        await central.unwatch(address: address)
    }
}
