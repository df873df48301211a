/// How a relay is set up.
public struct RelaySettings: Sendable {
    /// The servers of the cluster, one to which it connects.
    public var servers: [ServerAddress]
    /// The relay's key at the servers.
    public var key: NKey
    /// How these servers are reached.
    public var network: CurlSettings
    /// The exchange.
    public var origin: Origin
    /// The practitioner's key there.
    public var practitionerKey: PractitionerKeyFile
    /// How the exchange is reached.
    public var curl: CurlSettings
    /// The device that data are attributed to; nil where the exchange leaves no choice.
    public var device: String?
    /// The code of heart rates; nil to ask the exchange about each patient.
    public var code: ObservationCode?
    /// The system of the identifiers: that of the gateways, so that what one has delivered itself is known.
    public var identifierSystem: String
    /// Requests to the exchange at a time.
    public var workers: Int

    /// Does not check the keys: a wrong one shows when it is used.
    public init(
        servers: [ServerAddress], key: NKey, network: CurlSettings, origin: Origin,
        practitionerKey: PractitionerKeyFile, curl: CurlSettings, device: String?,
        code: ObservationCode?,
        identifierSystem: String, workers: Int
    ) {
        self.servers = servers
        self.key = key
        self.network = network
        self.origin = origin
        self.practitionerKey = practitionerKey
        self.curl = curl
        self.device = device
        self.code = code
        self.identifierSystem = identifierSystem
        self.workers = workers
    }
}
