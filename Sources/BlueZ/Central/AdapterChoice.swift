import Basics

/// Which adapter a link goes over, where several hear the sensor.
extension Central {
    /// How long a sensor counts as heard by an adapter: as long as bluetoothd itself keeps the
    /// object of a stranger.
    static let heardFor = Duration.seconds(30)
    /// How long an adapter that refused a further link is taken to be full. Others may leave.
    static let fullFor = Duration.seconds(600)

    /// An adapter that carries fewer links than any controller is made for is not full.
    static let linksAtLeast = 3
    /// So often in a row an adapter must refuse a sensor that it hears before it is taken to be full: single attempts
    /// fail at once on any day.
    static let refusalsMin = 3

    /// A link came up on an adapter.
    func noteLink(on adapter: String) {
        let count = upCount(of: adapter)
        adapters[adapter]?.load.note(count)
    }

    /// Whether a `Connect` that failed at once was refused by the adapter for want of a place: it carries as many links
    /// as it ever did, and no link came up in between. Controllers say so, and bluetoothd does not pass it on.
    func isRefusal(of link: WatchedLink, by adapter: String) -> Bool {
        let count = upCount(of: adapter)
        guard !link.hasComeUp, let most = adapters[adapter]?.load.most, most > 0,
            count >= max(most, Self.linksAtLeast),
            let refusals = adapters[adapter]?.load.refuse(link.address)
        else { return false }
        return isFull(adapter) || refusals >= Self.refusalsMin
    }

    /// The adapter refused a link: it is full with those it has.
    func noteFull(_ adapter: String) {
        // The one that was refused is not among them.
        adapters[adapter]?.load.limit = LinkLimit(
            count: max(upCount(of: adapter), 1), until: clock.now() + Self.fullFor)
    }

    /// Whether an adapter has as many links as it is known to carry.
    func isFull(_ adapter: String) -> Bool {
        guard let limit = adapters[adapter]?.load.limit, limit.until > clock.now() else {
            return false
        }
        return linkCount(of: adapter) >= limit.count
    }

    /// Links that are up on an adapter.
    private func upCount(of adapter: String) -> Int {
        links.values.count { $0.adapter == adapter && $0.upSince != nil }
    }

    /// Links that are up on an adapter or being made.
    func linkCount(of adapter: String) -> Int {
        links.values.count { $0.adapter == adapter && $0.machine.hasLink }
    }

    /// Takes the link to another adapter that hears the sensor, if its own is full.
    func leaveFullAdapter(_ link: WatchedLink) {
        guard let place = bestPlace(of: link.address), place.adapter != link.adapter,
            !isFull(place.adapter)
        else { return }
        link.device = place.path
        link.adapter = place.adapter
    }

    /// The device object to connect by: one with a bond, for a bond belongs to one adapter; else one that is connected
    /// already. Among equals, adapters that have heard the sensor lately go first, then those with room, then those with
    /// the fewest links. Without a bond, adapters that have not heard it are left out.
    func bestPlace(of address: String) -> Device? {
        let now = clock.now()
        let places = (devices[address] ?? [:]).values.filter { device in
            guard let adapter = adapters[device.adapter], isUsable(adapter.object) else {
                return false
            }
            return device.isPaired || isHeard(device)
        }
        func isHeard(_ device: Device) -> Bool {
            device.isConnected || heardAt[device.path].map { $0 + Self.heardFor > now } ?? false
        }
        func rank(_ device: Device) -> (Int, Int, Int, Int, String) {
            (
                device.isPaired ? 0 : device.isConnected ? 1 : 2, isHeard(device) ? 0 : 1,
                isFull(device.adapter) ? 1 : 0, linkCount(of: device.adapter), device.path
            )
        }
        return places.min { rank($0) < rank($1) }
    }
}

/// The load that an adapter was seen to carry. A value without a clock.
struct AdapterLoad: Sendable {
    /// The most links at one time.
    private(set) var most = 0
    /// The load beyond which it refused.
    var limit: LinkLimit?
    /// How often it has refused each sensor since a link last came up.
    private var refusals: [String: Int] = [:]

    /// So many links are up, one more than before.
    mutating func note(_ count: Int) {
        most = max(most, count)
        refusals = [:]
        if let known = limit, count > known.count { limit = nil }
    }

    /// It has refused a sensor; returns how often.
    mutating func refuse(_ address: String) -> Int {
        let count = min(refusals[address, default: 0] + 1, 1_000)
        refusals[address] = count
        return count
    }
}

/// How many links an adapter carries, and until when that is believed.
struct LinkLimit: Sendable {
    var count: Int
    var until: Uptime
}
