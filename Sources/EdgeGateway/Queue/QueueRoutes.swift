import Foundation
import Hummingbird

/// The paths of the store. No path and no query holds an address, a name or a patient.
struct QueueRoutes {
    let store: QueueService
    let assigning: AssignService
    let redelivery: RedeliveryService
    let deadLetters: DeadLetterService
    let imports: ImportService
    let history: HistoryService

    func add(to router: RouteBook) {
        router.get("v1/queue") { try await store.report() }
        router.get("v1/queue/samples") { query in
            try await store.samples(
                state: query.text("state"), sensor: query.number("sensor"),
                since: query.instant("since"), until: query.instant("until"),
                limit: Int(query.number("limit") ?? 100))
        }
        router.get("v1/queue/boots") { try await store.untrustedBoots() }
        router.post("v1/queue/release") { (ask: ReleaseRequest) in try await store.release(ask) }
        router.get("v1/queue/assignments") { try await assigning.unbound() }
        router.post("v1/queue/assign") { (ask: AssignRequest) in try await assigning.assign(ask) }
        router.post("v1/queue/discard") { (ask: DiscardRequest) in
            try await assigning.discard(ask)
        }
        router.post("v1/queue/redeliver") { (ask: RedeliverRequest) in
            try await redelivery.redeliver(ask)
        }
        router.post("v1/queue/purge") { (ask: PurgeRequest) in try await store.purge(ask) }
        router.post("v1/queue/acknowledge") { try await store.acknowledgeSalvages() }
        router.get("v1/history") { query in
            try await history.requests(
                destination: query.number("destination"), since: query.instant("since"),
                until: query.instant("until"), limit: Int(query.number("limit") ?? 50))
        }
        router.get("v1/history/hours") { query in
            try await history.hours(
                sensor: query.number("sensor"),
                hours: Int(query.number("hours") ?? 24))
        }
        addDeadLetterRoutes(to: router)
        addImportRoutes(to: router)
    }

    private func addDeadLetterRoutes(to router: RouteBook) {
        router.get("v1/queue/dead") { query in
            try await deadLetters.list(
                destination: query.number("destination"), before: query.number("before"),
                limit: Int(query.number("limit") ?? 100))
        }
        router.get("v1/queue/dead/{id}") { [deadLetters] _, context in
            guard let id = context.parameters.get("id").flatMap({ Int64($0) }) else {
                return try Answers.json(.badRequest)
            }
            return try await Answers.answer { try await deadLetters.letter(id) }
        }
        router.post("v1/queue/dead/requeue", bytesMax: Answers.lettersBytesMax) {
            (ask: DeadLettersRequest) in
            try await deadLetters.requeue(ask)
        }
        router.post("v1/queue/dead/purge", bytesMax: Answers.lettersBytesMax) {
            (ask: DeadLettersRequest) in
            SampleCountReport(samples: try await deadLetters.purge(ask))
        }
    }

    private func addImportRoutes(to router: RouteBook) {
        router.post("v1/queue/import/part") { [imports] request, _ in
            let query = Query(request)
            let upload = query.text("upload")
            let offset = try query.number("offset") ?? 0
            try Answers.check(request, type: "application/octet-stream")
            let body = try await request.body.collect(upTo: ImportSession.partBytesMax)
            return try await Answers.answer {
                try await imports.session.add(
                    [UInt8](body.readableBytesView), at: offset, upload: upload)
            }
        }
        router.post("v1/queue/import") { (ask: ImportRequest) in
            try await imports.importSamples(ask)
        }
        router.get("v1/queue/import") { await imports.session.progress }
    }
}
