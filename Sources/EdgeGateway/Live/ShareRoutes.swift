import Hummingbird

/// The paths of links to the live page.
struct ShareRoutes {
    let sharing: ShareService

    func add(to router: RouteBook) {
        router.post("v1/share") { [sharing] request, _ in
            try await Answers.answer(request) { (ask: ShareRequest) in
                try await sharing.share(ask)
            }
        }
        router.post("v1/share/stop") { [sharing] _, _ in
            try await Answers.answer { try await sharing.stop() }
        }
    }
}
