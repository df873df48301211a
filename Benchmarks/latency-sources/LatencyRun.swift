import Figures
import Foundation
import Testbed

/// A gateway with eight straps, each of a patient of its own, and an exchange that answers in half a second.
struct LatencyRun {
    /// What frames took from the bus to the answer, in seconds.
    struct Latency: Codable {
        var frames: Int
        var median: Double
        var percentile99: Double
        var longest: Double
        var requestsPerMinute: Double
        /// What the gateway writes to the disk at this pace, in whole pages as the disk gets them, without the file
        /// system's own journal.
        var writtenMegabytesADay: Double
        /// Observations that are there twice or belong to nobody.
        var faults: Int
    }

    private static let straps = (1...8).map { "C0:00:00:00:00:0\($0)" }
    private static let answerTime = Duration.milliseconds(500)
    /// Pairing and connecting eight straps takes a few seconds.
    private static let startSecondsMax = 120
    /// What waited while the straps were paired is delivered by then, at an interval of 30 s, too.
    private static let warmUp = Duration.seconds(65)

    let binary: URL
    /// For how long frames are looked at.
    let time: Duration

    func latency(settings: [String: String]) async throws -> Latency {
        let bus = try await PrivateBus.start()
        let heart = try RecordedHeart.oneHour()
        let bluez = try await SimulatedBlueZ.start(
            on: bus,
            straps: Self.straps.enumerated().map {
                SimulatedStrap(
                    address: $1, name: "Strap \($0 + 1)", heart: heart, firstBeat: $0 * 500)
            })
        let exchange = try await StandInExchange.start(
            seed: .withPatients(Self.straps.count))
        let gateway = try GatewayProcess(
            binary: binary, busAddress: bus.address, settings: settings)
        return try await gateway.removed {
            try await begin(gateway, exchange, bluez)
            return try await measure(exchange, of: gateway)
        } then: {
            await exchange.stop()
            await bluez.stop()
            await bus.stop()
        }
    }

    private func begin(
        _ gateway: GatewayProcess, _ exchange: StandInExchange, _ bluez: SimulatedBlueZ
    ) async throws {
        try await gateway.start()
        for (number, strap) in Self.straps.enumerated() {
            let link = await exchange.invite(patient: ExchangeSeed.patient(number))
            let name = "e\(number)"
            try await gateway.succeed(["enroll", "-", "--name", name], input: link)
            try await gateway.succeed(["pair", strap, "--enrollment", name])
        }
        let isStreaming = await bluez.wait(atMost: .seconds(Self.startSecondsMax)) { bluez in
            Self.straps.allSatisfy { bluez.isSubscribed($0) }
        }
        guard isStreaming else { throw FixtureFault(description: "not all straps are recorded") }
        await exchange.inject(.slow(Self.answerTime), on: [.bundle], for: .untilCleared)
        try await Task.sleep(for: Self.warmUp)
    }

    private func measure(
        _ exchange: StandInExchange, of gateway: GatewayProcess
    ) async throws -> Latency {
        let before = await exchange.storedCount()
        let writtenBefore = try await Self.written(by: gateway)
        await exchange.forgetRequests()
        try await Task.sleep(for: time)
        let written = try await Self.written(by: gateway) - writtenBefore
        let stored = await exchange.stored.dropFirst(before)
        let requests = await exchange.requests.count { $0.entries != nil }
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        // An observation is stored when the half second is over, right before the answer.
        let ages = try stored.map { one -> Double in
            guard let text = one.effectiveTime else {
                throw FixtureFault(description: "an observation without a time")
            }
            return one.storedAt.timeIntervalSince(try style.parse(text))
        }.sorted()
        guard let longest = ages.last else { throw FixtureFault(description: "nothing came") }
        return Latency(
            frames: ages.count, median: ages[ages.count / 2],
            percentile99: ages[ages.count * 99 / 100],
            longest: longest, requestsPerMinute: Double(requests) / (time / .seconds(60)),
            writtenMegabytesADay: Double(written) / 1e6 * (.seconds(86400) / time),
            faults: await exchange.duplicates.count + exchange.orphans)
    }

    /// Bytes that the gateway has written to the disk so far: `write_bytes` of proc(5).
    private static func written(by gateway: GatewayProcess) async throws -> Int {
        guard let process = await gateway.processID,
            let text = try? String(contentsOfFile: "/proc/\(process)/io", encoding: .utf8),
            let found = text.firstMatch(of: /(?m)^write_bytes: (\d+)$/), let bytes = Int(found.1)
        else { throw FixtureFault(description: "the gateway's /proc/PID/io cannot be read") }
        return bytes
    }
}
