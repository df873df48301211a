/// Drops the copies of a sensor's frames: bluetoothd signals each notification once for every program
/// that subscribed to it. A value without a clock.
///
/// Frames carry no number; bytes and rhythm show a copy: it equals the frame before it,
/// follows within moments, and comes when the sensor's own cadence has no frame due. Two equal frames
/// a cadence apart are two frames, and so are frames that were held up and arrive together, as many
/// as are overdue. Until the cadence is known, and where a fast sensor leaves room for doubt, frames
/// are kept back for a moment.
struct CopyFilter: Hashable, Sendable {
    struct Frame: Hashable, Sendable {
        var bytes: [UInt8]
        /// Of its arrival, µs.
        var uptime: Int64
    }

    /// Copies were seen at most 30 ms after the first one; µs.
    static let copyMicrosecondsMax: Int64 = 30_000
    /// The same where the cadence leaves no doubt: a busy machine reads late.
    static let slowCopyMicrosecondsMax: Int64 = 200_000
    /// Sensors with less time between frames are fast, µs.
    static let fastMicroseconds: Int64 = 250_000
    /// How long frames are kept back at most, µs, and how many.
    static let heldMicrosecondsMax: Int64 = 3_500_000
    static let heldMax = 1_024
    /// Frames that decide whether a fast sensor's stream is doubled.
    static let fastFramesToDecide = 16
    /// Gaps shorter than this tell nothing of a sensor's cadence, µs.
    static let gapMicrosecondsMin: Int64 = 8_000
    /// How long gaps far below the cadence must go on before they are believed, µs.
    static let newCadenceMicroseconds: Int64 = 5_000_000
    /// Single frames before a doubt that make a fast sensor's cadence certain.
    static let singlesMin = 8
    /// The most programs that are believed to listen to one sensor.
    static let copiesMax = 4
    static let gapsMax = 9
    static let gapsMin = 3

    /// The typical time between frames, copies aside, µs; nil while unknown.
    private(set) var cadence: Int64?
    /// How often each frame arrives, as far as known; 1 where no other program listens.
    private(set) var copies = 1

    private var gaps: [Int64] = []
    /// Since when the gaps are far below the cadence.
    private var shortSince: Int64?
    /// A fast sensor, of whose frames a handful comes in each connection event.
    private var comesInHandfuls = false
    /// Runs of one frame in a row.
    private var singles = 0
    /// The last frame, copies included.
    private var last: Frame?
    /// Arrival of the last frame that was no candidate for a copy.
    private var lastFirst: Int64?
    /// Position in the run of equal frames, and how many of them were passed on.
    private var position = 0
    private var passed = 0
    /// How many frames were due when the run began.
    private var due = 1
    /// When the next frame is due, and when the last one came that was passed on.
    private var expected: Int64?
    private var latest: Int64?
    /// Runs in a row with fewer copies than known.
    private var fewer = 0
    private var held: [Frame] = []

    /// When ``release(at:)`` is due, if ever.
    var deadline: Int64? { held.first.map { $0.uptime + Self.heldMicrosecondsMax } }

    /// Frames that are kept back.
    var heldCount: Int { held.count }

    /// A link was made: nothing can be overdue on it.
    mutating func beginLink() -> [Frame] {
        let frames = release()
        last = nil
        lastFirst = nil
        expected = nil
        latest = nil
        comesInHandfuls = false
        position = 0
        return frames
    }

    /// Takes a frame; returns those that are no copies, in order.
    mutating func take(_ frame: Frame) -> [Frame] {
        if !held.isEmpty || wantsToHold(frame) {
            held.append(frame)
            guard isDecided else { return [] }
            return release()
        }
        return pass(frame, copies: copies) ? [frame] : []
    }

    /// Passes on what was kept back, if its time has come.
    mutating func release(at now: Int64) -> [Frame] {
        guard let deadline, deadline <= now else { return [] }
        return release()
    }

    /// Passes on what was kept back.
    mutating func release() -> [Frame] {
        guard !held.isEmpty else { return [] }
        let frames = held
        held = []
        if cadence == nil || isFast { judge(frames) }
        var kept: [Frame] = []
        for frame in frames where pass(frame, copies: copies) { kept.append(frame) }
        return kept
    }

    private var isFast: Bool { cadence.map { $0 < Self.fastMicroseconds } ?? false }

    private var window: Int64 {
        guard let cadence, !isFast else { return Self.copyMicrosecondsMax }
        return min(cadence / 4, Self.slowCopyMicrosecondsMax)
    }

    private func isCandidate(_ frame: Frame, after last: Frame?, within window: Int64) -> Bool {
        guard let last, last.bytes == frame.bytes else { return false }
        return (0...window).contains(frame.uptime - last.uptime)
    }

    /// Whether it takes more frames to tell if this one is a copy.
    private func wantsToHold(_ frame: Frame) -> Bool {
        guard isCandidate(frame, after: last, within: window) else { return false }
        if cadence == nil { return true }
        return isFast && copies == 1
    }

