extension HealthRules {
    /// Parts of the daemon that should run and do not.
    static func services(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.services.compactMap { service in
            guard let fault = service.fault else { return nil }
            return HealthCondition(
                service.isPage ? .pageUnavailable : .serviceStopped, subject: service.name,
                message: "\(service.name): \(fault)")
        }
    }
}
