/// Where the live page can be reached, for links to it.
struct PageLink: Sendable {
    let settings: Settings
    let servers: ServerStates

    /// - Throws: ``ProblemReport`` while the page is off or cannot be opened.
    func place() throws -> PagePlace {
        if let fault = servers.faults.first(where: { $0.server == .page }) {
            throw ProblemReport(
                code: .noPage, message: "the live page cannot be opened: \(fault.reason)",
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
