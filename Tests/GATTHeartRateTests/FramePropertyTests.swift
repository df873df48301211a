import Basics
import GATTHeartRate
import Testing

@Suite("Properties of decoding")
struct FramePropertyTests {
    /// Random frames a test: a few hundred of each length and flag octet, in a few seconds.
    static let frames = 50_000

    @Test("Every truncation of every flag combination decodes as the specification lays it out")
    func everyTruncation() {
        let octetsAfterFlags: [UInt8] = (1...21).map { $0 }
        for flags in UInt8.min...UInt8.max {
            for length in 0...octetsAfterFlags.count {
                let frame = [flags] + octetsAfterFlags.prefix(length)
                if let complaint = complaint(about: frame) {
                    Issue.record("\(hex(frame)) \(complaint)")
                    return
                }
            }
        }
    }

    @Test("Random frames decode as an independent reading of the specification says")
    func randomFrames() {
        var random = SeededRandom.fresh()
        for _ in 0..<Self.frames {
            let frame = random.frame()
            if let complaint = complaint(about: frame) {
                Issue.record("\(hex(frame)) \(complaint), seed \(random.seed)")
                return
            }
        }
    }

    @Test("What is packed comes out again, under every policy")
    func roundTrip() {
        var random = SeededRandom.fresh()
        for _ in 0..<Self.frames {
            let sent = PackedFrame(using: &random)
            for policy in [DecodePolicy.strict, .clinical, .lenient] {
                guard let got = decode(sent.octets, policy).value, got.bpm == sent.bpm,
                    got.contact.detected == sent.contact, got.energyKilojoules == sent.energy,
                    got.rrIntervals.elementsEqual(sent.intervals), got.anomalies == []
                else {
                    Issue.record("\(hex(sent.octets)), seed \(random.seed)")
                    return
                }
            }
        }
    }

    @Test("Equal frames give equal measurements, and a changed octet that matters does not")
    func equality() {
        var random = SeededRandom.fresh()
        for _ in 0..<1000 {
            let sent = PackedFrame(using: &random)
            var changed = sent.octets
            changed[changed.count - 1] ^= 1
            let result = decode(sent.octets)
            guard result == decode(sent.octets), result != decode(changed),
                result.value?.hashValue == decode(sent.octets).value?.hashValue
            else {
                Issue.record("\(hex(sent.octets)), seed \(random.seed)")
                return
            }
        }
    }

    /// What a policy makes of `frame` that it should not, nil when all do as they should.
    private func complaint(about frame: [UInt8]) -> String? {
        let expected = ReferenceReading(frame)
        let lenient = decode(frame, .lenient)
        let clinical = decode(frame, .clinical)
        let strict = decode(frame, .strict)

        guard let rate = expected.rate else {
            let refused = lenient.value == nil && lenient == clinical && lenient == strict
            return refused ? nil : "has no rate and was accepted"
        }
        guard let read = lenient.value, read.bpm == rate, read.contact.detected == expected.contact,
            read.energyKilojoules == expected.energy,
            read.rrIntervals.elementsEqual(expected.intervals),
            read.anomalies.names == expected.anomalies
        else {
            return "read as \(lenient), not \(expected)"
        }
        // Nested: what a stricter policy accepts has the values that the laxer one gives.
        let cut = expected.anomalies.contains("energyTruncated")
        let wantClinical = cut ? .failure(.energyTruncated) : lenient
        if clinical != wantClinical { return "clinical: \(clinical), not \(wantClinical)" }
        let damage = read.anomalies.intersection([.oddTail, .rrMissing])
        let wantStrict = damage.isEmpty || cut ? wantClinical : .failure(.refused(damage))
        if strict != wantStrict { return "strict: \(strict), not \(wantStrict)" }
        return nil
    }
}

/// The specification read a second time, by eating the frame from the front instead of by offsets.
struct ReferenceReading {
    var rate: UInt16?
    var contact: Bool?
    var energy: UInt16?
    var intervals: [UInt16] = []
    var anomalies: [String] = []

    init(_ frame: [UInt8]) {
        var rest = frame[...]
        guard let flags = rest.popFirst() else { return }
        func has(_ bit: Int) -> Bool { flags >> bit & 1 == 1 }
        func number(_ octets: Int) -> UInt16? {
            guard rest.count >= octets else { return nil }
            var value = 0
            for place in 0..<octets { value += Int(rest.removeFirst()) << (8 * place) }
            return UInt16(value)
        }

        rate = number(has(0) ? 2 : 1)
        guard rate != nil else { return }
        contact = has(2) ? has(1) : nil
        var cut = false
        if has(3) {
            energy = number(2)
            cut = energy == nil
            if cut { rest = [] }
        }
        var tail: [String] = []
        if has(4) {
            if rest.isEmpty { tail.append("rrMissing") }
            while let interval = number(2) { intervals.append(interval) }
            if !rest.isEmpty { tail.append("oddTail") }
        }
        if flags >= 0b0010_0000 { tail.append("rfu") }
        if !has(4), !rest.isEmpty { tail.append("trailing") }
        if cut { tail.append("energyTruncated") }
        anomalies = tail
    }
}

/// A lawful frame made from random values.
struct PackedFrame {
    let bpm: UInt16
    let contact: Bool?
    let energy: UInt16?
    let intervals: [UInt16]
    let octets: [UInt8]

    init(using random: inout SeededRandom) {
        bpm = UInt16.random(in: 0...(Bool.random(using: &random) ? 255 : 65535), using: &random)
        contact = [nil, false, true].randomElement(using: &random) ?? nil
        energy = Bool.random(using: &random) ? UInt16.random(in: 0...65535, using: &random) : nil
        let count = Int.random(in: 0...12, using: &random)
        var intervals: [UInt16] = []
        for _ in 0..<count { intervals.append(UInt16.random(in: 0...65535, using: &random)) }
        self.intervals = intervals

        let wide = bpm > 255 || Bool.random(using: &random)
        var flags: UInt8 = wide ? 1 : 0
        if let contact { flags |= contact ? 0b110 : 0b100 }
        if energy != nil { flags |= 0b1000 }
        if !intervals.isEmpty { flags |= 0b1_0000 }
        var octets: [UInt8] = [flags, UInt8(bpm & 0xff)]
        if wide { octets.append(UInt8(bpm >> 8)) }
        for field in (energy.map { [$0] } ?? []) + intervals {
            octets += [UInt8(field & 0xff), UInt8(field >> 8)]
        }
        self.octets = octets
    }
}
