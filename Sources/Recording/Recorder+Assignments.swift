import Basics
import BlueZ
import GATTHeartRate
import OfflineQueue

/// Who wears what. While that changes, the sensor's frames wait.
extension Recorder {
    /// How long a change of an assignment may wait for frames: a card's disk may hold them up for seconds.
    private static let changePatience = Duration.seconds(10)

    /// Frames of a sensor that is being paired wait for its assignment, this many at most: the first
    /// heartbeat comes within seconds of the first frame, and sensors send about one a second.
    static let waitingFramesMax = 240

    /// Frames of this sensor wait for an assignment from now on.
    public func beginPairing(_ address: String) {
        if sessions[address] == nil, waiting[address] == nil { waiting[address] = [] }
    }

    /// No assignment came: what waited belongs to no patient, or to the one who wore the sensor before.
    public func abandonPairing(_ address: String) async {
        await takeWaiting(of: address)
    }

    /// Takes the frames of a sensor that waited while its assignment was changed, if it has one.
    func takeWaiting(of address: String, before end: Uptime? = nil) async {
        // More may come while these are stored; they wait behind them.
        while let frames = waiting[address], !frames.isEmpty, sessions[address] != nil {
            waiting[address] = []
            let now = clock.read()
            var arrivals: [Arrival] = []
            for frame in frames where end.map({ frame.uptime < $0 }) ?? true {
                arrivals +=
                    sessions[address]?.take(
                        frame.bytes, uptime: frame.uptime, now: now, policy: policy) ?? []
            }
            await append(arrivals)
        }
        waiting[address] = nil
        settleIntakes()
    }

    /// The last frame that waits, decoded: the proof of life.
    public func firstMeasurement(of address: String) -> HeartRateMeasurement? {
        guard let waiting = waiting[address] else { return sessions[address]?.latest }
        return waiting.reversed().lazy
            .compactMap { try? HeartRateMeasurement(frame: $0.bytes, policy: self.policy) }
            .first { $0.bpm > 0 }
    }

    /// When the first frame that waits arrived.
    public func firstArrival(of address: String) -> Uptime? {
        waiting[address]?.first?.uptime
    }

    /// Stores this sensor's frames under an assignment, those that waited first.
    public func record(address: String, sensorID: Int64, assignmentID: Int64) async {
        if let session = sessions[address] {
            sessions[address]?.assignmentID = assignmentID
            await queue.note(
                session.silence.cause, of: assignmentID, at: clock.read().uptime)
            await takeWaiting(of: address)
            return
        }
        // A sensor that was just paired has a link; one of an earlier run waits for bluetoothd.
        var session = SensorSession(
            sensorID: sensorID, assignmentID: assignmentID, began: clock.read().uptime)
        if let change = links[address] { _ = session.silence.follow(change) }
        _ = session.silence.follow(isHung: isHung)
        sessions[address] = session
        await takeWaiting(of: address)
        let now = clock.read().uptime
        await tellIntake(of: address, at: now)
        await noteSilence(of: address, at: now)
    }

    /// Stores nothing of this sensor any more that it sent at `end` or later.
    public func forget(_ address: String, at end: Uptime) async {
        await takeWaiting(of: address, before: end)
        let now = clock.read()
        let arrivals = sessions[address]?.release(now: now, policy: policy) ?? []
        sessions[address] = nil
        links[address] = nil
        subscriptions[address] = nil
        waiting[address] = nil
        await append(arrivals)
    }

    /// Returns when all that this sensor has sent by now is in the queue, before its assignment changes. What it sends
    /// from then on waits for ``record(address:sensorID:assignmentID:)``, ``abandonPairing(_:)`` or ``forget(_:at:)``.
    ///
    /// Returns false, and nothing waits, if not all could be taken in time.
    public func takeAll(of address: String) async -> Bool {
        guard await catchUp(patience: Self.changePatience) else { return false }
        let now = clock.read()
        let arrivals = sessions[address]?.release(now: now, policy: policy) ?? []
        if waiting[address] == nil { waiting[address] = [] }
        await append(arrivals)
        return true
    }
}
