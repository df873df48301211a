import Foundation
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

/// The outcome of one question.
enum FleetAnswer: Equatable, Sendable {
    case report(FleetReport)
    case fault(FleetFault, detail: String, remedy: String)
}

extension FleetAnswer {
    /// A report has some kilobytes; of a ward with 200 straps in trouble, 100.
    static let bytesMax = 1 << 20
    /// Longest text of a report: what a gateway writes is shorter.
    private static let textLengthMax = 500
    /// Most entries of a list of a report: more straps than a gateway can have.
    private static let entriesMax = 1_000

    init(_ result: Result<HTTPAnswer, TransportFault>) {
        switch result {
        case .failure(.bodyTooLarge):
            self = .unusable("its answer is larger than \(Self.bytesMax >> 20) MiB")
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
                .refused, detail: "it has no /v1/fleet (HTTP 404)",
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
            FleetReport(hostile: message, Self.textLengthMax, Self.entriesMax)
            .map(FleetAnswer.report) ?? .unusable("its answer is no report of a gateway")
    }

    private static func unusable(_ detail: String) -> FleetAnswer {
        .fault(
            .unusable, detail: detail,
            remedy: "check the address: it may be another program, or a newer version")
    }
}

extension FleetReport {
    /// A report from outside: nil if it is not a report, or one that no gateway writes. What steers a terminal is
    /// replaced, long texts are cut.
    fileprivate init?(hostile bytes: [UInt8], _ textLengthMax: Int, _ entriesMax: Int) {
        guard
            var report = try? ReportCoding.decoder().decode(FleetReport.self, from: Data(bytes)),
            report.items.count <= entriesMax, report.sensors.silent.count <= entriesMax,
            report.backlog.count <= entriesMax,
            report.gateway.labels.count <= GatewayIdentity.labelsMax
        else { return nil }
        let counts = [report.sensors.paired, report.sensors.streaming]
        let age = report.oldestUndeliveredSeconds ?? 0
        guard (counts + report.backlog.map(\.samples)).allSatisfy({ $0 >= 0 }), age.isFinite,
            age >= 0
        else { return nil }
        func cut(_ text: String, _ most: Int = textLengthMax) -> String {
            Printable.line(String(String.UnicodeScalarView(text.unicodeScalars.prefix(most))))
        }
        report.gateway.name = cut(report.gateway.name, GatewayIdentity.lengthMax)
        report.gateway.site = report.gateway.site.map { cut($0, GatewayIdentity.lengthMax) }
        report.gateway.labels = Dictionary(
            report.gateway.labels.map { (cut($0), cut($1, GatewayIdentity.lengthMax)) }
        ) { one, _ in one }
        report.version = cut(report.version, GatewayIdentity.lengthMax)
        for index in report.items.indices {
            report.items[index].name = cut(report.items[index].name)
            report.items[index].severity = cut(report.items[index].severity)
            report.items[index].detail = cut(report.items[index].detail)
            report.items[index].remedy = cut(report.items[index].remedy)
            report.items[index].sensor = report.items[index].sensor.map { cut($0) }
        }
        report.sensors.silent = report.sensors.silent.map { cut($0) }
        for index in report.backlog.indices {
            report.backlog[index].destination = cut(report.backlog[index].destination)
            report.backlog[index].kind = cut(report.backlog[index].kind)
        }
        self = report
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
