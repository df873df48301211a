import Basics

extension Uptime {
    /// So many seconds after the machine started.
    static func seconds(_ seconds: Int64) -> Uptime { zero + .seconds(seconds) }

    /// So many microseconds after the machine started.
    static func microseconds(_ microseconds: Int64) -> Uptime { Uptime(microseconds: microseconds) }
}
