import Basics

/// Samples that an import did not take: of one assignment, one after the other in the file,
/// for one reason.
public struct UnsureSamples: Sendable, Hashable {
    /// Why they were not taken.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// This store had them and lost them, and does not know whether they had been delivered.
        case lost
        /// Another sample has their number here, and with it their identity: its frame, its sensor or its time
        /// differs.
        case numberTaken = "number-taken"
        /// Their run is not over, and may give their number to another sample.
        case runGoesOn = "run-goes-on"
    }

    /// The address of the sensor.
    public let sensor: String
    /// The assignment's number in the file.
    public let assignment: Int64
    /// Why they were not taken.
    public let reason: Reason
    /// The line of the first of them.
    public let line: Int
    /// How many.
    public private(set) var samples = 0
    /// When the first and the last of them were measured, as far as the file says so; nil if it does of none.
    public private(set) var times: ClosedRange<UTC>?

    init(_ sample: ImportLine, _ reason: Reason) {
        sensor = sample.sensor
        assignment = sample.assignment
        self.reason = reason
        line = sample.line
        add(sample)
    }

    mutating func add(_ sample: ImportLine) {
        samples += 1
        guard let time = sample.time else { return }
        times = min(times?.lowerBound ?? time, time)...max(times?.upperBound ?? time, time)
    }
}
