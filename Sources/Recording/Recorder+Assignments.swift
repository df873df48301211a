import Basics
import BlueZ
import GATTHeartRate
import OfflineQueue

/// Who wears what. While that changes, the sensor's frames wait.
extension Recorder {
    /// How long a change of an assignment may wait for frames: a card's disk may hold them up for seconds.
    private static let changePatience = Duration.seconds(10)

    /// Frames of a sensor without an assignment wait for one, if they arrive from now on: others may have worn it before.
    ///
    /// Returns whether they do because of this call: who made them wait calls ``abandonPairing(_:)`` if it comes to
    /// nothing.
    public func beginPairing(_ address: String) -> Bool {
        guard sessions[address] == nil, held[address] == nil else { return false }
        held[address] = HeldFrames(of: address, since: clock.read().uptime, hasBeginning: false)
        return true
    }

    /// Returns when all that this sensor has sent by now is in the queue, before its assignment changes. What it sends
    /// from then on waits for ``record(address:sensorID:assignmentID:)``, ``abandonPairing(_:)`` or ``forget(_:)``.
    ///
    /// Returns since when; nil if not all could be taken in time.
    public func holdFrames(of address: String) async -> Uptime? {
        switch links[address]?.state {
        case .streaming, .draining:
            // Frames that bluetoothd keeps while it hangs were sent before; it may not have ended the link yet.
            guard !isHung, await central.hasHandedOver() else { return nil }
        default: break
        }
        let since = clock.read().uptime
        if held[address] == nil {
            held[address] = HeldFrames(
                of: address, since: since, hasBeginning: sessions[address] != nil)
        }
        // A radio that has been stopped says so at once, though not all it has handed over may have been taken.
        guard await catchUp(patience: Self.changePatience), !isStopping else { return nil }
        let arrivals = sessions[address]?.release(now: clock.read(), policy: policy) ?? []
        await append(arrivals)
        return since
    }

    /// The assignment does not change: what waits since the sensor had this address belongs to the one there is, or to
    /// no patient.
    public func abandonPairing(_ address: String) async {
        for (present, frames) in held where frames.address == address {
            await takeHeld(of: present)
        }
    }

    /// Takes the frames of a sensor that waited while its assignment was changed, if it has one.
    private func takeHeld(of address: String) async {
        // More may come while these are stored; they wait behind them.
        while sessions[address] != nil, let some = held[address]?.remove(), !some.frames.isEmpty {
            let now = clock.read()
            var arrivals: [Arrival] = []
            for frame in some.frames {
                arrivals += followLink(madeAt: frame.linked, of: address, now)
                arrivals +=
                    sessions[address]?.take(
                        frame.bytes, uptime: frame.uptime, now: now, policy: policy) ?? []
            }
            await append(arrivals)
            if let refused = some.refused, let assignment = sessions[address]?.assignmentID {
                await queue.note(
                    refusals: refused.count, of: assignment, from: refused.from,
                    through: refused.through)
            }
        }
        // Once the daemon leaves, nothing waits for the next frame.
        if isStopping {
            await append(sessions[address]?.release(now: clock.read(), policy: policy) ?? [])
        }
        held[address] = nil
        await append(followLink(madeAt: linkBegins[address], of: address, clock.read()))
        settleIntakes()
    }

    /// The frames that come next were sent by this link of a sensor.
    private func followLink(
        madeAt begin: Uptime?, of address: String, _ now: ClockReading
    ) -> [Arrival] {
        guard let begin, begin != sessions[address]?.linked else { return [] }
        return sessions[address]?.beginLink(at: begin, now: now, policy: policy) ?? []
    }

    /// The last measurement with a rate that a heart can have, of the frames that wait: the proof of life.
    public func firstMeasurement(of address: String) -> HeartRateMeasurement? {
        measurements(of: address).first {
            Plausibility.judge($0).isDisjoint(with: .withoutRate)
        }
    }

    /// The last measurement, whatever its rate.
    public func lastMeasurement(of address: String) -> HeartRateMeasurement? {
        measurements(of: address).first { _ in true }
    }

    private func measurements(of address: String) -> some Sequence<HeartRateMeasurement> {
        let frames = held[address]?.frames ?? []
        let known = held[address] == nil ? sessions[address]?.latest : nil
        return [known].compactMap { $0 }
            + frames.reversed().compactMap {
                try? HeartRateMeasurement(frame: $0.bytes, policy: policy)
            }
    }

    /// When the first frame that waits arrived, with which the sensor's next assignment begins; nil if none waits.
    ///
    /// Frames from before `begun`, when the strap's pairing began, wait because somebody else pairs it as well. They are
    /// nobody's.
    public func beginAssignment(of address: String, pairedSince begun: Uptime) -> Uptime? {
        held[address]?.begin(pairedSince: begun)
    }

    /// Stores this sensor's frames under an assignment, those that waited first.
    public func record(address: String, sensorID: Int64, assignmentID: Int64) async {
        if let session = sessions[address] {
            sessions[address]?.begin(assignmentID)
            await queue.note(
                session.silence.cause, of: assignmentID, at: clock.read().uptime)
            await takeHeld(of: address)
            return
        }
        var session = SensorSession(
            sensorID: sensorID, assignmentID: assignmentID, needsContact: needsContact,
            began: clock.read().uptime)
        if let change = links[address] { _ = session.silence.follow(change) }
        _ = session.silence.follow(isHung: isHung)
        sessions[address] = session
        await takeHeld(of: address)
        let now = clock.read().uptime
        await tellIntake(of: address, at: now)
        await noteSilence(of: address, at: now)
    }

    /// Stores nothing more of this sensor, whose assignment ended when its frames began to wait.
    public func forget(_ address: String) async {
        let arrivals = sessions[address]?.release(now: clock.read(), policy: policy) ?? []
        sessions[address] = nil
        links[address] = nil
        held[address] = nil
        await append(arrivals)
    }
}
