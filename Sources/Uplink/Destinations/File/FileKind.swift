/// A file of data points, one a line (``FileDestination``).
public struct FileKind: DestinationKind {
    let path: String

    public static let name = "file"
    public static let summary = "a file on this machine, one Open mHealth data point per line"
    public static let fields = [
        SettingField("path", "absolute path of the file, which is created if it is missing")
    ]
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: false,
        words: "the line is on this machine's disk; what the file's end holds is not written again")

    public static func remedy(_ reason: HoldReason) -> String? { nil }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        let path = values.text("path") ?? ""
        guard FilePlace.origin(path: path) != nil else {
            throw DestinationProblem(
                "path is not an absolute path of a file", "such as /var/lib/study/points.ndjson")
        }
        self.path = path
    }

    public var place: String { FilePlace.origin(path: path) ?? path }

    public var patientIdentity: PatientIdentity { .id }

    public var example: String {
        var json = JSONBytes()
        var writer = PointLineWriter()
        writer.write(.example, patient: OutgoingPoint.example.patient, to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let file = FileDestination(path: path)
        guard await file.isHealthy() else {
            throw DestinationProblem(
                "the file cannot be opened for writing",
                "create its directory, and let the gateway's user write there")
        }
        await file.close()
        return ProbeReport(checked: ["the file can be written"])
    }

    public func make(_ parts: DestinationParts) -> any Destination {
        FileDestination(path: path, patient: parts.patient)
    }
}
