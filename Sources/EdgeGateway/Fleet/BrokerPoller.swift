import Basics
import Foundation
import Uplink

/// The screen of all gateways that publish their state at one broker.
actor BrokerPoller: FleetSource {
    private let watch: BrokerWatch
    private let file: FleetMemoryFile?
    private var memory: FleetMemory
    private var latest: FleetHostsReport?
    private var screen: BrokerScreen

    /// - Parameter file: where the memory is kept; nil: nowhere.
    init(_ watch: BrokerWatch, file: FleetMemoryFile?) {
        self.watch = watch
        self.file = file
        memory = file?.read() ?? FleetMemory()
        screen = BrokerScreen(place: watch.place, prefix: watch.prefix)
    }

    func report() async -> FleetHostsReport {
        guard let latest else { return await poll() }
        return latest
    }

    func poll() async -> FleetHostsReport {
        let outcome: Result<BrokerStates, DestinationProblem>
        do throws(DestinationProblem) {
            outcome = .success(try await watch.read())
        } catch {
            outcome = .failure(error)
        }
        let now = Date()
        let report = screen.report(outcome, &memory, at: now)
        memory.forget(at: now)
        latest = report
        return report
    }

    func wait(for pause: Duration) async { await watch.wait(for: pause) }

    func keep() throws { try file?.write(memory) }
}

/// The reports of a broker, as rows. Without I/O.
struct BrokerScreen {
    /// A gateway publishes once a minute: three are missing.
    static let staleTime: TimeInterval = 180

    let place: String
    let prefix: String
    /// The last reports of the broker: while it does not answer, it still tells how old that is.
    private var states: BrokerStates?

    init(place: String, prefix: String) {
        self.place = place
        self.prefix = prefix
    }

    /// The rows at `now`. A broker that does not answer, or knows no gateway, is a row itself.
    mutating func report(
        _ outcome: Result<BrokerStates, DestinationProblem>, _ memory: inout FleetMemory,
        at now: Date
    ) -> FleetHostsReport {
        var subjects: [FleetSubject] = []
        var rows: [FleetGateway] = []
        func add(_ answer: FleetAnswer, _ subject: FleetSubject) {
            subjects.append(subject)
            rows.append(memory.note(answer, of: subject, at: now))
        }
        let broker = FleetSubject(address: "\(place)/\(prefix)", name: place)
        switch outcome {
        case .success(let found):
            states = found
            if found.gateways.isEmpty {
                add(
                    .fault(
                        .unusable, detail: "the broker has no gateway's state below \(prefix)/",
                        remedy: "compare prefix and user with the gateways' destinations "
                            + "of the kind mqtt; docs/operate/fleet.md"), broker)
            }
            if found.isFull {
                add(
                    .fault(
                        .unusable,
                        detail: "more than \(BrokerStates.gatewaysMax) gateways; the others are "
                            + "not shown",
                        remedy: "give each part of the fleet a prefix of its own"),
                    FleetSubject(address: broker.address + "/", name: place))
            }
        case .failure(let problem):
            add(.fault(.noAnswer, detail: problem.message, remedy: problem.advice), broker)
        }
        for (name, gateway) in (states?.gateways ?? [:]).sorted(by: { $0.key < $1.key }) {
            let name = Printable.line(name)
            let subject = FleetSubject(address: "\(place)/\(prefix)/\(name)", spareName: name)
            subjects.append(subject)
            rows.append(row(gateway, subject, &memory, now))
        }
        return FleetHostsReport(time: now, rows: rows, of: subjects, &memory)
    }

    private func row(
        _ gateway: BrokerStates.Gateway, _ subject: FleetSubject, _ memory: inout FleetMemory,
        _ now: Date
    ) -> FleetGateway {
        let answer = FleetAnswer(gateway)
        // A message that came just now is of now, whatever the gateway's clock says.
        var heard = gateway.heard
        var known: FleetGateway?
        if case .report(let report) = answer {
            let said = heard ?? min(report.time ?? now, now)
            heard = said
            known = memory.note(answer, of: subject, at: said)
        }
        if gateway.isOnline == false {
            return memory.note(
                .fault(
                    .noAnswer, detail: "its connection to the broker ended",
                    remedy: "is it switched on, and its network up? then: systemctl status "
                        + "edge-gateway"), of: subject, at: now)
        }
        if let heard, now.timeIntervalSince(heard) > Self.staleTime {
            return memory.note(
                .fault(
                    .noAnswer, detail: "it has not published its state for three minutes",
                    remedy: "look at its clock, and at edge-gateway destination list there"),
                of: subject, at: now)
        }
        return known ?? memory.note(answer, of: subject, at: now)
    }
}

extension FleetAnswer {
    /// The last report of a gateway at a broker.
    fileprivate init(_ gateway: BrokerStates.Gateway) {
        if let report = gateway.report {
            self.init(message: report)
        } else {
            self = .fault(
                .unusable,
                detail: gateway.isTooLarge
                    ? "its state is too large" : "it is online, and the broker has no state of it",
                remedy: "set status=on at its destination, or update it; another client may write "
                    + "there: see the broker's rules")
        }
    }
}
