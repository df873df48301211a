/// The next thing to do on a gateway that is not set up yet. `status`, `watch`, the live page and `setup` all show
/// this one.
struct NextStep: Codable, Equatable {
    /// A step of the way from the box to the first delivered heartbeat.
    enum Step: String, Codable {
        case enroll, pair, wear, deliver
    }

    var step: Step
    /// The missing thing, in one line.
    var message: String
    /// The remedy, in one line.
    var advice: String

    /// The first step that is still to do; nil once a heartbeat has been delivered.
    init?(_ status: StatusReport) {
        if status.enrollments.isEmpty, status.destinations.isEmpty {
            self.init(
                step: .enroll, message: "this gateway delivers nowhere yet",
                advice: "edge-gateway setup, or edge-gateway enroll LINK")
        } else if status.sensors.isEmpty {
            self.init(
                step: .pair, message: "no strap is paired",
                advice: "edge-gateway setup, or edge-gateway scan, then edge-gateway pair STRAP")
        } else if status.sensors.allSatisfy({ $0.enrollment == nil }),
            status.destinations.allSatisfy({ $0.straps == 0 })
        {
            self.init(
                step: .pair, message: "no strap delivers anywhere",
                advice: "edge-gateway setup, or edge-gateway pair STRAP once more")
        } else if status.balance.received == 0, status.sensors.allSatisfy({ $0.bpm == nil }) {
            self.init(
                step: .wear, message: "no heartbeat has come yet",
                advice:
                    "wear the strap, moisten its electrodes, and end its connection to phones and watches"
            )
        } else if status.delivered == 0, status.health.isEmpty {
            self.init(
                step: .deliver, message: "no heartbeat has been delivered yet",
                advice: "wait a minute; edge-gateway queue drain waits for it")
        } else {
            return nil
        }
    }

    private init(step: Step, message: String, advice: String) {
        self.step = step
        self.message = message
        self.advice = advice
    }
}

extension StatusReport {
    /// Samples that have been delivered, wherever.
    var delivered: Int {
        enrollments.reduce(0) { $0 + $1.delivered } + destinations.reduce(0) { $0 + $1.delivered }
    }
}
