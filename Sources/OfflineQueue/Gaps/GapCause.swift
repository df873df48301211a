/// Why an assignment has no heart rate for a while.
///
/// Raw values are stored and shown: they never change. The words below are the only ones: `gaps`
/// prints them, and `DocumentTableTests` writes them into the live page and docs/operate/operations.md.
public enum GapCause: String, Sendable, Hashable, CaseIterable {
    case noContact = "no-contact"
    case outOfRange = "out-of-range"
    case connecting
    case linkLost = "link-lost"
    /// Also the cause where no other was noted.
    case silent
    case undecodable
    /// 0, or a rate that no heart has.
    case noRate = "no-rate"
    case adapterDown = "adapter-down"
    case adapterFull = "adapter-full"
    /// bluetoothd, or the system bus.
    case daemonGone = "daemon-gone"
    /// Also a gateway that was killed and lost what it held in memory, and a machine that was suspended.
    case gatewayOff = "gateway-off"
    case queueFull = "queue-full"
    /// The store broke, and its samples of that time could not be read.
    case storeLost = "store-lost"
    /// Its length is unknown.
    case clockUnknown = "clock-unknown"

    /// The meaning, in words that follow "no data: ".
    public var meaning: String { words.meaning }
    /// The remedy, for a person.
    public var remedy: String { words.remedy }

    // One switch, so that the compiler asks for the words of a new cause.
    private var words: (meaning: String, remedy: String) {
        switch self {
        case .noContact:
            ("the strap does not touch skin", "wear it tighter, moisten the electrodes")
        case .outOfRange:
            (
                "the strap is not heard",
                "put it on, bring it nearer, end its connection to phones, check its battery"
            )
        case .connecting:
            (
                "the strap is being connected",
                "nothing if it is short; if not, bring the strap nearer, end its connections to "
                    + "phones, and look at edge-gateway straps"
            )
        case .linkLost:
            (
                "the link was lost and the strap has not been heard since",
                "bring it nearer; many short ones: move the gateway or its antenna"
            )
        case .silent:
            (
                "the strap is connected and sends nothing, or no cause is known",
                "take the strap off and put it on again; check its battery"
            )
        case .undecodable:
            (
                "the strap sends frames without a readable measurement; they are kept",
                "report them: edge-gateway decode shows what is wrong with one"
            )
        case .noRate:
            (
                "the strap sends frames without a usable heart rate; they are kept",
                "wear it and moisten the electrodes"
            )
        case .adapterDown:
            (
                "the Bluetooth adapter is off or missing",
                "plug it in; rfkill unblock bluetooth; bluetoothctl power on"
            )
        case .adapterFull:
            (
                "the adapter carries no further link",
                "plug in a second adapter, or forget a strap that is not used"
            )
        case .daemonGone:
            (
                "bluetoothd or the system bus did not answer",
                "systemctl status dbus bluetooth; systemctl restart bluetooth"
            )
        case .gatewayOff:
            (
                "the gateway was stopped, updated, suspended or without power",
                "if it was not stopped on purpose: check its power supply and journalctl -b -1"
            )
        case .queueFull:
            (
                "neither disk nor memory could take the frames",
                "free space on the disk, or replace the card"
            )
        case .storeLost:
            (
                "the store broke, with the samples of that time",
                "replace the card"
            )
        case .clockUnknown:
            (
                "an unknown time between two boots: the clock of one is not trusted",
                "give the machine NTP: a boot that is synchronised late gets its times all the same"
            )
        }
    }
}
