import Foundation
import Uplink

/// Name service, TLS and the exchanges, token and consent.
struct ExchangeChecks {
    /// A reachable exchange answers this question in a moment.
    private static let timeout = Duration.seconds(10)

    let settings: Settings
    /// What the daemon says; nil if it does not run.
    let status: StatusReport?

    func run() async -> [Finding] {
        guard let status else {
            return [
                .fault(
                    "daemon", "the daemon does not answer at \(settings.socketPath)",
                    "systemctl start edge-gateway; journalctl -u edge-gateway")
            ]
        }
        var findings = [
            Finding.ok("daemon", "\(status.version), up \(Terminal.age(status.uptimeSeconds))")
        ]
        guard !status.enrollments.isEmpty else {
            findings.append(
                .warning(
                    "enrollment", "none yet: samples are held", "edge-gateway enroll LINK"))
            return findings
        }
        for exchange in Set(status.enrollments.map(\.exchange)).sorted() {
            findings.append(await reach(exchange))
        }
        return findings + status.enrollments.map(Self.enrollment)
    }

    /// DNS, route, proxy, TLS and the server itself: the first that fails is the one to fix.
    private func reach(_ exchange: String) async -> Finding {
        let name = "exchange"
        guard let origin = Origin(exchange) else {
            return .unknown(name, "\(exchange) is not reached over a network")
        }
        var curl = settings.curl
        curl.totalTimeout = Self.timeout
        do throws(TransportFault) {
            let answer = try await CurlTransport(curl).send(HTTPRequest(.get, origin, "/health"))
            return (200..<500).contains(answer.status)
                ? .ok(name, "\(exchange) answers")
                : .warning(
                    name, "\(exchange) answers with \(answer.status)",
                    "tell its operator; samples wait meanwhile")
        } catch {
            return .fault(name, "\(exchange): \(error)", Self.remedy(error))
        }
    }

    static func remedy(_ fault: TransportFault) -> String {
        switch fault {
        case .dns: "check /etc/resolv.conf; getent hosts NAME"
        case .proxy: "check the proxy's address, and whether the proxy admits this machine"
        case .tls(.expired), .tls(.notYetValid): "check this machine's clock first: timedatectl"
        case .tls(.unknownIssuer), .tls(.selfSigned):
            "install ca-certificates, or set uplink.ca_file to the authority of that server"
        case .tls(.wrongHost):
            "the certificate is for another host than the link; ask for a new link"
        case .tls: "check uplink.ca_file, and look for a proxy between here and the exchange"
        case .plainHTTPRefused: "use https"
        default: "check cable, Wi-Fi, route and firewall: curl -v URL"
        }
    }

    static func enrollment(_ enrollment: EnrollmentReport) -> Finding {
        let name = "enrollment"
        if enrollment.state == "enroll-again" {
            return .fault(
                name, "\(enrollment.name): the exchange no longer lets this gateway in",
                "edge-gateway enroll LINK with a new invitation of this patient")
        }
        if let held = enrollment.held {
            return .fault(
                name, "\(enrollment.name) is held: \(held)",
                HoldReason(rawValue: held) == .noConsent
                    ? "the patient consents at the exchange; delivery resumes by itself"
                    : "docs/operations.md, \"Why a delivery is held\"")
        }
        return .ok(name, "\(enrollment.name) delivers, \(enrollment.pending) wait")
    }
}
