import ArgumentParser

/// The words that a shell offers for names that only the daemon knows; nothing, if it is not there.
extension CompletionKind {
    /// A person waits for the answer with a finger on the tab key.
    private static let timeout = Duration.seconds(2)

    /// The addresses of paired straps, by ``ControlClient``: a name may have blanks, which shells split.
    static var strap: CompletionKind {
        .custom { (_: [String], _: Int, _: String) async -> [String] in
            let sensors: [SensorReport] = await ask("/v1/sensors")
            return sensors.map(\.address)
        }
    }

    /// The names of enrollments.
    static var enrollmentName: CompletionKind {
        .custom { (_: [String], _: Int, _: String) async -> [String] in
            let enrollments: [EnrollmentReport] = await ask("/v1/enrollments")
            return enrollments.map(\.name)
        }
    }

    /// The names of destinations.
    static var destinationName: CompletionKind {
        .custom { (_: [String], _: Int, _: String) async -> [String] in
            let destinations: [DestinationReport] = await ask("/v1/destinations")
            return destinations.map(\.name)
        }
    }

    /// The names of alerts.
    static var alertName: CompletionKind {
        .custom { (_: [String], _: Int, _: String) async -> [String] in
            let alerts: [AlertReport] = await ask("/v1/alerts")
            return alerts.map(\.name)
        }
    }

    private static func ask<Report: Decodable>(_ path: String) async -> [Report] {
        guard let settings = try? SettingsLoader().load(path: nil) else { return [] }
        let client = ControlClient(socketPath: settings.socketPath)
        return (try? await client.get(path, timeout: timeout)) ?? []
    }
}
