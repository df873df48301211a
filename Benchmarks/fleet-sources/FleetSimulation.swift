import Foundation
import Uplink

/// `Benchmarks/fleet`: many gateways come back to an exchange after a day without network.
@main
struct FleetSimulation {
    private static let second: Int64 = 1_000_000
    private static let hour = 3600 * second
    private static let seed: UInt64 = 7
    /// How long after the outage it is looked whether all have caught up, hours.
    private static let patience: Int64 = 72

    /// Over all scenarios: samples given up, and times at which an exchange worked on two requests of
    /// one gateway.
    private var dead = 0
    private var overlaps = 0

    static func main() {
        var simulation = FleetSimulation()
        simulation.playAll()
    }

    private mutating func playAll() {
        compareIntervals()
        header("Every 30 s")
        for resolution in [Int64(1), 10, 60] {
            for gateways in [50, 100, 200, 500, 1000] { play(gateways, resolution) }
        }
        let near = [(100, Int64(1)), (200, 10), (500, 10), (1000, 60)]
        header("All switched on in the same second")
        for (gateways, resolution) in near {
            play(gateways, resolution) { $0.startsWithin = Self.second }
        }
        header("The same, with pauses that are not chosen by chance")
        for (gateways, resolution) in near {
            play(gateways, resolution) {
                $0.startsWithin = Self.second
                $0.isJittered = false
            }
        }
        header("Smaller bundles (uplink.batch_samples)")
        for (gateways, resolution) in near {
            for batch in [10, 25] {
                play(gateways, resolution) { $0.settings.batchSamplesMax = batch }
            }
        }
        header("Less often (uplink.interval_seconds)")
        for (gateways, resolution) in near + [(1000, Int64(10))] {
            for seconds in [Int64(120), 300] {
                play(gateways, resolution) { Self.fix(&$0, seconds) }
            }
        }
        several()
        print("\n\(dead) samples given up; \(overlaps) times two requests of one gateway at once")
    }

    /// Servers of one exchange behind a proxy, up to ten thousand gateways.
    private mutating func several() {
        header("Several servers behind HAProxy")
        let cases: [(gateways: Int, resolution: Int64, seconds: Int64, servers: [Int])] = [
            (200, 1, 30, [2, 4]), (1000, 10, 120, [2, 4]), (10_000, 60, 120, [4, 8]),
            (10_000, 60, 300, [4]), (10_000, 10, 300, [16]),
        ]
        for one in cases {
            for servers in one.servers {
                play(one.gateways, one.resolution) {
                    $0.servers = servers
                    Self.fix(&$0, one.seconds)
                }
            }
        }
    }

    /// What the interval that follows the exchange's answers costs and brings beside one of 30 s.
    private mutating func compareIntervals() {
        print("\nThe interval: fixed, and as the gateway chooses it:\n")
        print("| gateways | servers | a point | load | fresh | load | fresh |")
        print("|---|---|---|---|---|---|---|")
        let cases: [(gateways: Int, servers: Int, resolution: Int64)] = [
            (1, 1, 1), (8, 1, 1), (20, 1, 1), (50, 1, 1), (100, 1, 1), (200, 2, 1), (200, 4, 1),
            (1000, 16, 1), (200, 1, 10), (500, 1, 10), (1000, 4, 10),
            (10_000, 32, 10), (1000, 1, 60), (10_000, 8, 60),
        ]
        for one in cases {
            var cells = [
                "\(one.gateways)", "\(one.servers)",
                one.resolution == 1 ? "frame" : "\(one.resolution) s",
            ]
            for isFixed in [true, false] {
                var scenario = Fleet.Scenario(
                    gateways: one.gateways, servers: one.servers, resolution: one.resolution,
                    outage: 0..<0, end: 0)
                if !isFixed {
                    scenario.settings.shortestInterval = DeliverySettings.exchangeInterval
                }
                let calm = Self.calm(scenario)
                let fresh = [50, 99].map {
                    String(
                        format: "%.1f", Double(calm.delays[calm.delays.count * $0 / 100]) / 1e6)
                }
                cells += [
                    String(format: "%.1f %%", calm.load * 100),
                    fresh.joined(separator: " / ") + " s",
                ]
            }
            print("| " + cells.joined(separator: " | ") + " |")
        }
    }

    private static func fix(_ scenario: inout Fleet.Scenario, _ seconds: Int64) {
        scenario.settings.interval = .seconds(seconds)
        scenario.settings.shortestInterval = .seconds(seconds)
    }

    private func header(_ title: String) {
        print("\n\(title):\n")
        print(
            "| gateways | servers | a point | batch | interval | load | caught up | waste | fresh |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
    }

    private mutating func play(
        _ gateways: Int, _ resolution: Int64, _ change: (inout Fleet.Scenario) -> Void = { _ in }
    ) {
        var scenario = Fleet.Scenario(
            gateways: gateways, resolution: resolution,
            outage: Self.hour..<25 * Self.hour, end: (25 + Self.patience) * Self.hour)
        change(&scenario)
        let demand = Self.demand(of: scenario)
        let load = demand > 1 ? demand : Self.calm(scenario).load
        var cells = [
            "\(gateways)", "\(scenario.servers)", resolution == 1 ? "frame" : "\(resolution) s",
            "\(scenario.settings.batchSamplesMax)",
            "\(scenario.settings.interval.components.seconds) s", Self.percent(load),
        ]
        if load > 1 {
            cells += ["never", "", ""]
        } else {
            var fleet = Fleet(scenario, seed: Self.seed)
            let result = fleet.run()
            let all = result.caughtUp
            cells.append(
                all.count < gateways
                    ? "\(all.count) in \(Self.patience) h"
                    : [all[0], all[gateways / 2], all[gateways - 1]].map(Self.hours)
                        .joined(separator: " / ") + " h")
            cells.append(Self.percent(Double(result.wasted) / Double(max(result.work, 1))))
            let delays = result.delays
            cells.append(
                delays.isEmpty ? "" : "\(delays[delays.count * 99 / 100] / Self.second) s")
            dead += result.dead
            overlaps += result.overlaps
        }
        print("| " + cells.joined(separator: " | ") + " |")
    }

    /// The share of all servers' time that the fleet takes as long as all is well, and how old data points
    /// were when they were acknowledged: the third hour of a fleet that nothing happened to.
    private static func calm(_ scenario: Fleet.Scenario) -> (load: Double, delays: [Int64]) {
        var calm = scenario
        calm.end = 3 * hour
        calm.countedFrom = 2 * hour
        calm.countsAllDelays = true
        calm.outage = calm.end..<calm.end
        var fleet = Fleet(calm, seed: seed)
        let result = fleet.run()
        return (Double(result.work) / Double(hour * Int64(scenario.servers)), result.delays)
    }

    /// The share of all servers' time that the fleet asks for at the longest interval: that of one gateway
    /// which is alone, so many times. Above 1 it never keeps up.
    private static func demand(of scenario: Fleet.Scenario) -> Double {
        var alone = scenario
        alone.gateways = 1
        alone.servers = 1
        alone.settings.shortestInterval = alone.settings.interval
        return calm(alone).load * Double(scenario.gateways) / Double(scenario.servers)
    }

    private static func percent(_ share: Double) -> String { "\(Int((share * 100).rounded())) %" }

    private static func hours(_ time: Int64) -> String {
        let tenths = (time * 10 + hour / 2) / hour
        return "\(tenths / 10).\(tenths % 10)"
    }
}
