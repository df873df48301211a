import Basics
import Logging
import OfflineQueue

/// What is known of the patient's consent to RR intervals. It is asked for when there are some to
/// send, and kept nowhere: a consent can be withdrawn while the gateway is off.
enum IntervalConsent {
    case unknown
    case given(ObservationCode)
    case refused(until: Uptime)

    var code: ObservationCode? {
        if case .given(let code) = self { code } else { nil }
    }
}

extension ExchangeDestination {
    /// How long a refusal of RR intervals is believed before the consents are read again.
    static let intervalRefusal = Duration.seconds(3_600)

    /// Whether the patient has consented to them, asked of the exchange unless that is known; true if it
    /// does not say. The patients of a practitioner differ from sample to sample, and so do their consents:
    /// they send none.
    public func mayTakeIntervals() async -> Bool {
        guard terms.kind == .invitation else { return false }
        _ = await learnIntervalCode()
        guard case .refused(let until) = intervals else { return true }
        return clock.read().uptime >= until
    }

    func isWanted(_ point: OutgoingPoint) -> Bool {
        !point.point.isInterval || intervals.code != nil
    }

    func refuseIntervals() {
        intervals = .refused(
            until: clock.read().uptime + Self.intervalRefusal)
    }

    /// Reads the consents unless they are known; if they cannot be read, what that means for the samples.
    func learnIntervalCode() async -> DeliveryAnswer? {
        switch intervals {
        case .given: return nil
        case .refused(let until) where clock.read().uptime < until: return nil
        default: break
        }
        guard terms.kind == .invitation, let patient = terms.patient else {
            refuseIntervals()
            return nil
        }
        let token: AccessToken
        do {
            token = try await tokens.token()
        } catch {
            lastFault = .noToken
            return error.answer
        }
        do {
            let code = try await reader.intervalCode(patient: patient, token: token.secret)
            if let code {
                intervals = .given(code)
                forgetWriters()
                logger.info("RR intervals are consented to")
            } else {
                refuseIntervals()
            }
        } catch .unauthorized {
            await tokens.refused(token)
            return .notSent(retryAt: nil)
        } catch .transport(let fault) {
            lastFault = .transport(fault, host: host)
            return .notSent(retryAt: nil)
        } catch {
            // An exchange that cannot tell takes none; the heart rate does not wait for it.
            refuseIntervals()
        }
        return nil
    }
}
