import Foundation
import OfflineQueue

/// Links for viewers and for phones.
extension Gateway {
    /// Makes a link to the live page with heart rates only.
    func share(_ ask: ShareRequest) async throws -> ShareReport {
        let place = try pagePlace()
        guard Shares.hoursRange.contains(ask.hours) else {
            throw ProblemReport(
                code: .badRequest,
                message: "a share lasts from 1 to \(Shares.hoursRange.upperBound) hours",
                advice: "edge-gateway share --hours 24")
        }
        var sensor: Sensor?
        if let address = ask.address {
            sensor = try await knownSensors().first { $0.address == address.uppercased() }
            guard sensor != nil else {
                throw ProblemReport(
                    code: .unknownSensor, message: "no such sensor",
                    advice: "edge-gateway sensors lists them")
            }
        }
        let now = Date()
        let expires = now.addingTimeInterval(Double(ask.hours) * 3600)
        let share = try await shares.make(sensor: sensor?.id, expires: expires, at: now)
        return ShareReport(
            link: pageURL(place) + "/#" + share.token, expires: expires,
            loopbackOnly: place.isLoopback)
    }

    /// Ends all shares.
    func stopShares() async throws -> ShareStopReport {
        ShareStopReport(stopped: try await shares.stop(at: Date()))
    }

    /// Lets a phone hand an invitation link over, once.
    func beginWebEnrollment(_ ask: WebEnrollRequest) async throws -> ShareReport {
        let place = try pagePlace()
        // Now, not when somebody stands there with a phone.
        try Self.check(resolution: ask.resolution)
        let expires = Date().addingTimeInterval(OneTimeEnrollment.seconds)
        let code = webEnrollment.begin(ask, expires: expires)
        return ShareReport(
            link: pageURL(place) + "/enroll#" + code, expires: expires,
            loopbackOnly: place.isLoopback)
    }

    /// How the handing over stands.
    func webEnrollmentState() -> WebEnrollmentReport { webEnrollment.report(at: Date()) }

    /// A phone hands a link over.
    func enroll(once ask: EnrollOnceRequest) async throws -> EnrollOnceReport {
        guard let request = webEnrollment.take(ask.code, link: ask.link, at: Date()) else {
            throw ProblemReport(
                code: .badToken, message: "this page is no longer in force",
                advice: "ask the technician for a new one: edge-gateway enroll --web")
        }
        do {
            let report = try await enroll(request)
            webEnrollment.finish(.success(report))
            return EnrollOnceReport(name: report.name, exchange: report.exchange)
        } catch let problem as ProblemReport {
            webEnrollment.finish(.failure(problem))
            throw problem
        }
    }

    private func pagePlace() throws -> PagePlace {
        if let fault = servers.faults.first(where: { $0.server == .page }) {
            throw ProblemReport(
                code: .noPage, message: "the live page cannot be opened: \(fault.reason)",
                advice: "mend that; it is tried again by itself")
        }
        guard let place = settings.pagePlace else {
            throw ProblemReport(
                code: .noPage, message: "the live page is off",
                advice: "set page.listen, such as 127.0.0.1:8470, and restart the daemon")
        }
        return place
    }

    private func pageURL(_ place: PagePlace) -> String { settings.pageURL ?? place.url }
}

/// The handing over of one invitation link from a phone. A value: whoever owns it gives the time.
struct OneTimeEnrollment {
    /// A person finds a phone and a link in this time, seconds.
    static let seconds = 600.0
    /// Wrong links that may be pasted before the page ends.
    static let triesMax = 5

    private var code: String?
    private var request: WebEnrollRequest?
    private var expires = Date.distantPast
    private var tries = 0
    private var result: Result<EnrollmentReport, ProblemReport>?

    /// A new page; an earlier one ends.
    mutating func begin(_ ask: WebEnrollRequest, expires: Date) -> String {
        let code = Shares.token()
        self = OneTimeEnrollment()
        self.code = code
        request = ask
        self.expires = expires
        return code
    }

    /// What to enroll with; nil if the code is not the one in force.
    mutating func take(_ code: String, link: String, at now: Date) -> EnrollRequest? {
        guard let mine = self.code, let request, code.isSameSecret(as: mine), now < expires,
            tries < Self.triesMax
        else { return nil }
        tries += 1
        return EnrollRequest(
            link: link, name: request.name, resolution: request.resolution)
    }

    mutating func finish(_ result: Result<EnrollmentReport, ProblemReport>) {
        self.result = result
        if case .success = result { code = nil }
    }

    func report(at now: Date) -> WebEnrollmentReport {
        switch result {
        case .success(let enrollment):
            WebEnrollmentReport(state: "enrolled", enrollment: enrollment)
        case .failure(let problem) where tries < Self.triesMax && now < expires:
            WebEnrollmentReport(state: "waiting", problem: problem)
        case .failure(let problem): WebEnrollmentReport(state: "ended", problem: problem)
        case nil: WebEnrollmentReport(state: code != nil && now < expires ? "waiting" : "ended")
        }
    }
}
