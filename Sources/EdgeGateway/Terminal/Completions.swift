import ArgumentParser

/// The words that a shell offers for names that only the daemon knows; nothing, if it is not there.
extension CompletionKind {
    /// A person waits for the answer with a finger on the tab key.
    private static let timeout = Duration.seconds(2)

    /// The addresses of paired straps, by ``ControlClient``: a name may have blanks, which shells split.
    static var strap: CompletionKind {
        words(at: "/v1/sensors") { (sensor: SensorReport) in sensor.address }
    }

    /// The names of enrollments.
    static var enrollmentName: CompletionKind {
        words(at: "/v1/enrollments") { (enrollment: EnrollmentReport) in enrollment.name }
    }

    /// The names of destinations.
    static var destinationName: CompletionKind {
        words(at: "/v1/destinations") { (destination: DestinationReport) in destination.name }
    }

    /// The names of alerts.
    static var alertName: CompletionKind {
        words(at: "/v1/alerts") { (alert: AlertReport) in alert.name }
    }

    /// A word for each report that the daemon lists at a path.
    private static func words<Report: Decodable & Sendable>(
        at path: String, _ word: @escaping @Sendable (Report) -> String
    ) -> CompletionKind {
        .custom { (_: [String], _: Int, _: String) async -> [String] in
            guard let settings = try? SettingsLoader().load(path: nil) else { return [] }
            let client = ControlClient(socketPath: settings.socketPath)
            let reports: [Report]? = try? await client.get(path, timeout: timeout)
            return (reports ?? []).map(word)
        }
    }
}
