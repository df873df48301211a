import BlueZ
import Foundation
import GRDB
import OfflineQueue
import Testbed
import VirtualTime

// A day of a gateway with twelve straps on two adapters, in which everything goes wrong that ever
// went wrong in the field, under a clock that jumps from one event to the next.
//
//     simulated-day [--hours 24] [--straps 12] [--seed N] [--trace]
//
// Real: the radio (`BlueZ`), the recorder (`Recording`), the store (`OfflineQueue`). Simulated: the
// bus, bluetoothd, the straps, both clocks, the threads. Ends with status 0 if each second of each
// strap is sampled or explained, and the books agree with what was sent.

/// The number after an option.
func option(_ name: String) -> UInt64? {
    let arguments = CommandLine.arguments
    guard let index = arguments.firstIndex(of: name), index + 1 < arguments.count else {
        return nil
    }
    return UInt64(arguments[index + 1])
}

VirtualExecutors.install()
let seed = option("--seed") ?? UInt64.random(in: 1...999_999)
let hours = Int64(min(max(option("--hours") ?? 24, 1), 168))
let strapCount = Int(min(max(option("--straps") ?? 12, 1), 14))
let folder = FileManager.default.temporaryDirectory.appending(path: "simulated-day-\(getpid())")
try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
let store = folder.appending(path: "queue.sqlite").path
print("simulated day: seed \(seed), \(hours) h, \(strapCount) straps")

let day = try Day(
    seed: seed, hours: hours, strapCount: strapCount, path: store,
    isTraced: CommandLine.arguments.contains("--trace"))
try day.run()
day.perform { gateway, _ in
    if let balance = try await gateway.queue?.balance(), !balance.isBalanced {
        throw DayFault(description: "the books do not balance: \(balance)")
    }
    for (kind, count) in await gateway.errors.sorted(by: { $0.value > $1.value }) {
        print("  errors of class \(kind.rawValue) since the last start: \(count)")
    }
    let falseWells = await gateway.falseWells
    if let first = falseWells.first {
        throw DayFault(description: "health: \(first) (\(falseWells.count) such minutes)")
    }
    try await gateway.stop()
}
try day.check()
let judge = try DayJudge(day, storePath: store)
for line in judge.summary { print("  " + line) }
for fault in judge.faults.prefix(20) { print("  FAULT " + fault) }
try FileManager.default.removeItem(at: folder)
print(
    judge.faults.isEmpty
        ? "every second of \(strapCount) straps is sampled or explained"
        : "\(judge.faults.count) faults; again: simulated-day --seed \(seed) --hours \(hours)")
exit(judge.faults.isEmpty ? 0 : 1)
