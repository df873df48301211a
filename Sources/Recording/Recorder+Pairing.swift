import Basics
import BlueZ
import GATTHeartRate
import OfflineQueue

/// Which straps are recorded. Who wears them is not known here: the store says whose a frame is by its time.
extension Recorder {
    /// Keeps the frames of a strap that is not recorded, from now on: an assignment may begin with them.
    ///
    /// Returns whether they are kept because of this call: its caller calls ``abandonPairing(_:)`` if the pairing comes
    /// to nothing.
    public func beginPairing(_ address: String) -> Bool {
        guard sessions[address] == nil, heard[address] == nil else { return false }
        heard[address] = HeardFrames(of: address, since: clock.read().uptime)
        return true
    }

    /// The strap that had this address when its pairing began is not paired: what was heard of it is nobody's.
    public func abandonPairing(_ address: String) {
        heard = heard.filter { $0.value.address != address }
    }

    /// The earliest time at which a strap's assignment may begin if its pairing began at `begun`: that time, or the
    /// beginning of the link that brought its first frame since, whichever is later. Nil if no frame came.
    ///
    /// Frames from before `begun` are kept for another pairing of the same strap. They are nobody's.
    public func heardSince(of address: String, pairedSince begun: Uptime) -> Uptime? {
        heard[address]?.frames.first { $0.uptime >= begun }.map { max(begun, $0.linked ?? begun) }
    }

    /// The last measurement since `begun` with a rate that a heart can have: the proof of life.
    public func firstMeasurement(
        of address: String, pairedSince begun: Uptime
    ) -> HeartRateMeasurement? {
        measurements(of: address, since: begun).first {
            Plausibility.judge($0).isDisjoint(with: .withoutRate)
        }
    }

    /// The last measurement since `begun`, whatever its rate.
    public func lastMeasurement(
        of address: String, pairedSince begun: Uptime
    ) -> HeartRateMeasurement? {
        measurements(of: address, since: begun).first { _ in true }
    }

    private func measurements(
        of address: String, since begun: Uptime
    ) -> some Sequence<HeartRateMeasurement> {
        let recorded = sessions[address]?.latestMeasured.flatMap {
            $0.at >= begun ? $0.measurement : nil
        }
        let frames = (heard[address]?.frames ?? []).filter { $0.uptime >= begun }
        return [recorded].compactMap { $0 }
            + frames.reversed().compactMap {
                try? HeartRateMeasurement(frame: $0.bytes, policy: policy)
            }
    }

    /// Somebody else wears a strap from now on.
    public func changeHands(of address: String) {
        sessions[address]?.changeHands(at: clock.read().uptime)
    }

    /// Stores what a strap sends from now on, and before it what was heard of it during its pairing. Does nothing if it
    /// is recorded already.
    ///
    /// Returns false if it is recorded under a newer address, which the store has not taken.
    @discardableResult
    public func record(address: String, sensorID: Int64) async -> Bool {
        guard addressesToStore[sensorID] == nil else { return false }
        guard sessions[address] == nil else { return true }
        let now = clock.read()
        var session = SensorSession(
            sensorID: sensorID, needsContact: needsContact, began: now.uptime)
        if let change = links[address] { _ = session.silence.follow(change) }
        _ = session.silence.follow(isHung: isHung)
        var arrivals: [Arrival] = []
        let frames = heard.removeValue(forKey: address)?.frames ?? []
        for frame in frames {
            arrivals += session.follow(linkMadeAt: frame.linked, now, policy)
            arrivals += session.take(frame.bytes, uptime: frame.uptime, now: now, policy: policy)
        }
        arrivals += session.follow(linkMadeAt: linkBegins[address], now, policy)
        // Once the daemon leaves, nothing waits for the next frame.
        if isStopping { arrivals += session.release(now: now, policy: policy) }
        sessions[address] = session
        await append(arrivals)
        await tellIntake(of: address, at: now.uptime)
        await noteSilence(of: address, at: now.uptime)
        settleIntakes()
        return true
    }

    /// Whether all that a strap has sent by now is in the queue, or is sure to come: bluetoothd does not hang, and has
    /// handed over what it kept.
    public func hasCome(from address: String) async -> Bool {
        switch links[address]?.state {
        // Frames that bluetoothd keeps while it hangs were sent before; it may not have ended the link yet.
        case .streaming, .draining:
            guard !isHung, await central.hasHandedOver() else { return false }
        default: break
        }
        return await catchUp()
    }

    /// The queue has everything that these sensors sent until the uptime returned; nil if that takes too long to find out.
    /// Frames whose times are not clear yet are stored as they are known now, if bluetoothd has handed over all that it
    /// kept.
    public func takenUntil(of sensors: Set<Int64>) async -> Uptime? {
        let now = clock.read().uptime
        // Nothing comes from a strap that is not recorded.
        guard sessions.values.contains(where: { sensors.contains($0.sensorID) }) else { return now }
        // The longest that a strap may keep a frame, and that the frame may be on its way.
        let way = Duration.microseconds(
            FrameIntake.holdMicrosecondsMax + FrameIntake.wayMicrosecondsMax)
        let handedOver = isHung ? hungSince ?? .zero : await central.handedOverUntil()
        guard await catchUp() else { return nil }
        // Frames that are kept back here may have arrived that long before.
        guard handedOver >= now else { return handedOver - way - way }
        await release(sessions.filter { sensors.contains($0.value.sensorID) }.keys.sorted())
        return handedOver - way
    }

    /// Stores nothing more of this strap, to which the radio has no link any more.
    public func forget(_ address: String) async {
        // Frames that are under way were sent while it was worn.
        await catchUp()
        let arrivals = sessions[address]?.release(now: clock.read(), policy: policy) ?? []
        sessions[address] = nil
        links[address] = nil
        heard[address] = nil
        await append(arrivals)
    }
}
