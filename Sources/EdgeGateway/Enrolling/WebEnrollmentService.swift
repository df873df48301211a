import Foundation
import OfflineQueue

/// Enrolling from a phone: one page is in force at a time, and takes one invitation link.
actor WebEnrollmentService {
    private let enrolling: EnrollmentService
    private let page: PageLink
    private var handover = OneTimeEnrollment()

    init(enrolling: EnrollmentService, page: PageLink) {
        self.enrolling = enrolling
        self.page = page
    }

    /// Lets a phone hand an invitation link over, once.
    func begin(_ ask: WebEnrollRequest) throws -> ShareReport {
        let place = try page.place()
        // Now, not when a person waits with a phone.
        try enrolling.check(ask)
        let expires = Date().addingTimeInterval(OneTimeEnrollment.seconds)
        let code = handover.begin(ask, expires: expires)
        return ShareReport(
            link: page.url(place) + "/enroll#" + code, expires: expires,
            loopbackOnly: place.isLoopback)
    }

    /// The state of the page.
    func state() -> WebEnrollmentReport { handover.report(at: Date()) }

    /// A phone hands a link over.
    func enroll(once ask: EnrollOnceRequest) async throws -> EnrollOnceReport {
        guard let request = handover.take(ask.code, link: ask.link, at: Date()) else {
            throw ProblemReport(
                code: .badToken, message: "this page is no longer valid",
                advice: "ask the technician for a new one: edge-gateway enroll --web")
        }
        do {
            let report = try await enrolling.enroll(request)
            handover.finish(ask.code, .success(report))
            return EnrollOnceReport(name: report.name, exchange: report.exchange)
        } catch {
            let problem =
                (error as? QueueError).map { ProblemReport($0) } ?? error as? ProblemReport
            handover.finish(ask.code, problem.map { .failure($0) })
            throw error
        }
    }
}

/// The handing over of one invitation link from a phone. A value: its owner passes the time in.
struct OneTimeEnrollment {
    /// A person finds a phone and a link in this time, seconds.
    static let seconds = 600.0
    /// Wrong links that may be pasted before the page ends.
    static let triesMax = 5

    private var code: String?
    private var request: WebEnrollRequest?
    private var expires = Date.distantPast
    private var tries = 0
    /// Whether a link from the page is being used; the page takes no other one meanwhile.
    private var isTaken = false
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

    /// The request to enroll with; nil if the code is not the one in force. ``finish(_:_:)`` follows.
    mutating func take(_ code: String, link: String, at now: Date) -> EnrollRequest? {
        guard let mine = self.code, let request, code.isSameSecret(as: mine), now < expires,
            tries < Self.triesMax, !isTaken
        else { return nil }
        tries += 1
        isTaken = true
        return EnrollRequest(
            link: link, name: request.name, resolution: request.resolution)
    }

    /// Ends the use of the link that came from the page with this code. `result` is nil after a failure that has no
    /// words for a person. If another page has replaced that one, nothing changes.
    mutating func finish(_ code: String, _ result: Result<EnrollmentReport, ProblemReport>?) {
        guard code == self.code else { return }
        isTaken = false
        guard let result else { return }
        self.result = result
        if case .success = result { self.code = nil }
    }

    func report(at now: Date) -> WebEnrollmentReport {
        switch result {
        case .success(let enrollment):
            WebEnrollmentReport(state: "enrolled", enrollment: enrollment)
        case .failure(let problem) where isTaken || tries < Self.triesMax && now < expires:
            WebEnrollmentReport(state: "waiting", problem: problem)
        case .failure(let problem): WebEnrollmentReport(state: "ended", problem: problem)
        case nil:
            WebEnrollmentReport(
                state: isTaken || code != nil && now < expires ? "waiting" : "ended")
        }
    }
}
