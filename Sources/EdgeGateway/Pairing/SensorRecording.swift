import Basics
import BlueZ
import GATTHeartRate
import OfflineQueue
import Recording

/// Which sensors are recorded: the radio looks for them, and the recorder takes their frames.
struct SensorRecording: Sendable {
    let recorder: Recorder
    let central: Central

    /// Records a sensor from now on.
    func start(_ sensor: Sensor, as assignment: Int64) async {
        await recorder.record(
            address: sensor.address, sensorID: sensor.id, assignmentID: assignment)
        await central.watch(
            address: sensor.address, service: HeartRateService.service,
            characteristic: HeartRateService.measurement)
    }

    /// Records nothing that a sensor sent at `end` or later, and disconnects from it.
    func stop(_ address: String, at end: Uptime) async {
        await recorder.forget(address, at: end)
        await central.forget(address: address)
    }
}
