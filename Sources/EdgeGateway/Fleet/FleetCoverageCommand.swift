import ArgumentParser
import Basics
import Foundation
import OfflineQueue
import Uplink

struct FleetCoverageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coverage",
        abstract:
            "Lists how much of each day every strap of every gateway has data for, and why not more.",
        discussion: """
            It lists each UTC day that the chosen time touches, 31 at most; without a time the last \
            7 and today. A gateway that could not be asked has a row as well, and so has a day about \
            which it said nothing. Gateways at a broker publish their last 8 days each quarter of an \
            hour, one with some hundred straps fewer; those that the broker has forgotten since an \
            earlier run have a row. Exits with 0 only if every day of every gateway is known and \
            none is below the target.

            Examples:
              edge-gateway fleet coverage --hosts hosts.yaml --last 7d --target 95
              edge-gateway fleet coverage --hosts hosts.yaml --day yesterday --utc
              edge-gateway fleet coverage --mqtt mqtts://broker.example --csv > week.csv
            """)

    @OptionGroup var place: FleetPlace
    @OptionGroup var range: TimeRange
    @OptionGroup var goal: CoverageTarget
    @Flag(help: "Print CSV instead of text.")
    var csv = false

    func validate() throws {
        guard !(csv && place.json) else { throw ValidationError("choose one of --csv and --json") }
    }

    func run() async throws {
        let now = Date()
        let days = try Self.days(range, now: now, place.times)
        let file = try place.memoryFile()
        let memory = file?.read() ?? FleetMemory()
        let answers =
            if let hosts = try place.knownHosts() {
                await Self.ask(hosts, place.allowPlainHttp, days)
            } else {
                await Self.read(try place.broker(.coverage), memory)
            }
        let table = FleetCoverageTable(answers, memory, days: days, at: now)
        if let file {
            var memory = memory
            for (subject, reply) in answers { memory.see(subject, reply, at: now) }
            memory.forget(at: now)
            // Without the file the next run lacks a name; this one is right all the same.
            do { try file.write(memory) } catch {
                Terminal.complain("note: \((error as? CommandFailure)?.message ?? "\(error)")")
            }
        }
        try show(table)
    }

    private func show(_ table: FleetCoverageTable) throws {
        let low = table.rows.map { goal.isMissed(by: $0.figures?.percent) }
        if csv {
            Terminal.print(table.csv.joined(separator: "\n"))
        } else if place.json {
            try Terminal.printJSON(table)
        } else {
            Terminal.printTable(
                FleetCoverageTable.header, table.cells,
                free: ["GATEWAY", "STRAP", "WITHOUT DATA BECAUSE OF"],
                alarms: zip(low, table.rows).map { $0 || $1.isUnknown })
            let unknown = table.rows.count(where: \.isUnknown)
            let verdict = [
                goal.verdict(low), unknown > 0 ? "\(unknown) not known, or not to its end" : nil,
            ].compactMap(\.self)
            if !verdict.isEmpty { Terminal.print("\n" + verdict.joined(separator: "; ")) }
        }
        if !table.isComplete || low.contains(true) {
            throw ExitCode(CommandExit.notWell.rawValue)
        }
    }

    /// Where the days of UTC begin that the range touches, none of them to come.
    static func days(_ range: TimeRange, now: Date, _ times: LocalTimes) throws -> [Date] {
        func day(_ date: Date) -> Int {
            Int(bounding: (date.timeIntervalSince1970 / 86_400).rounded(.down))
        }
        let (since, until) = try range.instants(now: now, times)
        let first = day(since ?? min(now, until ?? now) - 7 * 86_400)
        let last = min(day(now), until.map { day($0 - 0.001) } ?? .max)
        guard first <= last else { throw ValidationError("that time is to come") }
        guard last - first < GapService.daysMax else {
            throw ValidationError("that touches more than \(GapService.daysMax) days of UTC")
        }
        return (first...last).map { Date(timeIntervalSince1970: Double($0) * 86_400) }
    }

    private static func ask(
        _ hosts: [FleetHost], _ allowsPlainHTTP: Bool, _ days: [Date]
    ) async -> [(FleetSubject, FleetReply<FleetCoverageReport>)] {
        let bounds = [days.first, days.last.map { $0 + 86_400 }]
            .map { Int64($0?.timeIntervalSince1970 ?? 0) }
        let replies: [FleetReply<FleetCoverageReport>] =
            await FleetTransports(allowsPlainHTTP: allowsPlainHTTP).ask(
                hosts, FleetCoverageReport.path + "?since=\(bounds[0])&until=\(bounds[1])")
        return Array(zip(hosts.map(\.subject), replies))
    }

    private static func read(
        _ watch: BrokerWatch, _ memory: FleetMemory
    ) async -> [(FleetSubject, FleetReply<FleetCoverageReport>)] {
        let broker = FleetSubject(address: "\(watch.place)/\(watch.prefix)", name: watch.place)
        do throws(DestinationProblem) {
            return answers(try await watch.read(), broker, memory)
        } catch {
            return answers(error, broker, memory)
        }
    }

    /// A broker that does not answer leaves every gateway unknown.
    static func answers(
        _ problem: DestinationProblem, _ broker: FleetSubject, _ memory: FleetMemory
    ) -> [(FleetSubject, FleetReply<FleetCoverageReport>)] {
        ([broker] + remembered(memory, at: broker)).map {
            ($0, .fault(.noAnswer, detail: problem.message, remedy: problem.advice))
        }
    }

    /// The gateways that earlier runs met at this broker.
    private static func remembered(
        _ memory: FleetMemory, at broker: FleetSubject
    ) -> [FleetSubject] {
        let root = broker.address + "/"
        return memory.entries.sorted { $0.key < $1.key }.compactMap { address, entry in
            let name = address.dropFirst(root.count)
            guard address.hasPrefix(root), !name.isEmpty, !name.contains("/") else { return nil }
            return FleetSubject(address: address, spareName: entry.name)
        }
    }

    /// The reports at a broker, and the gateways that it has forgotten.
    static func answers(
        _ states: BrokerStates, _ broker: FleetSubject, _ memory: FleetMemory
    ) -> [(FleetSubject, FleetReply<FleetCoverageReport>)] {
        var answers: [(FleetSubject, FleetReply<FleetCoverageReport>)] = []
        for (name, gateway) in states.gateways.sorted(by: { $0.key < $1.key }) {
            let name = Printable.line(name)
            let subject = FleetSubject(address: "\(broker.address)/\(name)", spareName: name)
            let missing: FleetReply<FleetCoverageReport> =
                gateway.isTooLarge
                ? .fault(
                    .unusable, detail: "its coverage is larger than any gateway publishes",
                    remedy: "update it, or ask its page: --hosts")
                : .fault(
                    .unusable, detail: "the broker has no coverage of it",
                    remedy: "set status=on at its destination, or update it")
            answers.append((subject, gateway.report.map { FleetReply(message: $0) } ?? missing))
        }
        let known = Set(answers.map(\.0.address))
        for subject in remembered(memory, at: broker) where !known.contains(subject.address) {
            answers.append(
                (
                    subject,
                    .fault(
                        .noAnswer, detail: "the broker has nothing of it any more",
                        remedy: "if it was removed: it is forgotten after 30 days")
                ))
        }
        if answers.isEmpty {
            answers.append(
                (
                    broker,
                    .fault(
                        .unusable,
                        detail: "the broker has no gateway's state below \(states.prefix)/",
                        remedy: "compare --prefix and --user with the gateways' destinations")
                ))
        }
        if states.isFull {
            answers.append(
                (
                    FleetSubject(address: broker.address + "/", name: broker.name),
                    .fault(
                        .unusable,
                        detail: "more than \(BrokerStates.gatewaysMax) gateways",
                        remedy: "give each part of the fleet a prefix of its own")
                ))
        }
        return answers
    }
}
