import BlueZ

/// The strings one pulls behind the scenes of a world in memory; see `SimulatedBlueZ+Control`.
extension MemoryBus {
    /// Loses the link to a strap, as by distance.
    public func drop(_ strap: String) { change { $0.drop(strap) } }

    /// Switches a strap off, or on.
    public func setOnAir(_ strap: String, _ isOnAir: Bool) {
        change { $0.setOnAir(strap, isOnAir) }
    }

    /// Lets a phone take the strap, or gives it back.
    public func setConnectedElsewhere(_ strap: String, _ isElsewhere: Bool) {
        change {
            $0.straps[strap]?.isElsewhere = isElsewhere
            if isElsewhere { $0.drop(strap) } else { $0.tryWaitingConnects(to: strap) }
        }
    }

    /// Lets a strap send nothing though it is connected and subscribed to.
    public func setMute(_ strap: String, _ isMute: Bool) {
        change { $0.straps[strap]?.isMute = isMute }
    }

    /// Makes a strap forget its bonds, as a change of its battery may.
    public func forgetBonds(_ strap: String) { change { $0.straps[strap]?.bonds = [] } }

    /// Changes a strap's battery, in percent.
    public func setBattery(_ strap: String, _ percent: UInt8) {
        change { $0.setBattery(strap, percent) }
    }

    /// Begins or ends bad frames among a strap's own.
    public func setNoise(_ strap: String, _ noise: FrameNoise) {
        change { $0.straps[strap]?.strap.noise = noise }
    }

    /// Changes a strap's style from its next frame on.
    public func setStyle(_ strap: String, _ style: StrapStyle) {
        change { $0.straps[strap]?.packer.style = style }
    }

    /// Powers an adapter off or on, as rfkill does.
    public func setPowered(_ adapter: String, _ isPowered: Bool) {
        change { $0.setBlocked(adapter, !isPowered) }
    }

    /// Pulls an adapter out, or puts it in as another index.
    public func setPlugged(_ adapter: String, _ isPlugged: Bool, index: Int? = nil) {
        change { $0.setPlugged(adapter, isPlugged, index: index) }
    }

    /// Stops bluetoothd as SIGSTOP does, or lets it go on.
    public func setFrozen(_ isFrozen: Bool) { change { $0.setFrozen(isFrozen) } }

    /// Lets an adapter hear nothing though it scans, until it is powered off and on.
    public func deafen(_ adapter: String) { change { $0.adapters[adapter]?.isDeaf = true } }

    /// Lets calls go wrong.
    public func inject(_ fault: ScriptedFault) { change { $0.faults.add(fault) } }

    /// Ends a fault that lasts until then.
    public func end(_ fault: ScriptedFault) { change { $0.faults.remove(fault) } }

    /// Ends what `inject` began.
    public func clearFaults() { change { $0.faults.clear() } }

    /// Changes how it all behaves.
    public func setHabits(_ adjust: @Sendable (inout BlueZHabits) -> Void) {
        change { adjust(&$0.habits) }
    }

    /// Every frame of a strap that went out to a subscriber so far.
    public func framesSent(_ strap: String) -> [SentFrame] { look { $0.sent[strap] ?? [] } }

    /// Frames of a strap that went out to a subscriber so far.
    public func framesSentCount(_ strap: String) -> Int {
        look { $0.sent[strap]?.count ?? 0 }
    }
}
