import Hummingbird

/// The paths of enrollments on the control socket.
struct EnrollmentRoutes {
    let enrollments: Enrollments
    let health: HealthMonitor
    let enrolling: EnrollmentService
    let webEnrolling: WebEnrollmentService

    func add(to router: RouteBook) {
        router.get("v1/enrollments") {
            await health.items().noted(in: try await enrollments.reports())
        }
        router.post("v1/enroll") { (enroll: EnrollRequest) in try await enrolling.enroll(enroll) }
        router.post("v1/confirm-patient") { (ask: ConfirmPatientRequest) in
            try await enrolling.confirmPerson(ask)
        }
        router.post("v1/enroll-web") { (ask: WebEnrollRequest) in
            try await webEnrolling.begin(ask)
        }
        router.get("v1/enroll-web") { await webEnrolling.state() }
    }
}

/// The path by which a phone hands an invitation link over, on the page's server.
struct EnrollOnceRoutes {
    let webEnrolling: WebEnrollmentService

    func add(to router: RouteBook) {
        router.post("v1/enroll-once") { (ask: EnrollOnceRequest) in
            try await webEnrolling.enroll(once: ask)
        }
    }
}
