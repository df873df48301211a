import Hummingbird

/// The paths of enrollments.
struct EnrollmentRoutes {
    let enrollments: Enrollments
    let enrolling: EnrollmentService
    let webEnrolling: WebEnrollmentService

    func add(to router: RouteBook) {
        router.get("v1/enrollments") { [enrollments] _, _ in
            try await Answers.answer { try await enrollments.reports() }
        }
        router.post("v1/enroll") { [enrolling] request, _ in
            try await Answers.answer(request) { (enroll: EnrollRequest) in
                try await enrolling.enroll(enroll)
            }
        }
        router.post("v1/enroll-web") { [webEnrolling] request, _ in
            try await Answers.answer(request) { (ask: WebEnrollRequest) in
                try await webEnrolling.begin(ask)
            }
        }
        router.get("v1/enroll-web") { [webEnrolling] _, _ in
            try await Answers.answer { await webEnrolling.state() }
        }
    }
}
