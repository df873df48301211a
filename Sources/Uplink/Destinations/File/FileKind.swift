import Glibc
import OfflineQueue

/// A file of data points, one a line (``FileDestination``).
public struct FileKind: DestinationKind {
    let path: String
    let rotation: FileRotation
    let takesLedger: Bool

    public static let name = "file"
    public static let summary = "a file on this machine, one Open mHealth data point per line"
    public static let fields = [
        SettingField("path", "absolute path of the file, which is created if it is missing"),
        SettingField(
            "megabytes", .optional, "the size at which the file is put aside for a new one"),
        SettingField("daily", .standard("no"), "a file for each day (UTC): yes or no"),
        SettingField(
            "compress", .standard("no"),
            "gzip the files that were put aside, all but the newest: yes or no"),
        .gaps,
    ]
    /// A batch is synced to the disk at once. Its lines must be among those that a restart recognises
    /// (`RecentIdentifiers.countMax`), also with several intervals a sample.
    public static let pace = DestinationPace(batch: 500)
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: false,
        words: "the line is on this machine's disk; what the file's end holds is not written again")

    public static func remedy(_ reason: HoldReason) -> String? { nil }

    /// No network is on the way.
    public static var faultRemedy: String {
        "see that the file's folder is there, that the gateway may write in it, and that its disk has room"
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        let path = values.text("path") ?? ""
        guard FilePlace.origin(path: path) != nil else {
            throw DestinationProblem(
                "path is not an absolute path of a file",
                "such as /var/lib/edge-gateway/points.ndjson")
        }
        self.path = path
        let megabytes = values.text("megabytes")
        guard megabytes.map({ Int64($0).map(Self.megabytes.contains) ?? false }) ?? true else {
            throw DestinationProblem(
                "megabytes is not a size it can be", "use a whole number from 1 to 100000")
        }
        rotation = FileRotation(
            bytesMax: megabytes.flatMap { Int64($0) }.map { $0 * 1_000_000 },
            isDaily: try values.choice("daily", YesOrNo.self) == .yes,
            compresses: try values.choice("compress", YesOrNo.self) == .yes)
        takesLedger = try values.choice("gaps", YesOrNo.self) == .yes
        guard rotation.compresses == false || rotation.bytesMax != nil || rotation.isDaily else {
            throw DestinationProblem(
                "compress alone does nothing: the file is never put aside",
                "add daily=yes or megabytes=…")
        }
    }

    /// Sizes at which a file may be put aside.
    private static let megabytes: ClosedRange<Int64> = 1...100_000

    public var place: String { FilePlace.origin(path: path) ?? path }

    public var patientIdentity: PatientIdentity { .id }

    public var example: String {
        var json = JSONBytes()
        var writer = PointLineWriter()
        writer.write(.example, patient: OutgoingPoint.example.patient, to: &json)
        for entry in LedgerEntry.examples where takesLedger {
            json.raw("\n\n")
            json.line(entry, patient: entry.patient)
        }
        return String(decoding: json.bytes, as: UTF8.self)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        if FilePlace.isTemporary(path) {
            throw DestinationProblem(
                "files there vanish when the service stops or the machine restarts",
                "choose another directory, such as /var/lib/edge-gateway")
        }
        let file = FileDestination(path: path)
        if let fault = await file.openingFault() { throw Self.problem(fault) }
        await file.close()
        return ProbeReport(checked: ["the file can be written"])
    }

    private static func problem(_ fault: AppendFile.Fault) -> DestinationProblem {
        let advice =
            switch (fault.step, fault.errno) {
            case (.recognize, _): "choose another name, or move that file away"
            case (.lock, _): "another delivery or another gateway writes it: choose another name"
            case (_, EROFS):
                "the service may write to /var/lib/edge-gateway only: choose that, or allow another "
                    + "directory with systemctl edit edge-gateway: [Service] ReadWritePaths=DIRECTORY"
            case (_, ENOSPC): "make room on the disk"
            default: "create its directory, and let the gateway's user write there"
            }
        let message =
            fault.step == .recognize
            ? "\(fault)" : "the file cannot be written: \(String(cString: strerror(fault.errno)))"
        return DestinationProblem(message, advice)
    }

    public func make(_ parts: DestinationParts) -> any Destination {
        FileDestination(
            path: path, patient: parts.patient, rotation: rotation, takesLedger: takesLedger,
            clock: parts.clock, logger: parts.logger)
    }
}
