/// How the gateway itself is, for destinations that show it to people. It names straps and no patient.
public struct GatewayState: Sendable, Hashable {
    /// A strap that is paired.
    public struct Strap: Sendable, Hashable {
        /// The number of the sensor.
        public var id: Int64
        /// The name that people gave it.
        public var name: String
        /// Whether its link is up and frames come.
        public var isStreaming: Bool

        /// A strap, and whether frames come from it.
        public init(id: Int64, name: String, isStreaming: Bool) {
            self.id = id
            self.name = name
            self.isStreaming = isStreaming
        }
    }

    /// The answer of `GET /v1/fleet`, as JSON.
    public var report: [UInt8]
    /// The answer of `GET /v1/fleet/coverage` about the last days, as JSON.
    public var coverage: [UInt8]
    /// The gateway's version.
    public var version: String
    /// Its straps.
    public var straps: [Strap]
    /// The numbers of the sensors that were paired once and are not any more: nothing of them may still be shown.
    public var forgotten: [Int64]

    /// A state with its report, as `status` has it; without a coverage none is shown.
    public init(
        report: [UInt8], coverage: [UInt8] = [], version: String, straps: [Strap],
        forgotten: [Int64] = []
    ) {
        self.report = report
        self.coverage = coverage
        self.version = version
        self.straps = straps
        self.forgotten = forgotten
    }
}

extension GatewayState {
    /// An invented one.
    static let example = GatewayState(
        report: Array(
            (#"{"backlog":[{"destination":"e1","kind":"exchange","samples":40}],"#
                + #""gateway":{"labels":{},"name":"ward3-07"},"items":[],"#
                + #""sensors":{"paired":1,"silent":[],"streaming":1},"#
                + #""time":"2026-11-22T08:00:00Z","version":"0.1.0","well":true}"#).utf8),
        version: "0.1.0", straps: [Strap(id: 1, name: "Bed 7", isStreaming: true)])
}
