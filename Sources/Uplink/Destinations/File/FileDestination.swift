import Basics

/// Delivery into a file: one Open mHealth data point a line, with the patient and the sensor it is
/// of (NDJSON, ASCII only).
///
///     {"patient":"40001","sensor":{"id":1,"model":"H10"},"data_point":{"header":{…},"body":{…}}}
///
/// What it says it has is on the disk. Samples that are delivered again, as after a crash, are not
/// written again, as long as they are among the last ones of the file.
public actor FileDestination: Destination {
    private let thread = SerialThread(label: "edge-gateway.file-destination")
    /// Everything here waits for a disk, so it has a thread of its own.
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
    private let failing: @Sendable (AppendFile.Step) -> Int32
    private var file: AppendFile?
    private var known = RecentIdentifiers()
    private var writer = PointLineWriter()

    /// A destination that appends to the file at `path`, which it makes (0600) when it is first
    /// needed. The directory exists. `patient` is the patient of samples that name none.
    public init(path: String, patient: String? = nil) {
        self.init(path: path, patient: patient) { _ in 0 }
    }

    /// `failing` is called before each step; a non-zero `errno` makes the step fail. For tests.
    init(
        path: String, patient: String? = nil,
        failing: @escaping @Sendable (AppendFile.Step) -> Int32
    ) {
        self.path = path
        self.patient = patient
        self.failing = failing
    }

    /// Appends the data points that the file does not have yet. All of them are taken, or none.
    public func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        var added: [String] = []
        do {
            let file = try opened()
            var lines = JSONBytes()
            var answers: [EntryAnswer] = []
            var inThese: Set<String> = []
            for point in points {
                let uuid = point.point.uuid
                let isNew = !known.contains(uuid) && inThese.insert(uuid).inserted
                if isNew {
                    writer.write(point, patient: point.patient ?? patient, to: &lines)
                    lines.raw("\n")
                    added.append(uuid)
                }
                answers.append(EntryAnswer(isNew ? .stored : .storedBefore))
            }
            if !added.isEmpty { try file.append(lines.bytes) }
            known.add(added)
            lastFault = nil
            return .entries(answers)
        } catch {
            // The file is checked again before the next attempt: only what it holds then counts.
            close()
            lastFault = error
            return .notSent(retryAt: nil)
        }
    }

    /// A file takes what there is.
    public func mayTakeIntervals() async -> Bool { true }

    /// Whether the file can be opened.
    public func isHealthy() async -> Bool {
        (try? opened()) != nil
    }

    /// Whether the file can be opened; a file has no other reason to hold.
    public func isMended(_ reason: HoldReason) async -> Bool {
        await isHealthy()
    }

    private func opened() throws(AppendFile.Fault) -> AppendFile {
        if let file, file.isStill(at: path) { return file }
        close()
        let file = try AppendFile(path: path, failing: failing)
        known.add(try file.tailLines().compactMap(Self.identifier))
        self.file = file
        return file
    }

    /// Lets go of the file and its lock until it is needed again.
    func close() {
        file = nil
        known = RecentIdentifiers()
    }

    // MARK: - Lines

    private static let identifierMark = Array(#""data_point":{"header":{"uuid":""#.utf8)

    /// The sample's identifier in a line of ours. The patient and sensor before it cannot pass for
    /// the mark: inside a JSON string its quotes would be escaped.
    static func identifier(in line: ArraySlice<UInt8>) -> String? {
        let mark = identifierMark
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
    private var order: [String] = []
    private var set: Set<String> = []

    /// A delivery sends its oldest samples again until they are settled, so that one batch (100) is
    /// enough; the rest is for many deliveries into one file.
    static let countMax = 4096

    func contains(_ identifier: String) -> Bool { set.contains(identifier) }

    mutating func add(_ identifiers: [String]) {
        for identifier in identifiers where set.insert(identifier).inserted {
            order.append(identifier)
        }
        // Forgetting many at once keeps the cost of each small.
        guard order.count > 2 * Self.countMax else { return }
        set.subtract(order.prefix(order.count - Self.countMax))
        order.removeFirst(order.count - Self.countMax)
    }
}
