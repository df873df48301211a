import Hummingbird

/// The path of erasing. No path and no query holds a patient.
struct EraseRoutes {
    let erasing: EraseService

    func add(to router: RouteBook) {
        router.post("v1/erase") { (erase: EraseRequest) in try await erasing.erase(erase) }
    }
}
