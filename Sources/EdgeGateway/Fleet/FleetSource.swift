import Foundation

/// Where the fleet's screen comes from: gateways that are asked, or a broker that has heard from them.
protocol FleetSource: Actor {
    /// The report so far.
    func report() async -> FleetHostsReport
    /// A fresh report.
    func poll() async -> FleetHostsReport
    /// Waits until the screen should be drawn anew.
    func wait(for pause: Duration) async
    /// Keeps what is known for the next run.
    ///
    /// - Throws: ``CommandFailure`` if it cannot be written.
    func keep() throws
}

/// One gateway of a screen: what distinguishes it from others, and what the operator calls it.
struct FleetSubject: Equatable, Sendable {
    /// The key that it is remembered by: a name may be given to another machine.
    var address: String
    /// Nil: as the gateway calls itself.
    var name: String?
    var labels: [String: String] = [:]
    /// The name to use while neither is known.
    var spareName: String?
}

extension FleetHostsReport {
    /// A gateway may call itself as another one does; on the screen each is another. A strap that two of them have is an
    /// item of both.
    init(
        time: Date, rows: [FleetGateway], of subjects: [FleetSubject], _ memory: inout FleetMemory
    ) {
        var rows = rows
        let counts = Dictionary(grouping: rows, by: \.name).mapValues(\.count)
        for index in rows.indices where counts[rows[index].name] ?? 0 > 1 {
            rows[index].name += " at " + subjects[index].address
        }
        memory.findShared(in: &rows, at: time)
        self.init(time: time, gateways: rows)
    }
}
