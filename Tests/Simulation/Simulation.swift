import Basics
import Foundation
import Glibc
import VirtualTime

/// Plays worlds, seed after seed.
struct Simulation {
    private let first: UInt64
    private let count: UInt64
    private let isLoud: Bool
    private let shortens: Bool
    private let stops: Bool
    private let isTwice: Bool
    private let folder: URL

    /// `SIMULATE=FIRST:COUNT`; `SIMULATE_TRACE=1` prints all of it; `SIMULATE_SHORTEN=0` leaves a script as it is;
    /// `SIMULATE_STOP=1` ends with the first that fails; `SIMULATE_TWICE=1` plays each seed twice, and not only the
    /// first one: the second world must be the same.
    init(_ environment: [String: String]) {
        let words = (environment["SIMULATE"] ?? "").split(separator: ":").compactMap { UInt64($0) }
        first = words.first ?? 1
        count = words.count > 1 ? words[1] : 1
        isLoud = environment["SIMULATE_TRACE"] != nil
        stops = environment["SIMULATE_STOP"] != nil
        isTwice = environment["SIMULATE_TWICE"] != nil
        shortens = environment["SIMULATE_SHORTEN"] != "0"
        let memory = URL(filePath: "/dev/shm")
        let parent =
            FileManager.default.isWritableFile(atPath: memory.path)
            ? memory : FileManager.default.temporaryDirectory
        folder = parent.appending(path: "simulation-\(getpid())")
    }

    /// - Returns: the seeds that failed.
    func run() -> [UInt64] {
        var failures: [UInt64] = []
        var reached: [String: Int] = [:]
        let began = ContinuousClock.now
        for seed in first..<first + count {
            let script = Script(seed: seed)
            var (findings, trace) = play(script, isLoud: isLoud)
            if isTwice || seed == first,
                let finding = difference(trace, play(script, isLoud: false).1)
            {
                findings.append(finding)
            }
            reached.merge(trace.reached, uniquingKeysWith: +)
            guard !findings.isEmpty else { continue }
            failures.append(seed)
            print("seed \(seed) FAILS: \(findings[0])")
            for finding in findings.dropFirst() { print("    and \(finding)") }
            fflush(nil)
            if shortens, !isLoud { shorten(script, as: findings[0].kind) }
            if stops { break }
        }
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        print(
            "\(count) seeds from \(first), \(failures.count) failed, \(seconds / Double(count)) s each"
        )
        for what in Set(reached.keys).union(Reach.all).sorted() {
            print("  \(what): \(reached[what] ?? 0)")
        }
        try? FileManager.default.removeItem(at: folder)
        fflush(nil)
        return failures
    }

    /// Where the traces of one seed's worlds part; nil if nowhere.
    private func difference(_ one: Trace, _ other: Trace) -> Finding? {
        let (first, second) = (one.all, other.all)
        guard first != second else { return nil }
        let index = zip(first, second).enumerated().first { $1.0 != $1.1 }?.offset
        let place = index ?? min(first.count, second.count)
        func line(_ lines: [String]) -> String { place < lines.count ? lines[place] : "nothing" }
        return Finding(
            kind: "another world", words: "line \(place): \(line(first)) | \(line(second))")
    }

    private func play(_ script: Script, isLoud: Bool) -> ([Finding], Trace) {
        do {
            let world = try World(script, isLoud: isLoud, in: folder)
            try world.run()
            return (world.findings, world.trace)
        } catch {
            return ([Finding(kind: "simulation", words: "\(error)")], Trace(isLoud: false))
        }
    }

    /// Drops what the failure does not need, and prints what is left.
    private func shorten(_ script: Script, as kind: String) {
        var short = script
        var trials = 0
        func fails(_ script: Script) -> Bool {
            trials += 1
            return play(script, isLoud: false).0.contains { $0.kind == kind }
        }
        var size = max(1, short.events.count / 2)
        while size >= 1, trials < 150 {
            var from = 0
            var isShorter = false
            while from < short.events.count, trials < 150 {
                var candidate = short
                candidate.events.removeSubrange(from..<min(from + size, short.events.count))
                if fails(candidate) {
                    short = candidate
                    isShorter = true
                } else {
                    from += size
                }
            }
            if size == 1, !isShorter { break }
            size = max(1, size / 2)
        }
        let (findings, trace) = play(short, isLoud: false)
        print(
            "  shortened from \(script.events.count) to \(short.events.count) events in \(trials) trials:"
        )
        let dull = ["  log info", "  request ", "  status "]
        for line in trace.all where !dull.contains(where: line.contains) { print("  " + line) }
        for finding in findings { print("  \(finding)") }
        fflush(nil)
    }
}
