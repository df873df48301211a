import Hummingbird

/// `POST /v1/confirm-board`
struct BoardReport: Codable, Equatable {
    /// Whether the store was on another board before.
    var changed: Bool
}

/// The path by which a person confirms the board.
struct BoardRoutes {
    let board: BoardWatch
    let changes: EnrollmentChanges

    func add(to router: RouteBook) {
        router.post("v1/confirm-board") {
            let report = BoardReport(changed: await board.isOther)
            try await board.confirm()
            await changes.startMissingDeliveries()
            return report
        }
    }
}
