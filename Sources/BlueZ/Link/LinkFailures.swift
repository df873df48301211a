import Basics

/// What failures say of a sensor, until it streams. A value; it is forgotten as a whole when the sensor has left.
struct LinkFailures: Sendable, Hashable {
    /// Connects in a row that failed although the sensor was there.
    private(set) var connects = 0
    /// When the first of them failed.
    private(set) var failingSince: Uptime?
    /// The reason that kept it from streaming last, where that is known.
    private(set) var trouble: LinkTrouble?
    /// When it was last there: it was heard, or its link was up.
    var heardAt = Uptime.zero

    /// When all this is forgotten unless the sensor is heard; nil: there is nothing to forget.
    var forgottenAt: Uptime? {
        connects == 0 && trouble == nil ? nil : heardAt + Central.unreachableFor
    }

    /// A connect failed at `now` to a sensor that was heard then.
    mutating func noteConnect(at now: Uptime, heardAt: Uptime) {
        connects = min(connects + 1, 1000)
        failingSince = failingSince ?? now
        self.heardAt = max(self.heardAt, heardAt)
    }

    /// The adapter was to blame for the connects.
    mutating func excuseConnects() { (connects, failingSince) = (0, nil) }

    /// A failure of a sensor that was heard then had this reason; nil: none that is known.
    mutating func note(_ trouble: LinkTrouble?, heardAt: Uptime) {
        self.trouble = trouble
        self.heardAt = max(self.heardAt, heardAt)
    }
}
