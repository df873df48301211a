/// The conditions that keep the gateway from being well: one case an item of `status`.
///
/// The raw values are a stable contract. The table in docs/operate/operations.md and the enumeration in
/// docs/api.yaml are compared with this one by a test. Of the radio and the straps the order counts: what comes behind
/// an item that explains the silence of every strap is not known while it lasts.
public enum HealthName: String, Codable, Sendable, CaseIterable {
    case busAbsent = "bus-absent"
    case bluetoothdAbsent = "bluetoothd-absent"
    case bluetoothdHung = "bluetoothd-hung"
    case bluetoothdRefuses = "bluetoothd-refuses"
    case noAdapter = "no-adapter"
    case radioOff = "radio-off"
    case radioSilent = "radio-silent"
    case adapterFull = "adapter-full"
    case strapUnreachable = "strap-unreachable"
    case strapTaken = "strap-taken"
    case strapIsClassic = "strap-is-classic"
    case strapMoved = "strap-moved"
    case strapLeaves = "strap-leaves"
    case bondLost = "bond-lost"
    case doubledStream = "doubled-stream"
    case batteryLow = "battery-low"
    case strapSilent = "strap-silent"
    case strapIntermittent = "strap-intermittent"
    case noHeartRate = "no-heart-rate"
    case strapNotStored = "strap-not-stored"
    case clockUntrusted = "clock-untrusted"
    case clockUnknown = "clock-unknown"
    case clockStepped = "clock-stepped"
    case storeUnreadable = "store-unreadable"
    case storeUnwritable = "store-unwritable"
    case diskNearlyFull = "disk-nearly-full"
    case storeStalled = "store-stalled"
    case storeMissing = "store-missing"
    case storeDamaged = "store-damaged"
    case storeSalvaged = "store-salvaged"
    case registryUnwritten = "registry-unwritten"
    case queueNearlyFull = "queue-80-percent"
    case queueFull = "queue-full"
    case samplesLost = "samples-lost"
    case enrollAgain = "enroll-again"
    case consentMissing = "consent-missing"
    case patientHeld = "patient-held"
    case deliveryHeld = "delivery-held"
    case exchangeUnreachable = "exchange-unreachable"
    case fallingBehind = "falling-behind"
    case deliveryStalled = "delivery-stalled"
    case deadLetters = "dead-letters"
    case notEnrolled = "not-enrolled"
    case boardChanged = "board-changed"
    case pageUnavailable = "page-unavailable"
    case serviceStopped = "service-stopped"
    case alertNotDelivered = "alert-not-delivered"

    /// How much an item costs while it lasts.
    public enum Severity: String, Codable, Sendable {
        /// Heartbeats are lost, or do not arrive where they belong.
        case error
        /// Heartbeats still arrive; a person acts before they stop.
        case warning
    }

    /// How much it costs while it lasts.
    public var severity: Severity { row.severity }
    /// The meaning, one line.
    public var meaning: String { row.meaning }
    /// The remedy, for a person, one line.
    public var remedy: String { row.remedy }

    /// Whether the item keeps what straps send now from the store or from a destination. Every error does unless its
    /// row says otherwise, so that an oversight withholds the sign of life and never gives it falsely.
    var stopsHeartbeats: Bool { row.stopsHeartbeats }
    /// The straps or deliveries whose silence the item explains; nil for an item that explains none.
    var explains: Explanation? { row.explains }

    /// The effects that an item explains while it lasts, so that ``HealthRules`` does not report its effect as well.
    enum Explanation {
        case everyItem, everyStrap, strapsWithoutPlace, itsStrap, theStore, itsDelivery
    }

    private struct Row {
        var severity: Severity
        var meaning: String
        var remedy: String
        var explains: Explanation?
        var stopsHeartbeats: Bool

        init(
            _ severity: Severity, _ meaning: String, _ remedy: String,
            explains: Explanation? = nil, stopsHeartbeats: Bool? = nil
        ) {
            self.severity = severity
            self.meaning = meaning
            self.remedy = remedy
            self.explains = explains
            self.stopsHeartbeats = stopsHeartbeats ?? (severity == .error)
        }
    }

