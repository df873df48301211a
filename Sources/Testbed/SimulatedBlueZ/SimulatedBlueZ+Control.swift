import BlueZ

/// The strings one pulls behind the scenes. Straps and adapters are named by their addresses;
/// unknown ones are passed over.
extension SimulatedBlueZ {
    private func change(_ change: (inout BluetoothWorld) -> Void) {
        catchUp()
        change(&world)
        flush()
    }

    // MARK: Straps

    /// Brings another strap into the room.
    public func add(_ strap: SimulatedStrap) {
        change { $0.add(strap) }
    }

    /// Loses the link to a strap, as by distance.
    public func drop(_ address: String) {
        change { $0.drop(address) }
    }

    /// Switches a strap off, which ends its link, or on.
    public func setOnAir(_ address: String, _ isOnAir: Bool) {
        change { $0.setOnAir(address, isOnAir) }
    }

    /// Sends one frame with exactly these bytes.
    ///
    /// - Returns: whether a client was subscribed; otherwise it is lost.
    @discardableResult
    public func emit(_ frame: [UInt8], from address: String) -> Bool {
        var isSent = false
        change { isSent = $0.emit(frame, from: address) }
        return isSent
    }

    /// Sends so many frames at once, as a radio never does, numbered in their RR interval.
    public func burst(_ count: Int, from address: String) {
        change { world in
            for number in 0..<count {
                let low = UInt8(truncatingIfNeeded: number)
                let high = UInt8(truncatingIfNeeded: (number >> 8) & 0x0f)
                _ = world.emit([0x10, 60, low, high], from: address)
            }
        }
    }

    /// Begins or ends bad frames among a strap's own.
    public func setNoise(_ address: String, _ noise: FrameNoise) {
        change { $0.straps[address]?.strap.noise = noise }
    }

    /// Changes a strap's battery, in percent; told by `Battery1` while it is connected.
    public func setBattery(_ address: String, _ percent: UInt8) {
        change { $0.setBattery(address, percent) }
    }

    /// A connected strap says that its services have changed: bluetoothd takes its objects away and reads them anew.
    ///
    /// - Parameter battery: whether it has a Battery Service from then on.
    public func changeServices(_ address: String, battery: Bool) {
        change { $0.changeServices(address, battery: battery) }
    }

    /// Whether a bond with a strap is being made.
    public func isPairing(_ address: String) -> Bool {
        world.straps[address]?.link.map { world.devices[$0]?.bonding != nil } ?? false
    }

    /// The patient types a code into a strap that asks for one.
    public func typePasskey(_ code: UInt32, into address: String) {
        change { $0.typePasskey(code, into: address) }
    }

    /// Makes a strap forget its bonds, as a change of its battery may.
    public func forgetBonds(_ address: String) {
        change { $0.straps[address]?.bonds = [] }
    }

    /// Makes straps send frames of their own accord, or only by `emit`.
    public func setSendsFrames(_ sendsFrames: Bool) {
        change { $0.sendsFrames = sendsFrames }
    }

    /// Every frame that went out, oldest first.
    public func framesSent(_ address: String) -> [SentFrame] {
        world.sent[address] ?? []
    }

    /// How many frames went out.
    public func framesSentCount(_ address: String) -> Int {
        world.sent[address]?.count ?? 0
    }

    /// Forgets the frames that went out, for runs without end.
    public func forgetFramesSent(_ address: String) {
        world.sent[address] = []
    }

    /// Whether a strap has a link.
    public func isConnected(_ address: String) -> Bool {
        world.straps[address]?.link != nil
    }

    /// Whether frames of a strap have a subscriber now.
    public func isSubscribed(_ address: String) -> Bool {
        world.subscription(to: address) != nil
    }

    /// Whether any adapter has a bond with a strap.
    public func isBonded(_ address: String) -> Bool {
        world.straps[address]?.bonds.isEmpty == false
    }

    /// Fills the air with devices that are no heart-rate sensors, or empties it of them.
    ///
    /// - Parameter count: how many, at most 4,096 at a time.
    public func flood(count: Int) throws(RecordedHeart.Fault) {
        let heart = try RecordedHeart.steady(milliseconds: 1000)
        change { world in
            for number in 0..<min(max(count, 0), 4096) {
                let beacon = SimulatedStrap.beacon(number, heart: heart)
                if world.straps[beacon.address] == nil { world.add(beacon) }
                world.setOnAir(beacon.address, true)
            }
        }
    }

    /// Lets another program on the machine discover without a filter, so that bluetoothd shows
    /// every device to everybody; or ends it.
    public func setForeignDiscovery(_ isOn: Bool) {
        // Not a bus name, so it never collides with a client.
        let client = "foreign"
        change { world in
            for address in world.adapters.keys.sorted() {
                if isOn {
                    world.beginDiscovery(of: client, on: address)
                } else {
                    world.endDiscovery(of: client, on: address)
                }
            }
        }
    }

    // MARK: Adapters

    /// Blocks an adapter, which switches it off, or unblocks it and powers it on, as by `rfkill`.
    public func setPowered(_ address: String, _ isPowered: Bool) {
        change { $0.setBlocked(address, !isPowered) }
    }

    /// Powers an adapter off as another program does.
    public func switchOff(_ address: String) {
        change { $0.setPowered(address, false) }
    }

    /// Stops bluetoothd as SIGSTOP does, or lets it go on.
    public func setFrozen(_ isFrozen: Bool) {
        change { $0.setFrozen(isFrozen) }
    }

    /// Whether an adapter is powered on.
    public func isPowered(_ address: String) -> Bool {
        world.adapters[address]?.isPowered ?? false
    }

    /// Pulls an adapter out.
    public func unplug(_ address: String) {
        change { $0.setPlugged(address, false, index: nil) }
    }

    /// Puts an adapter in; it gets the given number in `hciN`, or the one it had.
    public func plug(_ address: String, index: Int? = nil) {
        change { $0.setPlugged(address, true, index: index) }
    }

    /// Whether some client discovers.
    public var isDiscovering: Bool {
        world.adapters.values.contains { !$0.sessions.isEmpty }
    }

    // MARK: Faults and records

    /// Makes calls go wrong.
    public func inject(_ fault: ScriptedFault) {
        world.faults.add(fault)
    }

    /// Takes back the faults that are still to come.
    public func clearFaults() {
        world.faults.clear()
    }

    /// How often a method was called so far, such as `StartNotify`.
    public func callCount(_ member: String) -> Int {
        world.calls[member] ?? 0
    }

    /// Whether bluetoothd runs.
    public var isRunning: Bool { world.isRunning }

    /// Whether a pairing agent is registered.
    public var hasAgent: Bool { !world.agents.isEmpty }

    /// The object path of a device.
    public nonisolated static func devicePath(_ address: String, adapterIndex: Int = 0) -> String {
        BluetoothWorld.devicePath(address, on: SimulatedAdapter(index: adapterIndex))
    }
}
