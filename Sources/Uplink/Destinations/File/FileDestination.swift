import Basics
import Logging
import OfflineQueue

/// Delivery into a file: one Open mHealth data point a line, with the patient and the sensor it is
/// of (NDJSON, ASCII only).
///
///     {"patient":"40001","sensor":{"id":1,"model":"H10"},"data_point":{"header":{…},"body":{…}}}
///
/// A sample that it says it has is on the disk. Samples that are delivered again, as after a crash, are not
/// written again, as long as they are among the last ones of the file.
public actor FileDestination: Destination {
    /// As many disks as a gateway has, and a network's: of one that hangs, few others wait.
    private static let threads = TaskThreads(label: "file", most: 4)

    private let thread = FileDestination.threads.next()
    /// Everything here waits for a disk, so it runs on a thread that nothing but files waits for.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    public nonisolated var mayRace: Bool { FileKind.promise.mayRace }

    /// Why the last delivery failed; nil after one that did not.
    public private(set) var lastFault: AppendFile.Fault?

    /// The same in words.
    public var fault: String? { lastFault?.description }

    private let path: String
    private let patient: String?
    private let rotation: FileRotation
    private let clock: any GatewayClock
    private let logger: Logger
    private let rotated: RotatedFiles
    /// Whether the gap ledger goes into a file beside.
    public nonisolated let takesLedger: Bool
    private var compressing: Task<Void, Never>?
    private let failing: @Sendable (AppendFile.Step) -> Int32
    private var file: AppendFile?
    private var known = RecentIdentifiers()
    private var writer = PointLineWriter()

    /// A destination that appends to the file at `path`, which it makes (0600) when it is first
    /// needed, and puts aside by no rule. The directory exists. `patient` is the patient of samples that
    /// name none.
    public init(path: String, patient: String? = nil) {
        self.init(path: path, patient: patient) { _ in 0 }
    }

    /// `failing` is called before each step; a non-zero `errno` makes the step fail. For tests.
    init(
        path: String, patient: String? = nil, rotation: FileRotation = .none,
        takesLedger: Bool = false,
        clock: any GatewayClock = SystemClock(),
        logger: Logger = .init(label: "uplink"),
        failing: @escaping @Sendable (AppendFile.Step) -> Int32 = { _ in 0 }
    ) {
        self.path = path
        self.patient = patient
        self.rotation = rotation
        self.takesLedger = takesLedger
        self.clock = clock
        self.logger = logger
        rotated = RotatedFiles(path: path)
        self.failing = failing
    }

    /// Appends the data points that the file does not have yet. All of them are taken, or none.
    public func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        do {
            var file = try opened()
            var lines = JSONBytes()
            var answers: [EntryAnswer] = []
            for point in points {
                // Forgotten again if the append fails.
                let isNew = known.insert(point.point.uuid)
                if isNew {
                    writer.write(point, patient: point.patient ?? patient, to: &lines)
                    lines.raw("\n")
                }
                answers.append(EntryAnswer(isNew ? .stored : .storedBefore))
            }
            if lines.count > 0 {
                let now = clock.read().wall
                let isDue = rotation.isDue(
                    length: Int64(try file.length), written: file.written,
                    adding: lines.bytes.count,
                    now: now)
                if isDue { file = try rotate(file, now) }
                try file.append(lines.bytes, at: now)
            }
            known.forgetOldest()
            lastFault = nil
            return .entries(answers)
        } catch {
            // The file is checked again before the next attempt: only what it holds then counts.
            close()
            lastFault = error
            return .notSent(retryAt: nil)
        }
    }

    /// Appends the entries that the ledger's file does not have yet. That file is opened for this alone: it
    /// is written a few times a day.
    public func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        do {
            let file = try AppendFile(path: rotated.ledgerPath, failing: failing)
            let known = Set(
                try file.tailLines().compactMap { Self.identifier(in: $0, after: Self.ledgerMarks) }
            )
            var lines = JSONBytes()
            for entry in entries where !known.contains(entry.id) {
                lines.line(entry, patient: entry.patient ?? patient)
                lines.raw("\n")
            }
            if lines.count > 0 { try file.append(lines.bytes, at: clock.read().wall) }
            return .stored
        } catch {
            return .failed("\(error)")
        }
    }

    /// A file takes what there is.
    public func mayTakeIntervals() async -> Bool { true }

    /// Whether the file can be opened.
    public func isHealthy() async -> Bool { openingFault() == nil }

    /// Why the file cannot be opened; nil if it can.
    func openingFault() -> AppendFile.Fault? {
        do {
            _ = try opened()
            return nil
        } catch {
            return error
        }
    }

    /// Whether the file can be opened; a file has no other reason to hold.
    public func isMended(_ reason: HoldReason) async -> Bool {
        await isHealthy()
    }

    private func opened() throws(AppendFile.Fault) -> AppendFile {
        if let file, file.isStill(at: path) { return file }
        close()
        let file = try AppendFile(path: path, failing: failing)
        let lines = try file.tailLines().compactMap(Self.identifier)
        // Lines that were written just before the file was put aside may be sent again after a crash.
        if rotation != .none, lines.count < RecentIdentifiers.countMax,
            let last = rotated.plain().last
        {
            if let tail = AppendFile.tailLines(ofFileAt: last) {
                tail.compactMap(Self.identifier).forEach { known.insert($0) }
            } else {
                logger.warning("the file that was put aside last cannot be read")
            }
        }
        lines.forEach { known.insert($0) }
        self.file = file
        return file
    }

    /// Puts the file aside and begins another.
    private func rotate(_ file: AppendFile, _ now: UTC) throws(AppendFile.Fault) -> AppendFile {
        try file.move(from: path, to: rotated.free(at: now))
        self.file = nil
        let next = try AppendFile(path: path, failing: failing)
        self.file = next
        if rotation.compresses { compressAside() }
        return next
    }

    private func compressAside() {
        let before = compressing
        compressing = Task { [rotated, logger] in
            await before?.value
            for path in rotated.plain().dropLast() where !Task.isCancelled {
                if let fault = await FileCompression.compress(path) {
                    logger.warning("compress data points", metadata: ["fault": "\(fault)"])
                }
            }
        }
    }

    /// Gives up what is being compressed: it is done at the next rotation.
    public func finish() async {
        compressing?.cancel()
        await compressing?.value
    }

    /// Lets go of the file and its lock until it is needed again.
    func close() {
        file = nil
        known = RecentIdentifiers()
    }

    // MARK: - Lines

    private static let identifierMark = Array(#""data_point":{"header":{"uuid":""#.utf8)
    private static let ledgerMarks = [
        Array(#""gap":{"id":""#.utf8), Array(#""coverage":{"id":""#.utf8),
    ]

    /// The sample's identifier in a line of ours. The patient and sensor before it cannot pass for
    /// the mark: inside a JSON string its quotes would be escaped.
    static func identifier(in line: ArraySlice<UInt8>) -> String? {
        identifier(in: line, after: [identifierMark])
    }

    private static func identifier(
        in line: ArraySlice<UInt8>, after marks: [[UInt8]]
    ) -> String? {
        marks.lazy.compactMap { identifier(in: line, after: $0) }.first
    }

    private static func identifier(in line: ArraySlice<UInt8>, after mark: [UInt8]) -> String? {
        guard line.count > mark.count else { return nil }
        let starts = line.startIndex...(line.endIndex - mark.count)
        guard let start = starts.first(where: { line[$0...].starts(with: mark) }) else {
            return nil
        }
        let rest = line[(start + mark.count)...]
        return rest.firstIndex(of: 0x22).map { String(decoding: rest[..<$0], as: UTF8.self) }
    }
}

/// The identifiers written last, oldest forgotten first.
struct RecentIdentifiers {
    /// An identifier of ours is kept in 16 bytes, of which its text takes five times as many.
    private enum Key: Hashable {
        case sample(SampleIdentity)
        case other(String)

        init(_ identifier: String) {
            self = SampleIdentity(text: identifier).map(Key.sample) ?? .other(identifier)
        }
    }

    private var order: [Key] = []
    private var set: Set<Key> = []

    /// A delivery sends its oldest samples again until they are settled, so that one batch (500) is
    /// enough; the rest is for many deliveries into one file.
    static let countMax = 4096
    /// Forgetting some at once keeps the cost of each small.
    private static let forgottenAtOnce = 1024

    /// Returns whether it is new.
    @discardableResult
    mutating func insert(_ identifier: String) -> Bool {
        let key = Key(identifier)
        guard set.insert(key).inserted else { return false }
        order.append(key)
        return true
    }

    mutating func forgetOldest() {
        guard order.count >= Self.countMax + Self.forgottenAtOnce else { return }
        set.subtract(order.prefix(order.count - Self.countMax))
        order.removeFirst(order.count - Self.countMax)
    }
}