    // One switch, so that the compiler asks for the words of a new name.
    private var row: Row {
        switch self {
        // The radio.
        case .busAbsent:
            Row(
                .error, "the system bus does not answer; nothing is recorded",
                "systemctl status dbus; the gateway reconnects by itself",
                explains: .everyStrap)
        case .bluetoothdAbsent:
            Row(
                .error, "bluetoothd is not running; nothing is recorded",
                "systemctl status bluetooth; the gateway resumes by itself",
                explains: .everyStrap)
        case .bluetoothdHung:
            Row(
                .error, "bluetoothd runs but does not answer; nothing is recorded",
                "systemctl restart bluetooth; the gateway resumes by itself",
                explains: .everyStrap)
        case .bluetoothdRefuses:
            Row(
                .error,
                "bluetoothd runs, and it or the D-Bus policy does not let the gateway in; nothing is "
                    + "recorded",
                "sudo apt install --reinstall edge-gateway brings the D-Bus policy back; without the "
                    + "package: add the daemon's user to the group bluetooth, and systemctl restart "
                    + "edge-gateway; the gateway asks again every 30 s",
                explains: .everyStrap)
        case .noAdapter:
            Row(
                .error, "there is no Bluetooth adapter; nothing is recorded",
                "plug one in, or check: rfkill list; dmesg | grep -i bluetooth; on a Pi, "
                    + "dtoverlay=disable-bt must not be set",
                explains: .everyStrap)
        case .radioOff:
            Row(
                .error, "the Bluetooth adapter is powered off; nothing is recorded",
                "rfkill unblock bluetooth; bluetoothctl power on",
                explains: .everyStrap)
        case .radioSilent:
            Row(
                .error,
                "an adapter has heard no Bluetooth device at all for minutes, though it was "
                    + "listening; the gateway power-cycles it up to 4 times an hour",
                "plug the adapter in again, or restart the machine; a USB adapter on an extension "
                    + "lead hangs less often",
                stopsHeartbeats: false)
        case .adapterFull:
            Row(
                .error, "an adapter carries as many links as it can; a strap waits for a place",
                "plug in a second adapter, or forget a strap that is not used",
                explains: .strapsWithoutPlace)
        // Straps.
        case .strapUnreachable:
            Row(
                .error, "a strap is heard, and every attempt to connect to it fails",
                "end its connection to phones and watches, bring it nearer, take its battery out "
                    + "for ten seconds",
                explains: .itsStrap)
        case .strapTaken:
            Row(
                .error, "another program on this machine has a strap's heart rate to itself",
                "end that program, which called AcquireNotify; the gateway goes on by itself",
                explains: .itsStrap)
        case .strapIsClassic:
            Row(
                .error,
                "bluetoothd connects to a strap over classic Bluetooth, where it has no heart rate",
                "set ControllerMode = le under [General] in /etc/bluetooth/main.conf, and systemctl "
                    + "restart bluetooth; classic devices then no longer work on this machine",
                explains: .itsStrap)
        case .strapMoved:
            Row(
                .error,
                "a strap is not heard, and another with its name is, under another address",
                "if it is the same one, it takes a new address at each start: edge-gateway pair that "
                    + "address each time, or switch its random address off, or use another strap",
                explains: .itsStrap)
        case .strapLeaves:
            Row(
                .warning,
                "a strap's link ends at the same age again and again: the kernel refuses the "
                    + "connection parameters that it asks for, or another program ends it",
                "end other programs that connect to straps; update the kernel, or set "
                    + "MaxConnectionInterval=400 under [LE] in /etc/bluetooth/main.conf and restart "
                    + "bluetooth")
        case .bondLost:
            Row(
                .error,
                "a strap refuses the bond that it had with this gateway, or this machine has lost it",
                "edge-gateway pair STRAP, with the strap in its pairing mode",
                explains: .itsStrap)
        case .doubledStream:
            Row(
                .warning, "every frame of a strap comes twice",
                "systemctl restart bluetooth; end other programs that read it")
        case .batteryLow:
            Row(
                .warning, "a strap's battery is below sensors.battery_low_percent (15)",
                "change the strap's battery; recording goes on until it is empty")
        case .strapSilent:
            Row(
                .error, "a paired strap has sent nothing for a minute",
                "wear it, moisten the electrodes, end its connection to phones, check its battery")
        case .strapIntermittent:
            Row(
                .error,
                "a strap comes and goes: more than a quarter of its data is missing; the item ends "
                    + "when it is less than a tenth",
                "bring strap and gateway nearer to each other, change the strap's battery, moisten "
                    + "the electrodes and tighten it")
        case .noHeartRate:
            Row(
                .error, "a strap has sent frames without a heart rate for five minutes",
                "wear it and moisten the electrodes; if its frames cannot be read: edge-gateway bugreport"
            )
        case .strapNotStored:
            Row(
                .error,
                "a strap sends, and none of its frames has been stored for a minute; or it is paired, and the gateway has not recorded it for 10 s",
                "systemctl restart edge-gateway; if it comes back: edge-gateway bugreport")
        // The store.
        case .clockUntrusted:
            Row(
                .error,
                "the clock is not synchronised, or beyond credible years; without an earlier trusted time of this "
                    + "boot nothing is sent",
                "timedatectl has to say \"System clock synchronized: yes\"; or set clock.trust: always if this clock is right"
            )
        case .clockStepped:
            Row(
                .warning,
                "the clock was set by more than a trusted clock may be wrong, within the last day; samples "
                    + "from before may have been delivered with wrong times",
                "look at the time server: timedatectl timesync-status, or chronyc sources; queue export names "
                    + "time_uncertainty_ms of each sample")
        case .clockUnknown:
            Row(
                .error,
                "samples of a boot whose clock was never trusted, or jumped to another date, are held: no "
                    + "clock gives them their time any more",
                "edge-gateway queue release lists such boots, and sets the time of one once you know "
                    + "it")
        case .storeUnreadable:
            Row(
                .error, "the store cannot be read",
                "check the disk and journalctl -u edge-gateway; edge-gateway queue verify",
                explains: .everyItem)
        case .storeUnwritable:
            Row(
                .error, "the disk takes no samples; they wait in memory, 8,192 at most",
                "free space on the disk, or replace the card",
                explains: .theStore)
        case .diskNearlyFull:
            Row(
                .warning,
                "less than 32 MB are free on the disk of the state directory; samples are still stored",
                "free space on the disk, before new samples find none")
        case .storeStalled:
            Row(
                .error, "frames come and nothing has been written for a minute",
                "check the disk (dmesg, df); systemctl restart edge-gateway")
        case .storeMissing:
            Row(
                .error,
                "the store that was here is gone; the samples that waited in it are not delivered",
                "put the file back from a copy or another card; edge-gateway queue acknowledge "
                    + "ends the item",
                stopsHeartbeats: false)
        case .storeDamaged:
            Row(
                .error, "rows of the store fail their checksum",
                "replace the card soon; edge-gateway queue verify lists what is damaged",
                stopsHeartbeats: false)
        case .storeSalvaged:
            Row(
                .error, "the store was broken; a new one has everything that could be read",
                "replace the card; edge-gateway queue acknowledge ends the item",
                stopsHeartbeats: false)
        case .registryUnwritten:
            Row(
                .warning,
                "the list of straps and patients cannot be written beside the store: if the store breaks now, a "
                    + "fresh one may have an older list",
                "free space on the disk, or replace the card")
        case .queueNearlyFull:
            Row(
                .warning, "samples that wait take four fifths of storage.max_megabytes",
                "restore delivery, raise storage.max_megabytes, or export and purge")
        case .queueFull:
            Row(
                .error,
                "the store is at its limit: new samples are refused, or the oldest that wait are "
                    + "dropped, as storage.full_policy says; all are counted",
                "restore delivery, raise storage.max_megabytes, or export and purge",
                explains: .theStore)
        case .samplesLost:
            Row(
                .error,
                "samples were refused or dropped since a person last looked: the store was full or "
                    + "could not be written, or a destination could not take them in time",
                "edge-gateway queue status counts them by reason; edge-gateway queue acknowledge "
                    + "ends the item",
                stopsHeartbeats: false)
        // Deliveries and services.
        case .enrollAgain:
            Row(
                .error,
                "this gateway is no longer authorized there, or the tokens or secrets cannot be "
                    + "read; nothing is sent there, and samples are kept",
                "edge-gateway enroll LINK with a new invitation of the same patient, or enroll "
                    + "--practitioner-key-file FILE --name NAME; for another destination, "
                    + "destination add with its settings and --name NAME; tokens that become "
                    + "readable again are used within a minute",
                explains: .itsDelivery)
        case .consentMissing:
            Row(
                .error,
                "the patient has not consented to heart rate, or withdrew; nothing is sent, and samples are kept",
                "the patient consents at the exchange; delivery resumes by itself",
                explains: .itsDelivery)
        case .patientHeld:
            Row(
                .error,
                "the practitioner's key may not deliver for the patient who wears the strap; that "
                    + "patient's samples are held, the others' go on",
                "the patient must share an organization with the practitioner; or pair the strap "
                    + "for the right patient")
        case .deliveryHeld:
            Row(
                .error,
                "the delivery is paused, or the destination refuses for another reason, which the message "
                    + "names; nothing is sent there, and samples are kept",
                "docs/operate/operations.md, \"Why a delivery is held\"",
                explains: .itsDelivery)
        case .exchangeUnreachable:
            Row(
                .error, "deliveries fail; samples are kept",
                "check network, DNS, proxy and firewall; delivery resumes by itself",
                explains: .itsDelivery)
        case .fallingBehind:
            Row(
                .warning, "samples have come faster than they were delivered for an hour",
                "check the network and the load of the destination; a resolution of 10s or 60s "
                    + "sends less (docs/operate/scale.md)")
        case .deliveryStalled:
            Row(
                .error,
                "samples have waited for ten minutes, or for two intervals of a slower delivery, and none was delivered",
                "systemctl restart edge-gateway; if it comes back: edge-gateway bugreport")
        case .deadLetters:
            Row(
                .error, "a destination refused samples for good",
                "edge-gateway queue dead list says why; please report it",
                stopsHeartbeats: false)
        case .notEnrolled:
            Row(
                .error, "a strap records, or recorded, without an enrollment; samples are held",
                "edge-gateway enroll LINK, or edge-gateway destination add KIND; then edge-gateway "
                    + "pair STRAP again; for a strap that was forgotten or paired for somebody "
                    + "else: edge-gateway queue assign; if somebody only tried it: edge-gateway "
                    + "queue discard")
        case .pageUnavailable:
            Row(
                .warning, "the live page or the control socket cannot be served; recording goes on",
                "free the address, or change page.listen; the gateway tries again by itself")
        case .boardChanged:
            Row(
                .error,
                "the store was on other hardware before, as after a memory card was copied or moved; "
                    + "nothing is published to brokers, so that no two gateways do it under one name",
                "if the card or the store was moved here: edge-gateway confirm board; if it was copied: "
                    + "give this gateway a name of its own at each broker first (destination add with "
                    + "another gateway=NAME and --replace)",
                explains: .itsDelivery)
        case .serviceStopped:
            Row(
                .error, "a part of the gateway has stopped; the gateway starts it again by itself",
                "if the item stays: systemctl restart edge-gateway, then edge-gateway bugreport",
                explains: .itsDelivery)
        case .alertNotDelivered:
            Row(
                .warning,
                "a message about a health item could not be sent; it waits, and the gateway tries again",
                "edge-gateway alert list says why, and edge-gateway alert test NAME tries it; if its "
                    + "address or password has changed: edge-gateway alert add with that --name, and --replace"
            )
        }
    }
}
