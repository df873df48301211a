import BlueZ

/// Something that goes wrong with a method call.
public struct ScriptedFault: Sendable, Hashable {
    /// The event in place of, or beside, the method's work.
    public enum Effect: Sendable, Hashable {
        /// Nothing is done and an error comes back.
        case error(DBusFault)
        /// The work is done, and then an error comes back all the same.
        case errorThough(DBusFault)
        /// The work begins so many milliseconds later.
        case delay(milliseconds: Int)
        /// Nothing is done and no answer comes.
        case hang
        /// The work is done and no answer comes.
        case answerLost
    }

    /// The method, such as `Connect`.
    public var member: String
    /// Only calls on the sensor with this address and on what is below it; nil for all.
    public var address: String?
    /// How many calls it hits; nil for all until it is cleared.
    public var times: Int?
    /// The event.
    public var effect: Effect

    public init(_ member: String, of address: String? = nil, times: Int? = 1, _ effect: Effect) {
        self.member = member
        self.address = address
        self.times = times
        self.effect = effect
    }
}

/// The faults still to come, in the order they were given.
struct FaultScript {
    private var faults: [ScriptedFault] = []

    mutating func add(_ fault: ScriptedFault) {
        faults.append(fault)
    }

    mutating func remove(_ fault: ScriptedFault) {
        faults.removeAll { $0 == fault }
    }

    mutating func clear() {
        faults = []
    }

    /// The effect on this call, and one less of it to come.
    mutating func effect(on call: DBusMessage) -> ScriptedFault.Effect? {
        guard
            let index = faults.firstIndex(where: { fault in
                guard fault.member == call.member, fault.times != 0 else { return false }
                guard let address = fault.address else { return true }
                return call.path?.split(separator: "/").contains {
                    $0 == Substring(BluetoothWorld.deviceName(address))
                } ?? false
            })
        else { return nil }
        if let times = faults[index].times { faults[index].times = times - 1 }
        return faults[index].effect
    }
}
