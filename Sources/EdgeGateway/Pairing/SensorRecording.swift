import BlueZ
import GATTHeartRate
import Logging
import OfflineQueue
import Recording

/// Which sensors are recorded: the radio looks for them, and the recorder takes their frames.
struct SensorRecording: Sendable {
    let queue: SampleQueue
    let recorder: Recorder
    let central: Central
    let logger: Logger

    /// Has radio and recorder follow the store, by which somebody wears a sensor or nobody does. Whoever changes that
    /// calls this afterwards: if others change it meanwhile, the last word of the store counts.
    func follow(_ sensor: Sensor, isWorn: Bool) async {
        var isWorn = isWorn
        while true {
            if isWorn { await start(sensor) } else { await stop(sensor) }
            // A store that cannot be read is followed when it is opened again.
            guard let now = try? await queue.isWorn(sensor.id), now != isWorn else { return }
            isWorn = now
        }
    }

    private func start(_ sensor: Sensor) async {
        guard await recorder.record(address: sensor.address, sensorID: sensor.id) else { return }
        await central.watch(
            address: sensor.address, service: HeartRateService.service,
            characteristic: HeartRateService.measurement)
    }

    /// Disconnects from a sensor, and lets bluetoothd forget it and its bond.
    private func stop(_ sensor: Sensor) async {
        let address = await recorder.address(of: sensor.id) ?? sensor.address
        if let fault = await central.forget(address: address) {
            logger.warning(
                "bluetoothd may still have the strap's bond: \(fault); bluetoothctl remove ADDRESS",
                metadata: ["sensor": "\(Recorder.masked(address))"])
        }
        await recorder.forget(address)
    }

    /// Records nothing more of a sensor that the store does not know, and disconnects from it.
    func letGo(_ address: String) async {
        await central.unwatch(address: address)
        await recorder.forget(address)
    }
}
