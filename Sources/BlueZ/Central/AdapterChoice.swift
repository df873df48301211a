import Basics

/// Which adapter a link goes over, where several hear the sensor.
extension Central {
    /// How long a sensor counts as heard by an adapter: as long as bluetoothd itself keeps the
    /// object of a stranger.
    static let heardFor = Duration.seconds(30)
    /// How long an adapter that refused a further link is taken to be full. Others may leave.
    static let fullFor = Duration.seconds(600)

    /// The adapter refused a link: it is full with those it has.
    func noteFull(_ adapter: String) {
        // The one that was refused is not among them.
        linkLimits[adapter] = LinkLimit(
            count: max(linkCount(of: adapter) - 1, 1), until: clock.now() + Self.fullFor)
    }

    /// Whether an adapter has as many links as it is known to carry.
    func isFull(_ adapter: String) -> Bool {
        guard let limit = linkLimits[adapter], limit.until > clock.now() else { return false }
        return linkCount(of: adapter) >= limit.count
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

    /// The device object to connect by: the one with a bond, for a bond belongs to one adapter; else
    /// one that is connected already, else on the adapter with room and the fewest links, among
    /// those that have heard the sensor lately.
    func bestPlace(of address: String) -> Device? {
        let now = clock.now()
        let places = (devices[address] ?? [:]).values.filter { device in
            guard let adapter = adapters[device.adapter], isUsable(adapter) else { return false }
            return device.isPaired || device.isConnected
                || heardAt[device.path].map { $0 + Self.heardFor > now } ?? false
        }
        func rank(_ device: Device) -> (Int, Int, Int, String) {
            (
                device.isPaired ? 0 : device.isConnected ? 1 : 2, isFull(device.adapter) ? 1 : 0,
                linkCount(of: device.adapter), device.path
            )
        }
        return places.min { rank($0) < rank($1) }
    }
}

/// How many links an adapter was seen to carry, and until when that is believed.
struct LinkLimit {
    var count: Int
    var until: Uptime
}
