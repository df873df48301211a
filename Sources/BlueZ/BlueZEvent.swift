import Basics

/// An event of org.bluez, or of the bus.
public enum BlueZEvent: Sendable, Hashable {
    /// An adapter appeared or changed.
    case adapterChanged(Adapter)
    case adapterRemoved(path: String, address: String)
    /// A device appeared or changed. `isSighting`: an advertisement was heard.
    case deviceChanged(Device, isSighting: Bool)
    /// The object is gone, with or without a disconnect before.
    case deviceRemoved(path: String, address: String)
    /// The value of a characteristic, and when it arrived.
    case notification(characteristicPath: String, bytes: [UInt8], arrivedAt: Uptime)
    /// A characteristic is gone, as those are of a device that is removed or whose services change.
    case characteristicRemoved(path: String)
    /// bluetoothd left the bus; all its objects are gone.
    case daemonGone(generation: UInt64)
    /// bluetoothd is on the bus and its objects are read; events of them precede this one.
    case daemonBack(generation: UInt64)
    /// bluetoothd is on the bus and does not tell what objects it has; asked again and again.
    case daemonSilent
    /// bluetoothd is on the bus, and it or the bus answers with this error when asked what objects it has; asked again
    /// and again.
    case daemonRefused(DBusFault)
    /// A call of ours failed, whatever comes of it. bluetoothd need not have answered.
    case callFailed(member: String, DBusFault)
    /// All that had come when this number was asked for precedes this (``Central/catchUp()``).
    case caughtUp(number: UInt32)
    /// The bus connection ended; nothing follows.
    case busGone
}
