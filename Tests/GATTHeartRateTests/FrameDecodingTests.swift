import GATTHeartRate
import Testing

@Suite("Decoding 0x2A37 frames")
struct FrameDecodingTests {
    @Test("Every policy reads a well-formed frame alike", arguments: GoldenFrame.wellFormed)
    func wellFormed(_ golden: GoldenFrame) throws {
        for policy in [DecodePolicy.strict, .clinical, .lenient] {
            let measurement = try HeartRateMeasurement(frame: golden.frame, policy: policy)
            #expect(measurement.bpm == golden.bpm)
            #expect(measurement.contact == golden.contact)
            #expect(measurement.energyKilojoules == golden.energy)
            #expect(measurement.rrIntervals == golden.intervals)
            #expect(measurement.anomalies == [])
        }
    }

    @Test("A disputed frame is kept or refused as the policy says", arguments: DisputedFrame.all)
    func disputed(_ disputed: DisputedFrame) throws {
        let lenient = try HeartRateMeasurement(frame: disputed.frame, policy: .lenient)
        #expect(lenient.bpm == 62)
        #expect(lenient.rrIntervals == disputed.intervals)
        #expect(lenient.anomalies == disputed.anomalies)
        for (policy, fault) in [
            (DecodePolicy.clinical, disputed.clinical), (.strict, disputed.strict),
        ] {
            let result = decode(disputed.frame, policy)
            #expect(result == fault.map { .failure($0) } ?? .success(lenient))
        }
    }

    @Test("The odd-tailed frame from the field keeps its rate and its whole interval")
    func publishedOddTail() throws {
        let measurement = try HeartRateMeasurement(frame: octets("103eb103de"))
        #expect(measurement.bpm == 62)
        #expect(Array(measurement.rrIntervals) == [945])
        #expect(measurement.anomalies == .oddTail)
    }

    @Test("A frame that ends before its rate is a fault under every policy")
    func noRate() {
        for policy in [DecodePolicy.strict, .clinical, .lenient] {
            #expect(decode([], policy) == .failure(.empty))
            for flags in UInt8.min...UInt8.max {
                #expect(decode([flags], policy) == .failure(.heartRateTruncated))
                if flags & 1 == 1 {
                    #expect(decode([flags, 72], policy) == .failure(.heartRateTruncated))
                }
            }
        }
    }

    @Test("Octets may come as a span or as an array")
    func spanAndArray() throws {
        let frame = octets("16 4e 2403 1003")
        let array = try HeartRateMeasurement(frame: frame)
        let span = try HeartRateMeasurement(frame: frame.span)
        let part = try HeartRateMeasurement(frame: ([0xff] + frame).span.extracting(1...))
        #expect(array == span)
        #expect(array == part)
    }

    @Test("Clinical is the default policy")
    func defaultPolicy() {
        #expect((try? HeartRateMeasurement(frame: octets("103eb103de"))) != nil)
        #expect(throws: FrameFault.energyTruncated) {
            try HeartRateMeasurement(frame: octets("083e01"))
        }
    }

    @Test("A policy of one's own refuses what it names and reports it")
    func ownPolicy() {
        let policy = DecodePolicy(refusing: [.rfu, .trailing])
        #expect(decode(octets("20 3e 00"), policy) == .failure(.refused([.rfu, .trailing])))
        #expect(decode(octets("20 3e"), policy) == .failure(.refused(.rfu)))
        #expect(decode(octets("10 3e"), policy).value?.anomalies == .rrMissing)
    }

    @Test("Anomalies and faults have the names that the JSON contract gives them")
    func names() {
        let all: FrameAnomalies = [.oddTail, .rrMissing, .rfu, .trailing, .energyTruncated]
        #expect(all.names == ["oddTail", "rrMissing", "rfu", "trailing", "energyTruncated"])
        #expect(FrameAnomalies().names == [])
        #expect(FrameFault.empty.reason == "empty")
        #expect(FrameFault.heartRateTruncated.reason == "heartRateTruncated")
        #expect(FrameFault.energyTruncated.reason == "energyTruncated")
        #expect(FrameFault.refused([.rfu, .oddTail]).reason == "refused oddTail rfu")
    }
}
