// Measures the frame decoder, beside a decoder in C on the same frames in the same process.
// Prints the figures as "name value" lines; Benchmarks/decode judges them.

import GATTHeartRate

/// Frames a round: enough that the branch predictor cannot learn them by heart.
let frameCount = 4096
/// Passes over the frames in a round: short rounds, of some 0.2 ms, fit between disturbances.
let passes = 4
/// Rounds: the best one is the one that the machine disturbed least.
let rounds = 4000

let strapped = strapFrames(frameCount)
let frames = Frames(strapped)

// Frames for the Python peer, one a line.
if CommandLine.arguments.dropFirst().first == "--frames" {
    for frame in strapped {
        print(frame.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
    }
} else {
    measure()
}

func measure() {
    let before = allocations_so_far()
    var swiftBest = Double.infinity
    var floorBest = Double.infinity
    var walkBest = Double.infinity
    for _ in 0..<rounds {
        walkBest = min(walkBest, nanosecondsPerFrame(walk))
        swiftBest = min(swiftBest, nanosecondsPerFrame(decodeInSwift))
        floorBest = min(floorBest, nanosecondsPerFrame(decodeInC))
    }
    let allocated = allocations_so_far() - before

    // The counter must be seen to count: ten intervals do not fit in the value.
    let long = [0x10, 60] + [UInt8](repeating: 3, count: 20)
    let ofLong = Frames([long])
    let beforeLong = allocations_so_far()
    decodeInSwift(ofLong)
    guard allocations_so_far() > beforeLong else { fatalError("allocations are not counted") }

    print("swift_ns \(swiftBest - walkBest)")
    print("c_ns \(floorBest - walkBest)")
    print("walk_ns \(walkBest)")
    print("frames \(rounds * passes * frameCount)")
    print("allocations \(allocated)")
}

func nanosecondsPerFrame(_ decode: (borrowing Frames) -> Void) -> Double {
    let start = thread_cpu_nanoseconds()
    for _ in 0..<passes { decode(frames) }
    return Double(thread_cpu_nanoseconds() - start) / Double(passes * frameCount)
}

func decodeInSwift(_ frames: borrowing Frames) {
    let octets = frames.octets.span
    for range in frames.ranges {
        let frame = octets.extracting(unchecked: range)
        guard let measurement = try? HeartRateMeasurement(frame: frame) else {
            fatalError("a lawful frame was refused")
        }
        // Both decoders are compiled apart from this loop, so they have to make the whole result,
        // of which it is enough to use a part.
        black_hole(UInt64(measurement.bpm) &+ UInt64(measurement.rrIntervals.count))
    }
}

/// The loop of the other two without a decoder in it; its time is taken off theirs.
func walk(_ frames: borrowing Frames) {
    let octets = frames.octets.span
    for range in frames.ranges {
        black_hole(UInt64(octets.extracting(unchecked: range).count))
    }
}

func decodeInC(_ frames: borrowing Frames) {
    var measurement = floor_measurement()
    let octets = frames.octets.span
    for range in frames.ranges {
        let accepted = octets.extracting(unchecked: range).withUnsafeBufferPointer {
            floor_decode($0.baseAddress, $0.count, &measurement)
        }
        guard accepted == 1 else { fatalError("a lawful frame was refused") }
        black_hole(UInt64(measurement.bpm) &+ UInt64(measurement.rr_count))
    }
}

/// Frames end to end in one array, so that walking them costs both decoders next to nothing.
struct Frames {
    var octets: [UInt8] = []
    var ranges: [Range<Int>] = []

    init(_ frames: [[UInt8]]) {
        for frame in frames {
            ranges.append(octets.count..<octets.count + frame.count)
            octets += frame
        }
    }
}

/// What eight straps send, taking turns: each sets the flags its maker chose, and has about a beat a
/// second, so mostly one interval a frame, sometimes none or two; energy in every tenth.
func strapFrames(_ count: Int) -> [[UInt8]] {
    let wide: UInt8 = 0b1
    let contact: UInt8 = 0b110
    let energy: UInt8 = 0b1000
    let rrIntervals: UInt8 = 0b1_0000
    let straps: [UInt8] = [
        rrIntervals, rrIntervals, contact | rrIntervals, contact | rrIntervals,
        contact | rrIntervals | energy, rrIntervals | energy, contact, wide | contact | rrIntervals,
    ]
    var state: UInt64 = 42
    func random(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }
    return (0..<count).map { number in
        let turn = number / straps.count
        var flags = straps[number % straps.count]
        let bpm = 50 + random(120)
        let intervals = flags & rrIntervals == 0 ? 0 : [0, 1, 1, 1, 1, 1, 1, 1, 2, 2][random(10)]
        // A strap does not announce what it does not send.
        if intervals == 0 { flags &= ~rrIntervals }
        if turn % 10 != 0 { flags &= ~energy }
        var frame = [flags, UInt8(bpm)]
        if flags & wide != 0 { frame.append(0) }
        if flags & energy != 0 { frame += [UInt8(turn / 10 % 256), 0] }
        for _ in 0..<intervals {
            let ticks = 60 * RRIntervals.ticksPerSecond / bpm + random(40) - 20
            frame += [UInt8(ticks & 0xff), UInt8(ticks >> 8)]
        }
        return frame
    }
}
