import Basics
import OfflineQueue

/// How finely the heart rate goes out. Chosen once an enrollment (`EnrollmentTerms.resolution`); the
/// raw values are the spelling of the command line, of the store and of JSON.
public enum Resolution: String, Sendable, Hashable, CaseIterable {
    /// One data point a frame.
    case raw
    /// The average over each ten seconds of UTC.
    case tenSeconds = "10s"
    /// The average over each minute of UTC.
    case sixtySeconds = "60s"

    /// The resolution of stored terms. A value that cannot be read is the coarsest: never finer than what
    /// was agreed.
    public init(stored text: String) {
        self = Resolution(rawValue: text) ?? .sixtySeconds
    }

    /// How long its windows are; nil for `raw`, which has none.
    public var window: Duration? {
        switch self {
        case .raw: nil
        case .tenSeconds: .seconds(10)
        case .sixtySeconds: .seconds(60)
        }
    }

    /// The kind of its data points, in their identities.
    var kind: DataPointKind {
        switch self {
        case .raw: .heartRate
        case .tenSeconds: .tenSecondAverage
        case .sixtySeconds: .sixtySecondAverage
        }
    }

    /// The window that holds a time, the end excluded. Windows are aligned to 1970, so to whole minutes
    /// too.
    func window(around utc: UTC) -> Range<UTC>? {
        guard let length = window?.microseconds else { return nil }
        // Times that no year has a name for are cut where nothing can overflow.
        let time = min(max(utc.microseconds, -(1 << 62)), 1 << 62)
        let into = time % length
        let start = time - (into < 0 ? into + length : into)
        return UTC(microseconds: start)..<UTC(microseconds: start + length)
    }
}

/// Samples of which one heart rate is made.
struct SampleGroup: Sendable {
    /// In order of arrival, never empty, all of one segment, with none missing between them.
    var samples: [PendingSample]
    /// The kind of their average; nil for a sample that goes out as it is.
    var window: Range<UTC>?

    /// A window is closed at this many samples, a rate of 33 a second: a bound for what has to be in
    /// memory at once.
    static let samplesMax = 2000

    /// The complete groups of a range, oldest first. The rest of it waits.
    ///
    /// A group is a run of consecutive samples whose times lie in one window, so what it holds depends
    /// on what is stored and on nothing else, in which batches it is read and how often the program
    /// restarts. Samples that come later into a window that was sent, from another segment or
    /// after the clock was set back, are a group of their own.
    ///
    /// - Parameter now: nil while the time is not known.
    static func complete(
        of range: PendingRange, _ resolution: Resolution, now: UTC?
    ) -> [SampleGroup] {
        var groups: [SampleGroup] = []
        for sample in range.samples {
            let window = resolution.window(around: sample.time)
            if window != nil, let last = groups.last, last.window == window,
                last.samples.count < samplesMax
            {
                groups[groups.count - 1].samples.append(sample)
            } else {
                groups.append(SampleGroup(samples: [sample], window: window))
            }
        }
        guard let last = groups.last, let window = last.window else { return groups }
        let isOver = now.map { $0 - PendingRange.grace >= window.upperBound } ?? false
        // Where the reading was cut, more of the window may follow however old it is.
        let isWhole = range.isEnded || isOver && !range.isCut
        if !isWhole, last.samples.count < samplesMax { groups.removeLast() }
        return groups
    }
}
