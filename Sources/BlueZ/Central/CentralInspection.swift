import Basics

/// Inspects a sensor: its services, its device information, and a bond if it requires one.
extension Central {
    /// How long an inspected sensor stays connected, for `watch` to take the link over.
    public static let inspectLinger = Duration.seconds(10)
    /// How long to listen for a sensor that is not heard at all: straps advertise every second.
    public static let hearPatience = Duration.seconds(12)
    /// How long a sensor that is heard may take to be connected to: two attempts.
    public static let reachPatience = Duration.seconds(14)
    /// How long the readings of a sensor that streams may take together: they only describe it.
    static let readPatience = Duration.seconds(10)
    /// The pause between two checks of a link that is coming up.
    static let inspectPause = Duration.milliseconds(50)

    /// Connects to a sensor, makes sure that it notifies, and reads some of its characteristics.
    ///
    /// A sensor that is not watched stays connected for `inspectLinger`, so that a `watch` that
    /// follows finds the link up.
    ///
    /// - Parameters:
    ///   - address: of the sensor, as BlueZ spells it.
    ///   - service: the 128-bit UUID that the sensor must have.
    ///   - characteristic: the 128-bit UUID whose notifications the sensor must have.
    ///   - reading: 128-bit UUIDs of the characteristics to read.
    ///   - agent: asks a person for what a bond needs; without one no bond is made. A bond that the
    ///     sensor has forgotten is then removed and made anew.
    ///   - begun: since when a person waits; now, if nil.
    ///   - deadline: from then to the answer: by default 45 s, and up to 100 s while a person is asked.
    /// - Throws: why it failed, at the deadline or as soon as waiting is pointless. The link of the attempt
    ///   is being ended then, and a bond that it made has been removed, if bluetoothd did so in time.
    public func inspect(
        address: String, service: String, characteristic: String, reading: [String],
        agent: PairingAgent? = nil, since begun: Uptime? = nil, deadline: Duration? = nil
    ) async throws(InspectionFault) -> Inspection {
        let address = address.uppercased()
        let begun = begun ?? clock.now()
        let number = begin(
            watch(address, service, characteristic, isTemporary: true),
            InspectionTime(begun: begun, limit: deadline))
        defer { underWay[number] = nil }
        defer {
            Task { [clock] in
                await clock.sleep(Self.inspectLinger)
                self.letGo(afterInspection: number)
            }
        }
        if let agent { beginBonding(number, agent) }
        await awaitStream(since: begun, number)
        seek(number, false)
        guard let link = link(of: number), link.machine.isStreaming, let client,
            let path = link.device, let device = devices[link.address]?[path],
            !(link.hadPrivateAddress && device.hasPrivateAddress)
        else {
            let fault = fault(since: begun, number)
            // Nothing of a failed attempt stays: no link, and no bond that it has made. With that of a strap that is
            // recorded, its recording goes on.
            if let link = link(of: number) {
                await cancelBonding(link, within: timeLeft(number, atMost: InspectionTime.reserve))
            }
            if agent != nil {
                await endBonding(
                    number, of: address, within: timeLeft(number, atMost: InspectionTime.reserve))
            }
            if link(of: number)?.isTemporary == true, let bond = bond(madeBy: number) {
                await removeBond(
                    bond, within: timeLeft(number, atMost: InspectionTime.reserve))
            }
            letGo(afterInspection: number)
            throw fault
        }
        if agent != nil {
            await endBonding(
                number, of: address, within: timeLeft(number, atMost: Self.readPatience))
        }
        let present = await client.characteristics(ofDevice: path)
        var values: [String: Result<[UInt8], DBusFault>] = [:]
        let readEnd = clock.now() + timeLeft(number, atMost: Self.readPatience)
        for uuid in reading {
            guard let found = present.first(where: { $0.uuid == uuid.lowercased() }) else {
                values[uuid] = .failure(Self.noCharacteristic)
                continue
            }
            do throws(DBusFault) {
                values[uuid] = .success(
                    try await client.readValue(
                        found.path, deadline: max(.zero, readEnd - clock.now())))
            } catch {
                values[uuid] = .failure(error)
            }
        }
        return Inspection(
            sighting: sighting(of: device),
            batteryPercent: devices[link.address]?[path]?.batteryPercent,
            values: values, bond: bond(madeBy: number),
            end: underWay[number]?.time.end ?? clock.now())
    }

