extension HealthRules {
    /// Two gateways of one name, if a memory card was copied.
    static func board(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        guard snapshot.isOtherBoard else { return [] }
        let whole = HealthCondition(
            .boardChanged,
            message: "the gateway's store was on another board before; if its memory card was "
                + "copied, two gateways have one name",
            stopsHeartbeats: false)
        return [whole]
            + snapshot.deliveries.filter(\.waitsForBoard).map { delivery in
                HealthCondition(
                    .boardChanged, subject: delivery.name, deliveries: [delivery.name],
                    message:
                        "\(delivery.name): nothing is published under this gateway's name until "
                        + "a person has confirmed the board; samples are kept")
            }
    }

    /// Parts of the daemon that should run and do not.
    static func services(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.services.compactMap { service in
            guard let fault = service.fault else { return nil }
            return HealthCondition(
                service.isPage ? .pageUnavailable : .serviceStopped, subject: service.name,
                message: "\(service.name): \(fault)")
        }
    }

    /// Messages that did not reach whom they are for.
    static func alerts(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.alerts.map { alert in
            HealthCondition(
                .alertNotDelivered, subject: alert.name,
                message: "\(alert.name): nothing has arrived for \(age(alert.undeliveredTime)): "
                    + alert.fault)
        }
    }
}
