import Hummingbird

/// The paths of enrollments on the control socket.
struct EnrollmentRoutes {
    let enrollments: Enrollments
    let health: HealthMonitor
    let enrolling: EnrollmentService
    let webEnrolling: WebEnrollmentService

    func add(to router: RouteBook) {
        router.get("v1/enrollments") { [enrollments, health] _, _ in
            try await Answers.answer {
                await health.items().noted(in: try await enrollments.reports())
            }
        }
        router.post("v1/enroll") { [enrolling] request, _ in
            try await Answers.answer(request) { (enroll: EnrollRequest) in
                try await enrolling.enroll(enroll)
            }
        }
        router.post("v1/confirm-patient") { [enrolling] request, _ in
            try await Answers.answer(request) { (ask: ConfirmPatientRequest) in
                try await enrolling.confirmPerson(ask)
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

/// The path by which a phone hands an invitation link over, on the page's server.
struct EnrollOnceRoutes {
    let webEnrolling: WebEnrollmentService

    func add(to router: RouteBook) {
        router.post("v1/enroll-once") { [webEnrolling] request, _ in
            try await Answers.answer(request) { (ask: EnrollOnceRequest) in
                try await webEnrolling.enroll(once: ask)
            }
        }
    }
}
