import Basics
import Foundation
import Uplink

/// Asks the gateways of a hosts file, many at once, and remembers what they said.
actor FleetPoller: FleetSource {
    /// Connections at once. Those that do not answer hold theirs until the time-out.
    static let atOnceMax = 32
    /// A gateway at the end of a mobile network answers within this time.
    static let connectTimeout = Duration.seconds(4)
    /// For the whole answer.
    static let answerTimeout = Duration.seconds(8)

    /// The longest that one round of questions may take.
    static func roundMax(of count: Int) -> Duration { answerTimeout * (count / atOnceMax + 1) }

    private let hosts: [FleetHost]
    private let transports: FleetTransports
    private let file: FleetMemoryFile?
    private var memory: FleetMemory
    private var latest: FleetHostsReport?
    private var round: Task<FleetHostsReport, Never>?

    /// - Parameter file: where the memory is kept; nil: nowhere.
    init(_ hosts: [FleetHost], allowsPlainHTTP: Bool, file: FleetMemoryFile?) {
        self.hosts = hosts
        self.file = file
        transports = FleetTransports(allowsPlainHTTP: allowsPlainHTTP)
        memory = file?.read() ?? FleetMemory()
    }

    /// The present state; the first question, if nothing was asked yet.
    func report() async -> FleetHostsReport {
        guard let latest else { return await poll() }
        return latest
    }

    /// Asks every gateway once. Who comes while they are asked waits for the same answers.
    func poll() async -> FleetHostsReport {
        if let round { return await round.value }
        let asking = Task { note(await transports.ask(hosts, FleetReport.path)) }
        round = asking
        let report = await asking.value
        round = nil
        return report
    }

    private func note(_ answers: [FleetAnswer]) -> FleetHostsReport {
        let now = Date()
        let subjects = hosts.map(\.subject)
        let rows = zip(subjects, answers).map { memory.note($1, of: $0, at: now) }
        memory.forget(at: now)
        let report = FleetHostsReport(time: now, rows: rows, of: subjects, &memory)
        latest = report
        return report
    }

    /// Nothing comes unasked.
    func wait(for pause: Duration) async { await UptimeClock.system.sleep(pause) }

    /// Keeps what is known for the next run.
    ///
    /// - Throws: ``CommandFailure`` if it cannot be written.
    func keep() throws { try file?.write(memory) }
}

/// The transports that are not in use. Each has a thread and the authorities it read, so they are used again.
actor FleetTransports {
    private let allowsPlainHTTP: Bool
    private var idle: [(settings: CurlSettings, transport: CurlTransport)] = []

    init(allowsPlainHTTP: Bool) { self.allowsPlainHTTP = allowsPlainHTTP }

    /// The answers at this path with its query, in the order of the hosts.
    nonisolated func ask<Report>(
        _ hosts: [FleetHost], _ path: String
    ) async -> [FleetReply<Report>] {
        var answers = [FleetReply<Report>?](repeating: nil, count: hosts.count)
        await withTaskGroup(of: (Int, FleetReply<Report>).self) { group in
            var next = 0
            func askNext() {
                guard next < hosts.count else { return }
                let index = next
                next += 1
                group.addTask { (index, await self.ask(hosts[index], path)) }
            }
            for _ in 0..<FleetPoller.atOnceMax { askNext() }
            for await (index, answer) in group {
                answers[index] = answer
                askNext()
            }
        }
        return answers.compactMap(\.self)
    }

    private nonisolated func ask<Report>(
        _ host: FleetHost, _ path: String
    ) async -> FleetReply<Report> {
        var settings = CurlSettings()
        settings.plainHTTP = allowsPlainHTTP ? .allowed : .loopback
        settings.authorityFile = host.authorityFile
        settings.connectTimeout = FleetPoller.connectTimeout
        settings.totalTimeout = FleetPoller.answerTimeout
        settings.answerBytesMax = Report.bytesMax
        let transport = await take(settings)
        var request = HTTPRequest(.get, host.origin, path)
        if let token = host.token { request = request.authorized(by: token) }
        let result: Result<HTTPAnswer, TransportFault>
        do throws(TransportFault) {
            result = .success(try await transport.send(request))
        } catch {
            result = .failure(error)
        }
        await giveBack(transport, settings)
        return FleetReply(result)
    }

    private func take(_ settings: CurlSettings) -> CurlTransport {
        guard let index = idle.lastIndex(where: { $0.settings == settings }) else {
            return CurlTransport(settings)
        }
        return idle.remove(at: index).transport
    }

    private func giveBack(_ transport: CurlTransport, _ settings: CurlSettings) {
        idle.append((settings, transport))
        if idle.count > FleetPoller.atOnceMax { idle.removeFirst() }
    }
}
