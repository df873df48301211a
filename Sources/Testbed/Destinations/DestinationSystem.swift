import Foundation

/// A real system that samples are delivered to.
public protocol DestinationSystem: Sendable {
    /// The kind, as `destination add` takes it.
    var kind: String { get }
    /// A description for people.
    var title: String { get }
    /// The settings that a person would give to `destination add`.
    var settings: [String: String] { get }
    /// The names of the settings that do not belong into a command line, with a file that holds each.
    var secretFiles: [String: String] { get }
    /// The resolution to choose, so that nothing waits for the end of a window; nil: the kind's.
    var resolution: String? { get }
    /// Whether a sample that was sent twice may be there twice (docs/use/destinations.md).
    var mayRepeat: Bool { get }

    /// How many different heart rates it has, and how many more it holds because they came again.
    func counts() async throws -> (stored: Int, repeated: Int)
    /// How many different gaps and days it has; nil if it takes none.
    func ledgerCounts() async throws -> (gaps: Int, days: Int)?
    /// Ends its programs and removes its data.
    func stop() async
}

extension DestinationSystem {
    public var title: String { kind }
    public var secretFiles: [String: String] { [:] }
    public var mayRepeat: Bool { false }
    public var resolution: String? { nil }
    public func ledgerCounts() async throws -> (gaps: Int, days: Int)? { nil }

    /// The settings as words of a command line, by name; a secret is read from its file.
    public var settingWords: [String] {
        settings.sorted { $0.key < $1.key }.map { name, value in
            "\(name)=" + (secretFiles[name].map { "@\($0)" } ?? value)
        }
    }
}

/// The kinds of destinations whose systems can be started on any machine.
public enum SystemKind: String, CaseIterable, Sendable {
    case fhir, file, influx, mqtt, postgrest, webhook

    /// The kinds that a person names, with commas between.
    ///
    /// - Parameter text: nil and nothing name none.
    /// - Throws: ``SystemFault``, when one is unknown or named twice.
    public static func list(_ text: String?) throws -> [SystemKind] {
        var kinds: [SystemKind] = []
        for word in (text ?? "").split(separator: ",", omittingEmptySubsequences: true) {
            let name = word.trimmingCharacters(in: .whitespaces)
            guard let kind = SystemKind(rawValue: name) else {
                let all = allCases.map(\.rawValue).joined(separator: ", ")
                throw SystemFault("no kind of destination '\(name)': the kinds are \(all)")
            }
            guard !kinds.contains(kind) else {
                throw SystemFault("the destination \(name) is named twice")
            }
            kinds.append(kind)
        }
        return kinds
    }

    /// Starts its system.
    ///
    /// - Throws: ``SystemFault``, when a program is missing or does not start.
    public func start() async throws -> any DestinationSystem {
        switch self {
        case .fhir: try await FHIRSystem.start()
        case .file: try await FileSystem.start()
        case .influx: try await InfluxSystem.start()
        case .mqtt: try await MosquittoSystem.start()
        case .postgrest: try await PostgRESTSystem.start(python: SystemHost.debianPython)
        case .webhook: try await WebhookSystem.start(format: "ndjson")
        }
    }
}
