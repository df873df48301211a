import Testbed

/// The real systems in addition to the exchange.
actor DemoDestinations {
    /// Those that run, in the order in which they were asked for.
    private(set) var all: [any DestinationSystem] = []

    /// Starts one of each kind.
    func start(_ kinds: [SystemKind]) async throws {
        for kind in kinds { all.append(try await kind.start()) }
    }

    /// Which systems are real, in one line.
    var description: String {
        "Beside it: " + all.map { "\($0.kind) (\($0.title))" }.joined(separator: ", ") + "."
    }

    /// For each system, the gateway's books and the system's own count.
    ///
    /// - Throws: `SystemFault`, when the gateway does not know one or one cannot be asked.
    func books(_ status: GatewayStatus) async throws -> [DestinationBooks] {
        var books: [DestinationBooks] = []
        for system in all {
            guard let destination = status.destinations.first(where: { $0.name == system.kind })
            else { throw SystemFault("the gateway does not know the destination \(system.kind)") }
            let counts: (stored: Int, repeated: Int)
            do {
                counts = try await system.counts()
            } catch {
                throw SystemFault(
                    "\(system.kind): \(system.title) does not say what it has: \(error)")
            }
            books.append(
                DestinationBooks(
                    destination, stored: status.balance.stored, system: system, counts: counts))
        }
        return books
    }

    /// Ends them.
    func stop() async {
        for system in all.reversed() { await system.stop() }
        all = []
    }
}
