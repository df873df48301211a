import Basics

extension Uptime {
    /// So long after the machine started.
    static func seconds(_ seconds: Int64) -> Uptime { zero + .seconds(seconds) }
}
