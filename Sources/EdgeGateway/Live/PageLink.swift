import Health

/// Where the live page can be reached, for links to it.
struct PageLink: Sendable {
    let settings: Settings
    let services: ServiceStates

    /// - Throws: ``ProblemReport`` while the page is off or cannot be opened.
    func place() throws -> PagePlace {
        if let part = services.fault(of: ServerName.page.rawValue) {
            throw ProblemReport(
                code: .noPage,
                message: "the live page cannot be opened: \(part.name): \(part.fault ?? "")",
                advice: "fix that; the gateway tries again by itself")
        }
        guard let place = settings.pagePlace else {
            throw ProblemReport(
                code: .noPage, message: "the live page is off",
                advice: "set page.listen, such as 127.0.0.1:8470, and restart the daemon")
        }
        return place
    }

    /// Its address for people: what `page.url` says, or the place itself.
    func url(_ place: PagePlace) -> String { settings.pageURL ?? place.url }
}
