import Foundation

/// What the kernel says of a process.
package enum ProcessFigures {
    /// Memory of a process in KiB.
    package struct Memory: Codable {
        /// Pages in memory, those of the program's files included.
        package var residentKiB: Int
        /// Pages that no file backs: heap, stacks.
        package var anonymousKiB: Int
    }

    /// CPU time in µs, user and system, of all threads that are and were: the utime and stime of
    /// `/proc/PID/stat`, without their rounding to 10 ms.
    package static func cpuMicroseconds(of pid: pid_t) throws -> Int {
        var clock = clockid_t()
        var time = timespec()
        guard clock_getcpuclockid(pid, &clock) == 0, clock_gettime(clock, &time) == 0 else {
            throw FixtureFault(description: "process \(pid) is gone")
        }
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// How often its threads went to sleep by themselves so far, by the thread's number and name: each time
    /// something woke it up again.
    package static func wakeUps(of pid: pid_t) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task") {
            let path = "/proc/\(pid)/task/\(thread)"
            // A thread may end meanwhile.
            guard let status = try? String(contentsOfFile: path + "/status", encoding: .utf8),
                let name = try? String(contentsOfFile: path + "/comm", encoding: .utf8)
            else { continue }
            counts[thread + " " + name.trimmingCharacters(in: .whitespacesAndNewlines)] =
                number("voluntary_ctxt_switches", in: status)
        }
        return counts
    }

    /// Memory as `/proc/PID/smaps_rollup` has it.
    package static func memory(of pid: pid_t) throws -> Memory {
        let text = try String(contentsOfFile: "/proc/\(pid)/smaps_rollup", encoding: .utf8)
        return Memory(
            residentKiB: number("Rss", in: text), anonymousKiB: number("Anonymous", in: text))
    }

    /// Makes the present resident memory the peak.
    package static func resetPeak(of pid: pid_t) throws {
        // 5 is the kernel's number for it: proc_pid_clear_refs(5).
        try Data("5\n".utf8).write(to: URL(filePath: "/proc/\(pid)/clear_refs"))
    }

    /// Resident memory at its highest since ``resetPeak(of:)``, in KiB.
    package static func peakResidentKiB(of pid: pid_t) throws -> Int {
        number("VmHWM", in: try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8))
    }

    /// The letter of its state in `/proc/PID/stat`: T when it is stopped.
    package static func state(of pid: pid_t) throws -> Character? {
        let text = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        // The program's name stands in parentheses before it, and may hold anything.
        return text.lastIndex(of: ")").flatMap { text[$0...].dropFirst(2).first }
    }

    private static func number(_ name: String, in text: String) -> Int {
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first
            .flatMap { Int($0) } ?? 0
    }
}

/// Why a benchmark cannot go on.
package struct FixtureFault: Error, CustomStringConvertible {
    /// One line.
    package var description: String

    /// A fault.
    package init(description: String) { self.description = description }
}
