import Basics
import Logging
import OfflineQueue

/// The known state of the patient's consent to RR intervals. It is asked for when there are some to
/// send, and kept nowhere: a consent can be withdrawn while the gateway is off.
enum IntervalConsent {
    case unknown
    case given(ObservationCode)
    case refused(IntervalRefusal, until: Uptime)

    var code: ObservationCode? {
        if case .given(let code) = self { code } else { nil }
    }
}

/// Why no RR intervals are sent.
enum IntervalRefusal: Hashable {
    /// No study of the patient asks for them.
    case notAsked
    /// The patient has not consented, or withdrew.
    case noConsent
    /// The exchange does not know their code.
    case codeUnknown
    /// The exchange does not tell what the patient has consented to.
    case consentsUnreadable

    /// How long a refusal is believed before the consents are read again: where a person may change it any moment,
    /// as long as between two looks at any other reason to hold; a study is changed once in its life.
    var believed: Duration { self == .notAsked ? .seconds(600) : .seconds(60) }

    /// Why an interval was not sent, in the books.
    var reason: HoldReason { self == .codeUnknown ? .codeUnknown : .noConsent }

    /// The message for a person; nil where nothing is wrong.
    var words: String? {
        switch self {
        case .notAsked: nil
        case .noConsent:
            "RR intervals are not sent: the patient has not consented to them, or withdrew"
        case .codeUnknown: "RR intervals are not sent: the exchange does not know their code"
        case .consentsUnreadable:
            "RR intervals are not sent: the exchange does not tell whether the patient has consented "
                + "to them"
        }
    }
}

extension ExchangeDestination {
    /// RR intervals that are not sent.
    public var partialFault: String? {
        if case .refused(let why, _) = intervals { why.words } else { nil }
    }

    /// Whether the patient has consented to them, asked of the exchange unless that is known; true if it
    /// does not say. The patients of a practitioner differ from sample to sample, and so do their consents:
    /// they send none.
    public func mayTakeIntervals() async -> Bool {
        guard terms.kind == .invitation else { return false }
        _ = await learnIntervalCode()
        guard case .refused(_, let until) = intervals else { return true }
        return clock.read().uptime >= until
    }

    /// Why a data point is not to be sent; nil if it is.
    func refusal(of point: OutgoingPoint) -> HoldReason? {
        guard point.point.isInterval, intervals.code == nil else { return nil }
        if case .refused(let why, _) = intervals { return why.reason }
        return .noConsent
    }

    func refuseIntervals(_ why: IntervalRefusal) {
        let isNew = if case .refused(why, _) = intervals { false } else { true }
        if isNew, let words = why.words { logger.notice("\(words)") }
        intervals = .refused(why, until: clock.read().uptime + why.believed)
    }

    /// Reads the consents unless they are known; if they cannot be read, what that means for the samples.
    func learnIntervalCode() async -> DeliveryAnswer? {
        switch intervals {
        case .given: return nil
        case .refused(_, let until) where clock.read().uptime < until: return nil
        default: break
        }
        guard terms.kind == .invitation, let patient = terms.patient else {
            refuseIntervals(.notAsked)
            return nil
        }
        let token: AccessToken
        do {
            token = try await tokens.token()
        } catch {
            lastFault = .noToken(error.cause)
            return error.answer()
        }
        do {
            switch try await reader.intervals(of: patient, token: token.secret) {
            case .consented(let code):
                intervals = .given(code)
                forgetWriters()
                logger.info("RR intervals are consented to")
            case .asked: refuseIntervals(.noConsent)
            case .notAsked:
                // A consent of a moment ago was withdrawn, whether or not a study lists it still.
                if case .refused(.noConsent, _) = intervals {
                    refuseIntervals(.noConsent)
                } else {
                    refuseIntervals(.notAsked)
                }
            }
        } catch .unauthorized {
            await refused(token)
            return .notSent(retryAt: nil)
        } catch .redirect(let redirect) {
            lastFault = .redirect(redirect)
            return .held(.moved, retryAt: nil)
        } catch {
            guard Self.isAnswer(error) else {
                lastFault = fault(error)
                return .notSent(retryAt: nil)
            }
            // An exchange that cannot tell takes none; the heart rate does not wait for it.
            refuseIntervals(.consentsUnreadable)
        }
        return nil
    }
}
