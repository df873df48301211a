import Hummingbird

/// The paths of sensors. No path and no query holds an address.
struct PairingRoutes {
    let sensors: Sensors
    let scanning: ScanService
    let pairing: PairingService
    let questions: PairingQuestions

    func add(to router: RouteBook) {
        router.get("v1/sensors") { query in
            try await sensors.reports(
                includingForgotten: query.flag("forgotten"), isForPerson: true)
        }
        router.post("v1/scan") { (scan: ScanRequest) in
            try await scanning.scan(seconds: scan.seconds)
        }
        router.post("v1/pair") { [pairing] request, _ in
            let session = PairingSession()
            return try await request.body.consumeWithInboundCloseHandler { body in
                var request = request
                request.body = body
                return try await Answers.answer(request) { (pair: PairRequest) in
                    try await pairing.pair(pair, session)
                }
            } onInboundClosed: {
                Task { await session.abandon() }
            }
        }
        router.post("v1/pairing/question") { (ask: PairingQuestionRequest) in
            try await questions.question(of: ask.address)
        }
        router.post("v1/pairing/answer") { (ask: PairingAnswerRequest) in
            try await questions.answer(ask, of: ask.address)
        }
        router.post("v1/forget") { (forget: ForgetRequest) in
            try await pairing.forget(address: forget.address)
        }
    }
}
