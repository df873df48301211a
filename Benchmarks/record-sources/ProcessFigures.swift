import Foundation

/// What the kernel says of a process.
enum ProcessFigures {
    /// Memory of a process in KiB.
    struct Memory: Codable {
        /// Pages in memory, those of the program's files included.
        var residentKiB: Int
        /// Pages that no file backs: heap, stacks.
        var anonymousKiB: Int
    }

    /// CPU time in µs, user and system, of all threads that are and were: the utime and stime of
    /// `/proc/PID/stat`, without their rounding to 10 ms.
    static func cpuMicroseconds(of pid: pid_t) throws -> Int {
        var clock = clockid_t()
        var time = timespec()
        guard clock_getcpuclockid(pid, &clock) == 0, clock_gettime(clock, &time) == 0 else {
            throw BenchFault(description: "process \(pid) is gone")
        }
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// Memory as `/proc/PID/smaps_rollup` has it.
    static func memory(of pid: pid_t) throws -> Memory {
        let text = try String(contentsOfFile: "/proc/\(pid)/smaps_rollup", encoding: .utf8)
        func kibibytes(_ name: String) -> Int {
            let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
            return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        }
        return Memory(residentKiB: kibibytes("Rss"), anonymousKiB: kibibytes("Anonymous"))
    }
}

/// Why the benchmark cannot go on.
struct BenchFault: Error, CustomStringConvertible {
    var description: String
}
