import Foundation

/// A request as a client in the same process sees it.
public enum InProcessAnswer: Sendable {
    /// The whole answer.
    case answer(status: Int, headers: [(name: String, value: String)], body: [UInt8])
    /// The connection broke; whether the work is done is not known.
    case cut
    /// Nothing comes.
    case silence
}

/// The stand-in without a network: for simulations with a time of their own.
extension StandInExchange {
    /// Makes one whose requests come by ``answer(method:target:headers:body:)`` alone, at a port that is the same each time.
    ///
    /// - Parameter randomSeed: chooses the codes and tokens that it gives out.
    public static func inProcess(
        version: ExchangeVersion = .head, seed: ExchangeSeed = .standard, time: ExchangeTime,
        randomSeed: UInt64
    ) -> StandInExchange {
        StandInExchange(
            reservation: nil, version: version, seed: seed, time: time, randomSeed: randomSeed)
    }

    /// Answers a request as its server does.
    ///
    /// - Parameters:
    ///   - target: path and query.
    ///   - headers: with their names in lower case.
    public func answer(
        method: String, target: String, headers: [(String, String)], body: [UInt8]
    ) async -> InProcessAnswer {
        let (answer, delivery) = await handle(
            ExchangeRequest(
                method: method, host: host, target: target, headers: headers, body: body))
        return switch delivery {
        case .whole:
            .answer(status: answer.status, headers: answer.headers, body: answer.body)
        case .none, .partial: .cut
        case .silence: .silence
        }
    }
}
