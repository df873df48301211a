import Foundation

/// Reads what the exchange answers to a bundle or to a single observation (docs/develop/exchange.md).
extension ExchangeDestination {
    func readBundle(_ answer: HTTPAnswer, count: Int) -> DeliveryAnswer {
        guard answer.status == 200 else { return readRefusal(answer) }
        do {
            return .entries(try BundleAnswer(answer.body, count: count).entries)
        } catch {
            return .unclear("\(error)")
        }
    }

    func readSingle(_ answer: HTTPAnswer) -> DeliveryAnswer {
        switch answer.status {
        case 201: return .entries([EntryAnswer(status: 201, diagnostics: "", endpoint: .single)])
        case 400, 403, 409, 422:
            let diagnostics = OperationOutcome.diagnostics(answer.body)
            // Without the exchange's own document the status comes from another server.
            guard !diagnostics.isEmpty else { return readRefusal(answer) }
            return .entries([
                EntryAnswer(status: answer.status, diagnostics: diagnostics, endpoint: .single)
            ])
        default: return readRefusal(answer)
        }
    }

    /// A request that was refused as a whole.
    private func readRefusal(_ answer: HTTPAnswer) -> DeliveryAnswer {
        switch answer.status {
        case 413: return .tooLarge
        // The proxy before the exchange had no answer from it.
        case 502, 504: return .unanswered(String(answer.status))
        case 429, 503:
            return .throttled(retryAfter: RetryAfter.pause(answer.retryAfter, date: answer.date))
        // Anything else that is not a document of the exchange says nothing about the request.
        case _ where !answer.isDocument: return .unclear(String(answer.status))
        case 400:
            let text = String(decoding: answer.body.prefix(500), as: UTF8.self)
            let isOurs =
                text.contains("resource.valueAttachment.data") || text.contains("JSON parse error")
            return isOurs ? .malformed : .held(.requestRefused, retryAt: nil)
        case 405, 406, 411, 415: return .held(.requestRefused, retryAt: nil)
        default: return .unclear(String(answer.status))
        }
    }
}
