import Basics
import Foundation
import Synchronization
import Testbed
import Uplink
import VirtualTime

/// The network between the gateway and the servers, which are in this process as well.
final class Network: Sendable {
    private typealias Continuation = CheckedContinuation<Result<HTTPAnswer, TransportFault>, Never>

    private struct State {
        var random: SeededRandom
        var isCut = false
        var waiting: [UInt64: Continuation] = [:]
        /// Of killed gateways.
        var killed: [Continuation] = []
        var number: UInt64 = 0
    }

    static let webhookHost = "hook.example"
    /// As CurlTransport's own.
    private static let timeout = Duration.seconds(60)

    let exchange: StandInExchange
    let webhook = WebhookStandIn()
    private let state: Mutex<State>
    private let trace: Trace

    init(exchange: StandInExchange, seed: UInt64, trace: Trace) {
        self.exchange = exchange
        self.trace = trace
        state = Mutex(State(random: SeededRandom(seed: seed)))
    }

    func setCut(_ isCut: Bool) { state.withLock { $0.isCut = isCut } }

    /// Ends all connections, as a router does that starts again. The servers go on with what they have.
    func reset() {
        for number in state.withLock({ $0.waiting.keys.sorted() }) { end(number, .failure(.cut)) }
    }

    /// The gateway was killed: its connections are gone, and the servers go on.
    func kill() {
        state.withLock { state in
            state.killed += state.waiting.values
            state.waiting = [:]
        }
    }

    func transport() -> any HTTPTransport { Transport(network: self) }

    private struct Transport: HTTPTransport {
        let network: Network

        func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer {
            try await network.send(request).get()
        }
    }

    private func send(_ request: HTTPRequest) async -> Result<HTTPAnswer, TransportFault> {
        let number = state.withLock { state in
            state.number += 1
            return state.number
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled { return continuation.resume(returning: .failure(.cancelled)) }
                state.withLock { $0.waiting[number] = continuation }
                Task(executorPreference: VirtualExecutors.world) {
                    await self.carry(request, number)
                }
                Task(executorPreference: VirtualExecutors.world) {
                    await self.pause(request.timeout ?? Self.timeout)
                    self.end(number, .failure(.timeout))
                }
            }
        } onCancel: {
            end(number, .failure(.cancelled))
        }
    }

    private func end(_ number: UInt64, _ result: Result<HTTPAnswer, TransportFault>) {
        state.withLock { $0.waiting.removeValue(forKey: number) }?.resume(returning: result)
    }

    private func pause(_ duration: Duration) async {
        await VirtualExecutors.time.sleep(duration, isOfGateway: false)
    }

    private var latency: Duration {
        state.withLock { state in
            .milliseconds(Int.random(in: 5...150, using: &state.random))
        }
    }

    private func isOpen(_ number: UInt64) -> Bool {
        state.withLock { $0.waiting[number] != nil && !$0.isCut }
    }

    private func carry(_ request: HTTPRequest, _ number: UInt64) async {
        await pause(latency)
        if state.withLock({ $0.isCut }) { return end(number, .failure(.connect)) }
        // A client that is gone has not sent all of it.
        guard isOpen(number) else { return }
        if let isInTime = request.isInTime, !isInTime() { return end(number, .failure(.tooLate)) }
        var headers = request.headers.map { ($0.name.lowercased(), $0.value) }
        headers.append(("accept", "application/json"))
        if let type = request.contentType { headers.append(("content-type", type)) }
        let answer: InProcessAnswer
        if request.origin.host == Self.webhookHost {
            answer = webhook.take(request)
        } else {
            answer = await exchange.answer(
                method: request.method.rawValue, target: request.target, headers: headers,
                body: request.body)
        }
        trace.note(
            "request \(request.method.rawValue) \(request.target.prefix { $0 != "?" }): \(answer.summary)"
        )
        await pause(latency)
        guard isOpen(number) else { return end(number, .failure(.cut)) }
        switch answer {
        case .cut: end(number, .failure(.cut))
        case .silence: break
        case .answer(let status, let headers, let body):
            var answer = HTTPAnswer(status: status, body: body)
            for (name, value) in headers { answer.fields[name.lowercased()] = value }
            end(number, .success(answer))
        }
    }
}

extension InProcessAnswer {
    fileprivate var summary: String {
        switch self {
        case .answer(let status, _, let body): "\(status), \(body.count) bytes"
        case .cut: "cut"
        case .silence: "silence"
        }
    }
}

/// A receiver of webhooks that keeps what it gets.
final class WebhookStandIn: Sendable {
    struct Point {
        var uuid: String
        var patient: String?
        var time: String
        var bpm: Double
    }

    private let points = Mutex<[Point]>([])
    private let isDown = Mutex(false)

    var received: [Point] { points.withLock { $0 } }
    func setDown(_ down: Bool) { isDown.withLock { $0 = down } }

    func take(_ request: HTTPRequest) -> InProcessAnswer {
        if isDown.withLock({ $0 }) { return .answer(status: 503, headers: [], body: []) }
        for line in request.body.split(separator: UInt8(ascii: "\n")) {
            guard let object = try? JSONSerialization.jsonObject(with: Data(line)),
                let entry = object as? [String: Any],
                let point = entry["data_point"] as? [String: Any],
                let uuid = (point["header"] as? [String: Any])?["uuid"] as? String,
                let body = point["body"] as? [String: Any],
                let bpm = (body["heart_rate"] as? [String: Any])?["value"] as? Double,
                let frame = body["effective_time_frame"] as? [String: Any],
                let time = frame["date_time"] as? String
            else { continue }
            points.withLock {
                $0.append(
                    Point(uuid: uuid, patient: entry["patient"] as? String, time: time, bpm: bpm))
            }
        }
        return .answer(status: 204, headers: [], body: [])
    }
}