    /// Begins an inspection of a link, and returns its number.
    private func begin(_ link: WatchedLink, _ time: InspectionTime) -> Int {
        inspections += 1
        underWay[inspections] = InspectionUnderWay(time: time, link: link)
        link.inspection = inspections
        link.reasons = []
        link.cacheFailures = 0
        link.soughtSince = clock.now()
        link.hadPrivateAddress = false
        handle(.awaited, link)
        return inspections
    }

    private func timeLeft(_ number: Int, atMost own: Duration) -> Duration {
        underWay[number]?.time.left(at: clock.now(), atMost: own) ?? own
    }

    /// The device with the bond that an inspection has made, if it has made one.
    private func bond(madeBy number: Int) -> Device? {
        guard let link = link(of: number), link.bondMadeBy == number, isPaired(link) else {
            return nil
        }
        return link.device.flatMap { devices[link.address]?[$0] }
    }

    /// A call that is not answered in time is carried out all the same, later.
    func removeBond(
        _ bond: Device, within limit: Duration = BlueZClient.plainDeadline
    ) async {
        guard let client else { return }
        if let link = links[bond.address] { await letComeUp(link) }
        try? await client.remove(device: bond.path, adapter: bond.adapter, deadline: limit)
    }

    /// Undoes the bond that an inspection has made, if what follows it fails.
    public func undo(_ inspection: Inspection) async {
        guard let bond = inspection.bond, devices[bond.address]?[bond.path]?.isPaired == true
        else { return }
        await removeBond(bond, within: InspectionTime.reserve)
    }

    /// A person waits for a sensor: hearing it goes before trying to connect to others.
    private func seek(_ number: Int, _ isSought: Bool) {
        guard sought.contains(number) != isSought else { return }
        if isSought { sought.insert(number) } else { sought.remove(number) }
        for path in adapters.keys { handle(.scanFirst(!sought.isEmpty), radioAt: path) }
        settle()
    }

    static let declined = DBusFault(
        name: "org.bluez.Error.AuthenticationRejected", text: "not agreed to")
    static let noCharacteristic = DBusFault(
        name: "org.bluez.Error.DoesNotExist", text: "no such characteristic")

    /// Ends the link of a sensor that is neither recorded nor inspected by now.
    private func letGo(afterInspection number: Int) {
        guard let link = links.values.first(where: { $0.inspection == number }), link.isTemporary
        else { return }
        unwatch(address: link.address)
    }

    private func awaitStream(since begun: Uptime, _ number: Int) async {
        while let time = underWay[number]?.time, clock.now() < time.searchEnd, !Task.isCancelled {
            guard let link = link(of: number), !link.machine.isStreaming else { return }
            // A refusal does not get better by waiting.
            if link.isDeclined { return }
            if link.bondFault != nil, !link.machine.hasLink { return }
            if isHopeless(link, since: begun, number) { return }
            if link.agent != nil { helpBonding(link) }
            await clock.sleep(Self.inspectPause)
        }
    }

    /// Whether nothing will come of waiting on.
    private func isHopeless(
        _ link: WatchedLink, since begun: Uptime, _ number: Int
    ) -> Bool {
        let now = clock.now()
        let places = devices[link.address] ?? [:]
        // The first time bluetoothd may have remembered services that it no longer has.
        let isOther = !places.values.contains { $0.offers(service: settings.service) }
        if !isOther { link.hasAdvertisedService = true }
        if link.cacheFailures > (isOther ? 0 : 1) { return true }
        // There is no person to confirm a bond.
        if link.agent == nil, wantsBond(link) { return true }
        // A person has to end that elsewhere.
        if !link.reasons.isDisjoint(with: [.error(.taken), .error(.classic), .error(.denied)]) {
            return true
        }
        switch link.machine.state {
        case .resolving, .subscribing, .streaming, .draining:
            link.soughtSince = now
        case .seen where link.machine.isQueued:
            // Others have the radio: this sensor is not to blame.
            link.soughtSince = now
        default: break
        }
        let isHeard = places.values.contains { device in
            device.isConnected
                || heardAt[device.path].map { $0 >= begun - Self.heardFor } ?? false
        }
        seek(number, !isHeard)
        let patience = isHeard ? Self.reachPatience : Self.hearPatience
        return now - (link.soughtSince ?? begun) >= patience
    }

    private func wantsBond(_ link: WatchedLink) -> Bool {
        !link.reasons.isDisjoint(with: [.error(.auth), .error(.permission)])
    }

