import Foundation

/// A link that shows heart rates and nothing else, for a while.
struct Share: Codable, Equatable {
    /// 32 random bytes, base64url.
    var token: String
    /// Nil for all straps, whoever wears them.
    var sensor: WornStrap?
    var expires: Date
}

/// The shares in force. They are kept in a file of the state directory, mode 0600, so that a restart ends
/// none of them. A share that has ended is removed from the file: the clock may be set back later.
actor Shares {
    /// More are a mistake: a share ends by itself, and one link serves any number of viewers.
    static let countMax = 64
    /// The hours a share may last: a month at most.
    static let hoursRange = 1...744

    private let path: String
    private var shares: [Share]
    /// Whether the file still has shares that have ended.
    private var isFileLate = false

    init(stateDirectory: String) {
        path = stateDirectory + "/shares.json"
        OutputFile.removeParts(of: path)
        let bytes = FileManager.default.contents(atPath: path) ?? Data()
        shares = (try? Self.decoder.decode([Share].self, from: bytes)) ?? []
    }

    /// Makes a share that ends at `expires`.
    ///
    /// - Throws: ``ProblemReport`` when there are too many or the file cannot be written.
    func make(sensor: WornStrap?, expires: Date, at now: Date) throws -> Share {
        end(at: now)
        guard shares.count < Self.countMax else {
            throw ProblemReport(
                code: .tooManyShares, message: "there are \(Self.countMax) shares already",
                advice: "edge-gateway share --stop ends them all")
        }
        let share = Share(token: Self.token(), sensor: sensor, expires: expires)
        try store(shares + [share])
        return share
    }

    /// Ends those whose time is over, for good; and those of a strap that is not in `worn`, if that is known.
    private func end(at now: Date, worn: Set<WornStrap>? = nil) {
        let live = shares.filter { share in
            share.expires > now && share.sensor.map { worn?.contains($0) ?? true } ?? true
        }
        guard live.count < shares.count else { return }
        shares = live
        isFileLate = (try? store(live)) == nil
    }

    /// Ends those whose time is over, also if nobody asks for them, and those of straps that another person wears now,
    /// or nobody; nil: that is not known.
    func look(at now: Date, worn: Set<WornStrap>?) {
        end(at: now, worn: worn)
        if isFileLate { try? store(shares) }
    }

    /// Ends all shares. Returns how many there were.
    ///
    /// - Throws: ``ProblemReport`` when the file cannot be written; then they are still in force.
    func stop(at now: Date) throws -> Int {
        end(at: now)
        let count = shares.count
        try store([])
        return count
    }

    /// The scope that a share gives its viewer; nil if no such share is in force.
    func scope(of token: String, at now: Date) -> ViewerScope? {
        end(at: now)
        // Compares all, so that the duration reveals nothing about any of them.
        var found: ViewerScope?
        for share in shares where share.token.isSameSecret(as: token) {
            found = .share(share.sensor)
        }
        return found
    }

    private func store(_ new: [Share]) throws {
        do {
            let file = try OutputFile(path, replaces: true)
            try file.write(Array(try Self.encoder.encode(new)))
            try file.finish()
        } catch {
            throw ProblemReport(
                code: .stateUnwritable, message: "the list of shares cannot be written",
                advice: "check the disk: df -h; edge-gateway status")
        }
        shares = new
        isFileLate = false
    }

    /// A secret that cannot be guessed: 256 bits, as text that needs no escaping in a URL.
    static func token() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<4).flatMap { _ in
            withUnsafeBytes(of: generator.next() as UInt64) { Array($0) }
        }
        return Data(bytes).base64EncodedString().replacing("+", with: "-")
            .replacing("/", with: "_").replacing("=", with: "")
    }

    private static let encoder: JSONEncoder = ReportCoding.encoder()
    private static let decoder: JSONDecoder = ReportCoding.decoder()
}
