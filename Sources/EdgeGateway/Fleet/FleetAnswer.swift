import Foundation
import OfflineQueue
import Uplink

/// Why the state of a gateway cannot be known: the names of items that the poller adds.
enum FleetFault: String, Codable, Sendable {
    /// It cannot be reached, or no whole answer came in time.
    case noAnswer = "no-answer"
    /// It answers, and does not give its state.
    case refused = "answer-refused"
    /// Its answer is no report.
    case unusable = "answer-unusable"
}

/// An answer or a message of a gateway for a fleet.
protocol FleetMessage: Codable, Equatable, Sendable {
    /// Where it is at the page's port.
    static var path: String { get }
    /// The longest one that is read.
    static var bytesMax: Int { get }

    /// One from outside: nil if it is not one, or is one that no gateway writes. What steers a terminal is replaced,
    /// long texts are cut.
    init?(hostile bytes: [UInt8])
}

extension FleetMessage {
    /// Longest text: what a gateway writes is shorter.
    fileprivate static var textLengthMax: Int { 500 }
    /// Most entries of a list: more straps than a gateway can have.
    fileprivate static var entriesMax: Int { 1_000 }

    fileprivate static func cut(_ text: String, _ most: Int = textLengthMax) -> String {
        Printable.line(String(String.UnicodeScalarView(text.unicodeScalars.prefix(most))))
    }
}

/// The outcome of one question.
enum FleetReply<Report: FleetMessage>: Equatable, Sendable {
    case report(Report)
    case fault(FleetFault, detail: String, remedy: String)
}

typealias FleetAnswer = FleetReply<FleetReport>

extension FleetReply {
    init(_ result: Result<HTTPAnswer, TransportFault>) {
        switch result {
        case .failure(.bodyTooLarge):
            self = .unusable("its answer is larger than \(Report.bytesMax >> 20) MiB")
        case .failure(let fault):
            self = .fault(
                .noAnswer, detail: fault.description, remedy: fault.remedy)
        case .success(let answer): self.init(answer)
        }
    }

    private init(_ answer: HTTPAnswer) {
        switch answer.status {
        case 200:
            self.init(message: answer.body)
        case 300..<400:
            self = .fault(
                .refused, detail: "it sends the question elsewhere (HTTP \(answer.status))",
                remedy: "write the gateway's own address into the hosts file")
        case 401, 403:
            self = .fault(
                .refused, detail: "it does not accept the token (HTTP \(answer.status))",
                remedy: "compare token_file with the gateway's fleet.token_file; "
                    + "docs/operate/fleet.md")
        case 404:
            self = .fault(
                .refused, detail: "it has no \(Report.path) (HTTP 404)",
                remedy: "update the gateway, or correct the address in the hosts file")
        default:
            self = .fault(
                .refused, detail: "it answers with HTTP \(answer.status)",
                remedy: "read journalctl -u edge-gateway there, or the log of the proxy before it")
        }
    }

    /// The bytes that are to be a report.
    init(message: [UInt8]) {
        self =
            Report(hostile: message).map(Self.report)
            ?? .unusable("its answer is no report of a gateway")
    }

    private static func unusable(_ detail: String) -> Self {
        .fault(
            .unusable, detail: detail,
            remedy: "check the address: it may be another program, or a newer version")
    }
}

extension GatewayIdentity {
    /// Without what steers a terminal, and not longer than a gateway has it.
    fileprivate mutating func cut() {
        func cut(_ text: String) -> String { FleetReport.cut(text, Self.lengthMax) }
        name = cut(name)
        site = site.map(cut)
        labels = Dictionary(labels.map { (FleetReport.cut($0), cut($1)) }) { one, _ in one }
    }
}

extension FleetReport: FleetMessage {
    static let path = "/v1/fleet"
    /// A report has some kilobytes; of a ward with 200 straps in trouble, 100.
    static let bytesMax = 1 << 20

    init?(hostile bytes: [UInt8]) {
        guard
            var report = try? ReportCoding.decoder().decode(FleetReport.self, from: Data(bytes)),
            report.items.count <= Self.entriesMax, report.sensors.silent.count <= Self.entriesMax,
            report.backlog.count <= Self.entriesMax,
            report.gateway.labels.count <= GatewayIdentity.labelsMax,
            (report.straps ?? []).count <= Self.entriesMax,
            (report.straps ?? []).allSatisfy({ StrapMarks.isMark($0.mark) })
        else { return nil }
        let counts = [report.sensors.paired, report.sensors.streaming]
        let age = report.oldestUndeliveredSeconds ?? 0
        guard (counts + report.backlog.map(\.samples)).allSatisfy({ $0 >= 0 }), age.isFinite,
            age >= 0
        else { return nil }
        func cut(_ text: String) -> String { Self.cut(text) }
        report.gateway.cut()
        report.version = Self.cut(report.version, GatewayIdentity.lengthMax)
        for index in report.items.indices {
            report.items[index].name = cut(report.items[index].name)
            report.items[index].severity = cut(report.items[index].severity)
            report.items[index].detail = cut(report.items[index].detail)
            report.items[index].remedy = cut(report.items[index].remedy)
            report.items[index].sensor = report.items[index].sensor.map { cut($0) }
        }
        report.sensors.silent = report.sensors.silent.map { cut($0) }
        report.straps = report.straps?.map { FleetStrap(name: cut($0.name), mark: $0.mark) }
        for index in report.backlog.indices {
            report.backlog[index].destination = cut(report.backlog[index].destination)
            report.backlog[index].kind = cut(report.backlog[index].kind)
        }
        self = report
    }
}

extension FleetCoverageReport: FleetMessage {
    static let path = "/v1/fleet/coverage"
    /// A day of a strap takes some 150 bytes.
    static let bytesMax = 4 << 20

    init?(hostile bytes: [UInt8]) {
        guard
            var report = try? ReportCoding.decoder().decode(Self.self, from: Data(bytes)),
            report.straps.count <= Self.entriesMax,
            report.gateway.labels.count <= GatewayIdentity.labelsMax,
            report.straps.allSatisfy({ strap in
                strap.days.count <= GapService.daysMax && strap.days.allSatisfy(\.isPossible)
            })
        else { return nil }
        report.gateway.cut()
        for index in report.straps.indices {
            report.straps[index].name = Self.cut(
                report.straps[index].name, GatewayIdentity.lengthMax)
        }
        self = report
    }
}

extension FleetCoverageReport.Day {
    /// Whether a gateway can have written it: some straps of one number may add up.
    fileprivate var isPossible: Bool {
        let seconds = [expectedSeconds, coveredSeconds, longestGapSeconds] + secondsByCause.values
        return percent.map { 0...100 ~= $0 } ?? true
            && seconds.allSatisfy { 0...1e9 ~= $0 }
            && secondsByCause.keys.allSatisfy { GapCause(rawValue: $0) != nil }
    }
}

extension TransportFault {
    fileprivate var remedy: String {
        switch self {
        case .dns: "correct the address in the hosts file, or the name server"
        case .tls: "correct the certificate, or name its authority in ca_file"
        case .plainHTTPRefused: "use https, or a tunnel to 127.0.0.1"
        default: "is it switched on, and its network up? then: systemctl status edge-gateway"
        }
    }
}
