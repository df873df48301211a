// The libFuzzer target of the frame decoder. Compiled together with Sources/GATTHeartRate into one
// module, so that the decoder itself is instrumented; see Tests/Fuzz/run.

/// Decodes whatever libFuzzer makes up and stops the process when a promise is broken.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeBufferPointer(start: start, count: count)
    checkFrame(input.span)
    checkValues(input.span)
    checkStream(input.span)
    return 0
}

private func checkFrame(_ frame: Span<UInt8>) {
    let lenient = decode(frame, .lenient)
    let clinical = decode(frame, .clinical)
    let strict = decode(frame, .strict)

    // Nested policies: what a stricter one accepts, the laxer one reads the same.
    if let measurement = try? strict.get() {
        promise(
            (try? clinical.get()) == measurement, "clinical refuses or changes what strict takes")
    }
    if let measurement = try? clinical.get() {
        promise(
            (try? lenient.get()) == measurement, "lenient refuses or changes what clinical takes")
    }

    guard let measurement = try? lenient.get() else {
        promise(frame.count < 3, "a frame with room for a rate has none")
        return
    }
    let octetsRead =
        1 + (frame[0] & 1 == 1 ? 2 : 1) + (measurement.energyKilojoules == nil ? 0 : 2)
        + 2 * measurement.rrIntervals.count
    promise(octetsRead <= frame.count, "more was read than was there")
    let explained: FrameAnomalies = [.oddTail, .trailing, .energyTruncated]
    promise(
        octetsRead == frame.count || !measurement.anomalies.isDisjoint(with: explained),
        "octets were passed over in silence")
    promise((measurement.contact.detected == nil) == (frame[0] & 4 == 0), "contact made up")

    var ticks: [UInt16] = []
    for tick in measurement.rrIntervals { ticks.append(tick) }
    promise(RRIntervals(ticks) == measurement.rrIntervals, "intervals differ from their own copy")
    _ = Plausibility.judge(measurement).names
    _ = measurement.anomalies.names
}

private func checkValues(_ value: Span<UInt8>) {
    if let level = try? BatteryLevel(value: value) {
        promise(value.count == 1 && level.percent <= 100, "a battery beyond 100 %")
    }
    if let location = try? BodySensorLocation(value: value) {
        promise(value.count == 1 && location.rawValue == value[0], "a location made up")
    }
}

/// Reads the input as a stream of frames, each after two octets of when and one of how long it is.
private func checkStream(_ input: Span<UInt8>) {
    var judge = PlausibilityJudge()
    var stream = DoubledStream()
    var line = BeatTimeline()
    var time: Int64 = 0
    var next = 0
    while next + 3 <= input.count {
        // The low bits count hundredths of a second; the high ones make a leap of them.
        let when = UInt64(littleEndian16(input, at: next))
        let leap = Int64(bitPattern: ((when & 0x3FF) &* 10_000) << ((when >> 12) * 3))
        time = when & 0x800 == 0 ? time &+ leap : time &- leap
        let end = min(next + 3 + Int(input[next + 2]), input.count)
        let frame = input.extracting(next + 3..<end)
        next = end

        var octets: [UInt8] = []
        for index in 0..<frame.count { octets.append(frame[index]) }
        stream.note(octets, at: time)
        guard let measurement = try? decode(frame, .lenient).get() else { continue }
        let alone = Plausibility.judge(measurement)
        let found = judge.judge(measurement, at: time)
        promise(found.isSuperset(of: alone), "a flag was taken back by what came before")
        promise(found.isSubset(of: .all), "a flag made up")
        let added = line.add(rr: measurement.rrIntervals, arrivedAt: time)
        promise(added.count <= measurement.rrIntervals.count, "beats made up")
        promise(
            added.allSatisfy { $0.uncertaintyMicroseconds >= 0 }, "surer than certain")
    }
    promise(line.estimatedLostBeats >= 0 && line.estimatedLostFrames >= 0, "found more than sent")
}

private func decode(
    _ frame: Span<UInt8>, _ policy: DecodePolicy
) -> Result<HeartRateMeasurement, FrameFault> {
    do {
        return .success(try HeartRateMeasurement(frame: frame, policy: policy))
    } catch {
        return .failure(error)
    }
}

private func promise(_ kept: Bool, _ broken: StaticString) {
    if !kept { fatalError("broken promise: \(broken)") }
}