    private var isDecided: Bool {
        guard let first = held.first, let last = held.last else { return true }
        if held.count >= Self.heldMax || last.uptime - first.uptime >= Self.heldMicrosecondsMax {
            return true
        }
        var firsts = 0
        var previous: Frame?
        for frame in held {
            if !isCandidate(frame, after: previous, within: Self.copyMicrosecondsMax) {
                firsts += 1
            }
            previous = frame
        }
        // A few frames are enough to recognise a slow sensor.
        let span = last.uptime - first.uptime
        if cadence == nil, firsts > Self.gapsMin, span / Int64(firsts) >= Self.fastMicroseconds {
            return true
        }
        return held.count >= Self.fastFramesToDecide && span > 0
            && span / Int64(held.count) < Self.fastMicroseconds
    }

    /// Learns cadence and number of copies from frames that were kept back.
    private mutating func judge(_ frames: [Frame]) {
        var runs: [(bytes: [UInt8], uptime: Int64, count: Int)] = []
        if isFast || cadence == nil, let last { runs.append((last.bytes, last.uptime, 1)) }
        var previous = last
        for frame in frames {
            if isCandidate(frame, after: previous, within: Self.copyMicrosecondsMax) {
                if runs.isEmpty { runs.append((frame.bytes, frame.uptime, 0)) }
                runs[runs.count - 1].count += 1
            } else {
                runs.append((frame.bytes, frame.uptime, 1))
            }
            previous = frame
        }
        let starts = zip(runs, runs.dropFirst()).map { $1.uptime - $0.uptime }
        let typical = Self.median(starts.filter { $0 >= Self.gapMicrosecondsMin })
        // The last run may go on.
        let counts = runs.dropLast().map { $0.count }
        guard let most = counts.max(), most > 1, let typical else { return }
        let isRegular = counts.allSatisfy { $0 == most } && counts.count >= 4
        if let cadence, isFast {
            // A sensor does not send twice as many frames from one moment to the next.
            if isRegular, singles >= Self.singlesMin, abs(typical - cadence) <= cadence / 4 {
                copies = most
            }
            return
        }
        if typical < Self.fastMicroseconds {
            // A burst of steady frames in one connection event looks the same; copies go on being
            // equal while the frames change.
            let changes = zip(runs, runs.dropFirst()).count { $0.bytes != $1.bytes }
            if isRegular, changes >= 3 { copies = most }
        }
        // So many programs do not listen to one strap: it sends a handful at a time.
        comesInHandfuls = most > Self.copiesMax
        cadence = cadence ?? typical
    }

    /// Whether a frame is passed on.
    private mutating func pass(_ frame: Frame, copies known: Int) -> Bool {
        let isCandidate = isCandidate(frame, after: last, within: window)
        last = frame
        guard isCandidate else {
            beginRun(frame.uptime)
            passed = 1
            follow(frame.uptime)
            return true
        }
        position += 1
        let isCopy: Bool
        if comesInHandfuls {
            isCopy = false
        } else if isFast {
            isCopy = known > 1 && position % known != 0
        } else if due <= 1 {
            copies = max(copies, position + 1)
            isCopy = true
        } else {
            isCopy = passed >= due || position % known != 0
        }
        if !isCopy {
            passed += 1
            follow(frame.uptime)
        }
        return !isCopy
    }

    /// The run before is over: what it says of the copies.
    private mutating func beginRun(_ uptime: Int64) {
        if lastFirst != nil, due <= 1 || isFast, position + 1 < copies {
            fewer += 1
            if fewer >= 2 {
                copies = position + 1
                fewer = 0
            }
        } else {
            fewer = 0
        }
        singles = position == 0 ? min(singles + 1, Self.singlesMin) : 0
        position = 0
        due = 1
        forget(uptime)
        if let expected, let cadence, uptime > expected {
            let owed = Int(clamping: (uptime - expected + cadence * 5 / 8) / cadence)
            // A cadence is known to some percent; where many are owed, none shall be one too many.
            due = 1 + owed + (owed > 3 ? owed / 8 + 1 : 0)
        }
        if let lastFirst { learn(uptime - lastFirst, at: uptime) }
        lastFirst = uptime
    }

    private mutating func follow(_ uptime: Int64) {
        guard let cadence else { return }
        expected = min(expected ?? uptime, uptime) + cadence
        latest = uptime
    }

    /// A frame that does not come right after the one before shows that what was owed then is lost, or
    /// that the sensor's clock has moved on: it is forgotten bit by bit, or copies would take its place.
    private mutating func forget(_ uptime: Int64) {
        guard let expected, let cadence, let latest, uptime - latest >= cadence / 2 else { return }
        let owed = max(latest + cadence - expected, 0)
        self.expected = latest + cadence - min(owed * 7 / 8, 2 * cadence)
    }

    private mutating func learn(_ gap: Int64, at uptime: Int64) {
        guard gap >= Self.gapMicrosecondsMin else { return }
        // A flood is no new cadence; it is over in a moment.
        if let cadence, gap < cadence / 8 {
            let since = shortSince ?? uptime
            shortSince = since
            guard uptime - since > Self.newCadenceMicroseconds else { return }
        } else {
            shortSince = nil
        }
        if gaps.count >= Self.gapsMax { gaps.removeFirst() }
        gaps.append(gap)
        if gaps.count >= Self.gapsMin { cadence = Self.median(gaps) }
    }

    private static func median(_ values: [Int64]) -> Int64? {
        values.isEmpty ? nil : values.sorted()[values.count / 2]
    }
}
