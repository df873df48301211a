import Figures
import Foundation
import Testbed

/// Lets the release gateway record and deliver eight straps in a time that runs fast, cuts its network
/// twice a day, and writes down each minute how it is, or each ten of several days (Benchmarks/soak).
@main
struct Soak {
    /// Begin and end of the times without a network, as parts of each day, or of the whole if that is shorter: of a
    /// day, three hours in the morning and six in the afternoon.
    private static let outages = [0.25..<0.375, 0.5..<0.75]
    private static let straps = (1...8).map { "C0:00:00:00:00:0\($0)" }
    private static let patient = 40001
    /// Pairing and connecting eight straps takes a few seconds of the host.
    private static let startSecondsMax = 120
    private static let dayMinutes = 24 * 60
    /// Minutes from one look to the next in runs of more than a day: a look starts a process.
    private static let longPause = 10
    /// How often a look is tried. A minute of the gateway's, which it gives a connection, is less than a second of a
    /// busy host.
    private static let lookTriesMax = 20
    /// The names of the columns.
    private static let header =
        "minute,anonymous_kib,resident_kib,heap_used_kib,heap_free_kib,waiting,behind_s,delivered,network"

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 5, let minutes = Int(words[2]), (10...100_000).contains(minutes),
            let speed = Int64(words[3]), (1...200).contains(speed)
        else { complain("usage: soak GATEWAY MINUTES SPEED CSV", status: 2) }
        do {
            try await Soak(URL(filePath: words[1]), speed: speed).play(minutes, into: words[4])
        } catch {
            complain("soak: \(error)", status: 1)
        }
    }

    private let clock: FastClock
    private let bus: PrivateBus
    private let bluez: SimulatedBlueZ
    private let exchange: StandInExchange
    private let gateway: GatewayProcess
    /// What heap.c writes.
    private let heapFile: String

    private init(_ binary: URL, speed: Int64) async throws {
        let bus = try await PrivateBus.start()
        let clock = try FastClock(
            speed: speed,
            path: FileManager.default.temporaryDirectory
                .appending(path: "soak-time-\(UInt32.random(in: 0 ... .max))").path,
            helpers: bus.processes)
        clock.setSynchronised()
        self.clock = clock
        self.bus = bus
        let heart = try RecordedHeart.oneHour()
        bluez = try await SimulatedBlueZ.start(
            on: bus,
            straps: Self.straps.enumerated().map {
                SimulatedStrap(
                    address: $1, name: "Strap \($0 + 1)", heart: heart, firstBeat: $0 * 500)
            }, pace: .following(clock))
        exchange = try await StandInExchange.start(time: clock.exchangeTime)
        heapFile = clock.path + "-heap"
        var variables = clock.variables
        // Benchmarks/soak builds it; without it the columns of the heap stay empty.
        let census = GatewayProcess.program("libheap.so").path
        if FileManager.default.fileExists(atPath: census) {
            variables["LD_PRELOAD", default: ""] += ":" + census
            variables["HEAP"] = heapFile
        }
        gateway = try GatewayProcess(
            binary: binary, busAddress: bus.address,
            settings: ["EDGE_GATEWAY_CLOCK_TRUST": "kernel"], daemonVariables: variables)
    }

    private func play(_ minutes: Int, into path: String) async throws {
        do {
            try await begin()
            try await record(minutes, into: path)
            await end()
        } catch {
            let log = gateway.logTail(lines: 10)
            await end()
            throw FixtureFault(description: "\(error)\n\(log)")
        }
    }

    private func begin() async throws {
        try await gateway.start()
        let link = await exchange.invite(patient: Self.patient)
        try await gateway.succeed(["enroll", "-", "--name", "soak"], input: link)
        for strap in Self.straps {
            try await gateway.succeed(["pair", strap, "--enrollment", "soak"])
        }
        let isStreaming = await bluez.wait(atMost: .seconds(Self.startSecondsMax)) { bluez in
            Self.straps.allSatisfy { bluez.isSubscribed($0) }
        }
        guard isStreaming else { throw FixtureFault(description: "not all straps are recorded") }
    }

    private func record(_ minutes: Int, into path: String) async throws {
        var text = Self.header + "\n"
        var isUp = true
        let start = clock.seconds
        let pause = minutes > Self.dayMinutes ? Self.longPause : 1
        for minute in stride(from: 0, to: minutes, by: pause) {
            await clock.sleep(until: start + Double(minute) * 60)
            let day = min(minutes, Self.dayMinutes)
            let part = Double(minute % day) / Double(day)
            let shallBeUp = !Self.outages.contains { $0.contains(part) }
            if shallBeUp != isUp {
                isUp = shallBeUp
                if isUp { try await exchange.restoreNetwork() } else { await exchange.cutNetwork() }
            }
            text += "\(minute),\(try await look()),\(isUp ? "up" : "cut")\n"
            await exchange.forgetRequests()
            await exchange.forgetStored()
            for strap in Self.straps { await bluez.forgetFramesSent(strap) }
            if minute % 60 == 0 { print(text.split(separator: "\n").last.map { String($0) } ?? "") }
            // What there is can be looked at meanwhile.
            try text.write(toFile: path, atomically: true, encoding: .utf8)
        }
    }

    /// One line, from the memory to what was delivered.
    private func look() async throws -> String {
        guard let pid = await gateway.processID else {
            throw FixtureFault(description: "the gateway died")
        }
        let memory = try ProcessFigures.memory(of: pid)
        let balance = try await status().balance
        let waiting = balance.unsent + balance.buffered
        return "\(memory.anonymousKiB),\(memory.residentKiB),\(heap()),\(waiting),"
            + "\(try await behind()),\(balance.delivered)"
    }

    /// KiB in use and KiB free, or nothing while they are being written.
    private func heap() -> String {
        let line = try? String(contentsOfFile: heapFile, encoding: .utf8)
        guard let line, line.hasSuffix("\n") else { return "," }
        return String(line.dropLast())
    }

    private func status() async throws -> GatewayStatus {
        for _ in 1..<Self.lookTriesMax {
            if let status = try? await gateway.status() { return status }
        }
        return try await gateway.status()
    }

    /// Seconds since the time of the sample that came last: they come oldest first.
    private func behind() async throws -> String {
        guard let last = await exchange.lastStored?.effectiveTime else { return "" }
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        let seconds = clock.date.timeIntervalSince(try style.parse(last))
        return String(format: "%.1f", seconds)
    }

    private func end() async {
        await gateway.remove()
        await exchange.stop()
        await bluez.stop()
        await bus.stop()
        clock.stop()
        for path in [clock.path, heapFile] { try? FileManager.default.removeItem(atPath: path) }
    }
}