    private func fault(since begun: Uptime, _ number: Int) -> InspectionFault {
        guard let link = link(of: number) else { return .notHeard }
        if link.isDeclined { return .bondRefused(Self.declined) }
        if link.hadPrivateAddress, link.bondFault != nil { return .addressChanges }
        if link.hadPrivateAddress, link.machine.isStreaming { return .noIdentity }
        if let fault = link.bondFault { return .bondRefused(fault) }
        let reasons = link.reasons
        if [.suspended(.daemon), .suspended(.adapter)].contains(link.machine.state)
            || reasons.contains(.error(.denied)) || pulse.hungSince != nil
        {
            return .noRadio
        }
        if reasons.contains(.error(.taken)) { return .taken }
        if reasons.contains(.error(.classic)) { return .classic }
        let isOver = underWay[number].map { clock.now() >= $0.time.searchEnd } ?? true
        if isOver, link.isPairPending { return .tooSlow }
        if wantsBond(link) { return .wantsBond }
        if reasons.contains(.error(.slots)) { return .adapterFull }
        if reasons.contains(.error(.cache)) {
            return .noHeartRate(isAdvertised: link.hasAdvertisedService)
        }
        if reasons.contains(.subscribeTimeout) {
            return link.agent == nil ? .wantsBond : .unanswered
        }
        let wasHeard = (devices[link.address] ?? [:]).keys.contains {
            heardAt[$0].map { $0 >= begun - Self.heardFor } ?? false
        }
        // Also where others had the radio all the time.
        if isOver, link.machine.hasLink || link.machine.isQueued { return .tooSlow }
        return wasHeard ? .notConnected : .notHeard
    }

    // MARK: One characteristic

    /// Reads a characteristic of a sensor whose link is up.
    public func read(_ uuid: String, of address: String) async throws(DBusFault) -> [UInt8] {
        let (client, path) = try await characteristic(uuid, of: address)
        return try await client.readValue(path)
    }

    /// Writes a characteristic of a sensor whose link is up, with response.
    public func write(
        _ bytes: [UInt8], to uuid: String, of address: String
    ) async throws(DBusFault) {
        let (client, path) = try await characteristic(uuid, of: address)
        try await client.writeValue(path, bytes)
    }

    private func characteristic(
        _ uuid: String, of address: String
    ) async throws(DBusFault) -> (BlueZClient, String) {
        guard let client, let device = links[address.uppercased()]?.device,
            let found = await client.characteristics(ofDevice: device)
                .first(where: { $0.uuid == uuid.lowercased() })
        else { throw Self.noCharacteristic }
        return (client, found.path)
    }
}

/// The findings of `Central.inspect`.
public struct Inspection: Sendable {
    /// The sensor, as it was heard last.
    public let sighting: Sighting
    /// In percent, where bluetoothd reports it.
    public let batteryPercent: Int?
    /// For each UUID that was asked for, its value or why there is none.
    public let values: [String: Result<[UInt8], DBusFault>]
    /// The device with the bond that it has made.
    let bond: Device?
    /// Whether it has made a bond.
    public var hasBonded: Bool { bond != nil }
    /// When whoever waits for the sensor must have their answer.
    public let end: Uptime
}

/// Why a sensor could not be inspected.
public enum InspectionFault: Error, Sendable, Hashable {
    /// Not one advert: it is off, away, or connected to something else.
    case notHeard
    /// Heard, and not to be connected to.
    case notConnected
    /// Connected, without the service or the characteristic that was asked for; whether it advertises the service
    /// all the same, as a watch does that could send and is not set to.
    case noHeartRate(isAdvertised: Bool)
    /// It allows no subscription without a bond, and there was no agent.
    case wantsBond
    /// A bond was tried for and refused.
    case bondRefused(DBusFault)
    /// Its address changes every few minutes, and no bond could be made to know it by.
    case addressChanges
    /// The same, and a bond was made in which it did not tell its identity.
    case noIdentity
    /// Another program has its notifications to itself.
    case taken
    /// bluetoothd connects to it over classic Bluetooth.
    case classic
    /// It does not answer to the subscription.
    case unanswered
    /// Its link or its bond was still on the way when the time was over.
    case tooSlow
    /// The adapter carries no further link.
    case adapterFull
    /// bluetoothd or the adapter went away meanwhile, or bluetoothd hangs.
    case noRadio
}
