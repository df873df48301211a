import Foundation
import Hummingbird

/// The paths of the store. No path and no query holds an address, a name or a patient.
extension ControlServer {
    func addQueueRoutes(to router: RouteBook) {
        router.get("v1/queue") { [gateway] _, _ in
            try await Answers.answer { try await gateway.queueReport() }
        }
        router.get("v1/queue/samples") { [gateway] request, _ in
            let query = Query(request)
            return try await Answers.answer {
                try await gateway.samples(
                    state: query.text("state"), sensor: query.number("sensor"),
                    limit: Int(query.number("limit") ?? 100))
            }
        }
        router.get("v1/queue/boots") { [gateway] _, _ in
            try await Answers.answer { try await gateway.untrustedBoots() }
        }
        router.post("v1/queue/release") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: ReleaseRequest) in
                try await gateway.release(ask)
            }
        }
        router.post("v1/queue/purge") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: PurgeRequest) in
                try await gateway.purge(ask)
            }
        }
        router.post("v1/queue/acknowledge") { [gateway] _, _ in
            try await Answers.answer { try await gateway.acknowledgeSalvages() }
        }
        router.get("v1/history") { [gateway] request, _ in
            try await Answers.answer {
                try await gateway.history(limit: Int(Query(request).number("limit") ?? 50))
            }
        }
        router.get("v1/history/hours") { [gateway] request, _ in
            let query = Query(request)
            return try await Answers.answer {
                try await gateway.hours(
                    sensor: query.number("sensor"),
                    hours: Int(query.number("hours") ?? 24))
            }
        }
        addDeadLetterRoutes(to: router)
        addImportRoutes(to: router)
    }

    private func addDeadLetterRoutes(to router: RouteBook) {
        router.get("v1/queue/dead") { [gateway] request, _ in
            let query = Query(request)
            return try await Answers.answer {
                try await gateway.deadLetters(
                    before: query.number("before"),
                    limit: Int(query.number("limit") ?? 100))
            }
        }
        router.get("v1/queue/dead/{id}") { [gateway] _, context in
            guard let id = context.parameters.get("id").flatMap({ Int64($0) }) else {
                return try Answers.json(.badRequest)
            }
            return try await Answers.answer { try await gateway.deadLetter(id) }
        }
        router.post("v1/queue/dead/requeue") { [gateway] request, _ in
            try await Answers.answer(request, bytesMax: Answers.lettersBytesMax) {
                (ask: DeadLettersRequest) in
                try await gateway.requeue(ask)
            }
        }
        router.post("v1/queue/dead/purge") { [gateway] request, _ in
            try await Answers.answer(request, bytesMax: Answers.lettersBytesMax) {
                (ask: DeadLettersRequest) in
                SampleCountReport(samples: try await gateway.purgeDead(ask))
            }
        }
    }

    private func addImportRoutes(to router: RouteBook) {
        router.post("v1/queue/import/part") { [gateway] request, _ in
            let query = Query(request)
            let upload = query.text("upload")
            let offset = try query.number("offset") ?? 0
            try Answers.check(request, type: "application/octet-stream")
            let body = try await request.body.collect(upTo: ImportSession.partBytesMax)
            return try await Answers.answer {
                try await gateway.importSession.add(
                    [UInt8](body.readableBytesView), at: offset, upload: upload)
            }
        }
        router.post("v1/queue/import") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: ImportRequest) in
                try await gateway.importSamples(ask)
            }
        }
        router.get("v1/queue/import") { [gateway] _, _ in
            try await Answers.answer { await gateway.importSession.progress }
        }
    }
}
