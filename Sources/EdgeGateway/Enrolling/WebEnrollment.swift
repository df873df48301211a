import Basics
import Foundation

/// `enroll --web`: a phone hands over the invitation link through a page that works once.
struct WebEnrollment {
    /// How often the command asks whether the phone has done so.
    private static let period = Duration.seconds(1)

    let daemon: DaemonOptions

    /// - Throws: ``CommandFailure`` when no phone came in time.
    func run(name: String?, resolution: String?) async throws -> EnrollmentReport {
        let client = try daemon.client()
        let page: ShareReport = try await client.post(
            "/v1/enroll-web", WebEnrollRequest(name: name, resolution: resolution),
            timeout: .seconds(10))
        if daemon.json {
            // The result alone goes to standard output.
            Terminal.write(page.link + "\n")
        } else {
            ShareCommand.show(page)
        }
        Terminal.write("open it on the phone and paste the invitation link; waiting\n")
        var told: ProblemReport?
        while true {
            let report: WebEnrollmentReport = try await client.get("/v1/enroll-web")
            if let enrollment = report.enrollment { return enrollment }
            if let problem = report.problem, problem != told {
                Terminal.complain("\(problem.message)\n  \(problem.advice)")
                told = problem
            }
            guard report.state == "waiting" else {
                throw CommandFailure(
                    exitCode: .notWell,
                    message: "the page has ended; make a new one: edge-gateway enroll --web")
            }
            await UptimeClock.system.sleep(Self.period)
            try Task.checkCancellation()
        }
    }
}
