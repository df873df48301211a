import Basics
import Foundation
import OfflineQueue
import Uplink

/// Name service, TLS and the exchanges, token and consent; and the other destinations.
struct ExchangeChecks {
    /// A reachable exchange answers this question in a moment.
    private static let timeout = Duration.seconds(10)

    let settings: Settings
    /// The daemon's status; nil if it does not run.
    let status: StatusReport?

    func run() async -> [Finding] {
        guard let status else { return [noDaemon()] }
        var findings = [
            Finding.ok("daemon", "\(status.version), up \(Terminal.age(status.uptimeSeconds))")
        ]
        if status.enrollments.isEmpty, status.destinations.isEmpty {
            findings.append(
                .warning(
                    "enrollment", "none yet: nothing is sent", "edge-gateway enroll LINK"))
        }
        for exchange in Set(status.enrollments.map(\.exchange)).sorted() {
            findings.append(await reach(exchange))
        }
        return findings + status.enrollments.map(Self.enrollment)
            + status.destinations.map(Self.destination)
    }

    private func noDaemon() -> Finding {
        let obstacle = ControlClient.Obstacle(at: settings.socketPath)
        if case .notPermitted = obstacle {
            return .unknown(
                "daemon", "no answer at \(settings.socketPath): \(obstacle.why)", obstacle.advice)
        }
        return .fault(
            "daemon", "the daemon does not answer at \(settings.socketPath)",
            "systemctl start edge-gateway; journalctl -u edge-gateway")
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
            if let redirect = Redirect(answer, of: origin) {
                return Self.moved(exchange, redirect)
            }
            return (200..<500).contains(answer.status)
                ? .ok(name, "\(exchange) answers")
                : .warning(
                    name, "\(exchange) answers with \(answer.status)",
                    "tell its operator; samples wait meanwhile")
        } catch {
            return .fault(name, "\(exchange): \(error)", Self.remedy(error))
        }
    }

    static func moved(_ exchange: String, _ redirect: Redirect) -> Finding {
        .fault(
            "exchange", "\(exchange) \(redirect)",
            redirect.enrollAdvice)
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
        let waiting = "\(enrollment.pending) wait"
        if enrollment.state == Enrollment.State.enrollAgain.rawValue {
            let again =
                enrollment.kind == "practitioner-key"
                ? "edge-gateway enroll --practitioner-key-file FILE --name \(enrollment.name.shellWord)"
                : "edge-gateway enroll LINK with a new invitation of this patient"
            guard let fault = enrollment.fault else {
                return .fault(
                    name, "\(enrollment.name): the exchange no longer lets this gateway in", again)
            }
            return .fault(
                name, "\(enrollment.name): \(fault), \(waiting)", readable(orElse: again))
        }
        if let held = enrollment.held {
            return .fault(
                name,
                "\(enrollment.name) is held: \(held)" + (enrollment.fault.map { ", \($0)" } ?? ""),
                HoldReason(rawValue: held).map { "\($0.remedy); delivery resumes by itself" }
                    ?? "docs/operate/operations.md, \"Why a delivery is held\"")
        }
        if let fault = enrollment.fault {
            return .fault(
                name, "\(enrollment.name): \(fault), \(waiting)",
                DestinationRegistry.faultRemedy)
        }
        if let fault = enrollment.partialFault {
            return .warning(
                name, "\(enrollment.name) delivers, \(waiting); \(fault)",
                "the patient consents at the exchange, or ask its operator; the gateway looks every "
                    + "minute")
        }
        return .ok(name, "\(enrollment.name) delivers, \(waiting)")
    }

    static func destination(_ destination: DestinationReport) -> Finding {
        let name = "destination"
        let waiting = "\(destination.pending) wait"
        let kind = try? DestinationRegistry.kind(destination.kind)
        if destination.state == Enrollment.State.enrollAgain.rawValue {
            let again =
                "edge-gateway destination add with its settings and --name \(destination.name.shellWord)"
            return .fault(
                name,
                "\(destination.name): "
                    + (destination.fault ?? "this gateway is no longer authorized there")
                    + ", \(waiting)",
                destination.fault == nil ? again : readable(orElse: again))
        }
        if destination.state == HoldReason.paused.rawValue {
            return .warning(
                name, "\(destination.name) is paused, \(waiting)",
                "edge-gateway destination resume \(destination.name.shellWord)")
        }
        if let held = destination.held {
            return .fault(
                name,
                "\(destination.name) is held: \(held), "
                    + (destination.fault.map { "\($0), " } ?? "") + waiting,
                HoldReason(rawValue: held).map { kind?.remedy($0) ?? $0.remedy }
                    ?? "docs/operate/operations.md, \"Why a delivery is held\"")
        }
        if let fault = destination.fault {
            return .fault(
                name, "\(destination.name): \(fault), \(waiting)",
                kind?.faultRemedy ?? DestinationRegistry.faultRemedy)
        }
        if let fault = destination.partialFault {
            return .warning(
                name, "\(destination.name): \(fault)",
                "edge-gateway destination show \(destination.name.shellWord)")
        }
        return .ok(name, "\(destination.name) delivers, \(waiting)")
    }

    /// The remedy for tokens or secrets that this machine cannot read.
    private static func readable(orElse again: String) -> String {
        "the log names the file: correct its owner and mode, it is used within a minute; if it is lost: "
            + again
    }
}
