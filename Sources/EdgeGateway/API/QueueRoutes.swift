import Foundation
import Hummingbird

/// The paths of the store. No path and no query holds an address, a name or a patient.
extension ControlServer {
    func addQueueRoutes(to router: Router<PeerContext>) {
        router.get("v1/queue") { [gateway] _, _ in
            try await Answers.answer { try await gateway.queueReport() }
        }
        router.get("v1/queue/samples") { [gateway] request, _ in
            let query = request.uri.queryParameters
            return try await Answers.answer {
                try await gateway.samples(
                    state: query["state"].map { String($0) }, sensor: Self.number(query["sensor"]),
                    limit: Self.number(query["limit"]).map(Int.init) ?? 100)
            }
        }
        router.get("v1/queue/boots") { [gateway] _, _ in
            try await Answers.answer { try await gateway.unvouchedBoots() }
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
            let limit = Self.number(request.uri.queryParameters["limit"])
            return try await Answers.answer {
                try await gateway.history(limit: limit.map(Int.init) ?? 50)
            }
        }
        router.get("v1/history/hours") { [gateway] request, _ in
            let query = request.uri.queryParameters
            return try await Answers.answer {
                try await gateway.hours(
                    sensor: Self.number(query["sensor"]),
                    hours: Self.number(query["hours"]).map(Int.init) ?? 24)
            }
        }
        addDeadLetterRoutes(to: router)
        addImportRoutes(to: router)
    }

    private func addDeadLetterRoutes(to router: Router<PeerContext>) {
        router.get("v1/queue/dead") { [gateway] request, _ in
            let query = request.uri.queryParameters
            return try await Answers.answer {
                try await gateway.deadLetters(
                    before: Self.number(query["before"]),
                    limit: Self.number(query["limit"]).map(Int.init) ?? 100)
            }
        }
        router.get("v1/queue/dead/:id") { [gateway] _, context in
            let id = context.parameters.get("id").flatMap { Int64($0) } ?? -1
            return try await Answers.answer { try await gateway.deadLetter(id) }
        }
        router.post("v1/queue/dead/requeue") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: DeadLettersRequest) in
                try await gateway.requeue(ask)
            }
        }
        router.post("v1/queue/dead/purge") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: DeadLettersRequest) in
                SampleCountReport(samples: try await gateway.purgeDead(ask))
            }
        }
    }

    private func addImportRoutes(to router: Router<PeerContext>) {
        router.post("v1/queue/import/part") { [gateway] request, _ in
            let query = request.uri.queryParameters
            let upload = query["upload"].map { String($0) }
            let offset = Self.number(query["offset"]) ?? 0
            let body = try await request.body.collect(upTo: ImportDesk.partBytesMax)
            return try await Answers.answer {
                try await gateway.importDesk.add(
                    [UInt8](body.readableBytesView), at: offset, upload: upload)
            }
        }
        router.post("v1/queue/import") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: ImportRequest) in
                try await gateway.importSamples(ask)
            }
        }
        router.get("v1/queue/import") { [gateway] _, _ in
            try await Answers.answer { await gateway.importDesk.progress }
        }
    }

    private static func number(_ text: Substring?) -> Int64? { text.flatMap { Int64($0) } }
}
