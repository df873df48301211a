import BlueZ

extension ProblemReport {
    /// A strap that is asked for, and that is not there.
    static let unknownSensor = ProblemReport(
        code: .unknownSensor, message: "no such strap is paired",
        advice: "edge-gateway straps lists them")
    /// The sensor asked for a code, and there was no terminal to ask on.
    static let passkeyNeeded = ProblemReport(
        code: .passkeyNeeded, message: "not paired: the strap wants a pairing code",
        advice: "run edge-gateway pair in a terminal, or pass the code it shows: --passkey 123456")
}

extension InspectionFault {
    /// The message for the technician; `omission` is what a person left undone of what the sensor asked.
    func problem(
        passkeyGiven: Bool, _ omission: PairingSession.Omission? = nil
    ) -> ProblemReport {
        // Anything else had another cause, whatever was asked before.
        if let omission, isOfBond { return omission.problem }
        let wear = "wear the strap with moist electrodes"
        let facts: (code: ProblemCode, message: String, advice: String) =
            switch self {
            case .notHeard:
                (
                    .sensorNotHeard, "the strap does not advertise",
                    "\(wear), end its connection to phones, watches and bike computers, "
                        + "bring it nearer, and try again; if edge-gateway scan lists it under another "
                        + "address, pair that one"
                )
            case .notConnected:
                (
                    .sensorNotReached, "the strap was heard, but it cannot be connected",
                    "bring it within 2 m, move 2.4 GHz Wi-Fi and USB 3 devices away, and try again"
                )
            case .noHeartRate(isAdvertised: true):
                (
                    .noHeartRate,
                    "it advertises heart rate (0x180D), and has none to send (0x2A37)",
                    "a watch: switch its heart-rate broadcast on, which is a setting of the watch or "
                        + "of an activity, and try again while it lasts; a strap: wear it with moist electrodes"
                )
            case .noHeartRate:
                (
                    .noHeartRate, "it has no Heart Rate Service (0x180D with 0x2A37)",
                    "this is no heart-rate strap; edge-gateway scan lists those nearby"
                )
            case .wantsBond:
                (
                    .sensorRefuses, "the strap cannot be read without a bond",
                    "put it into its pairing mode (see its manual) and try again"
                )
            case .bondRefused where passkeyGiven:
                (
                    .bondRefused, "the strap did not accept the pairing code",
                    "read the six digits it shows and try again; they may change each time"
                )
            case .bondRefused:
                (
                    .bondRefused, "the strap refused to bond",
                    "it may be paired elsewhere: remove it there, put it into its pairing mode, "
                        + "and try again"
                )
            case .addressChanges:
                (
                    .addressChanges,
                    "the strap changes its Bluetooth address every few minutes; the gateway can "
                        + "recognise it only by a bond, and it refused one",
                    "put it into its pairing mode (see its manual), remove its pairing with phones, "
                        + "and try again"
                )
            case .noIdentity:
                (
                    .addressChanges,
                    "the strap changes its Bluetooth address and does not say, when it is bonded, how to "
                        + "recognise it: it would be lost at its next start",
                    "switch its private or random address off, if its settings have that; otherwise use "
                        + "another strap"
                )
            case .taken:
                (
                    .sensorTaken,
                    "another program on this machine has the strap's heart rate to itself",
                    "end that program (it called AcquireNotify of 0x2A37), and try again"
                )
            case .classic:
                (
                    .sensorIsClassic,
                    "bluetoothd connects to this device over classic Bluetooth, where it has no heart rate",
                    "set ControllerMode = le under [General] in /etc/bluetooth/main.conf, systemctl "
                        + "restart bluetooth, and try again; classic devices, such as headsets, then "
                        + "no longer work on this machine"
                )
            case .unanswered:
                (
                    .sensorNotAnswering, "the strap is connected but does not answer",
                    "take its battery out for a minute, then try again"
                )
            case .tooSlow:
                (
                    .sensorNotAnswering, "the strap was reached, but pairing took too long",
                    "keep it worn and within 2 m, wait half a minute and try again; if it goes on, "
                        + "edge-gateway doctor tells whether this machine is overloaded"
                )
            case .adapterFull:
                (
                    .adapterFull, "the Bluetooth adapter takes no further link",
                    "plug in a second adapter, or forget a strap that is not used"
                )
            case .noRadio:
                (
                    .radioLost, "bluetoothd or the adapter went away or does not answer",
                    "see edge-gateway status, then try again"
                )
            }
        return ProblemReport(
            code: facts.code, message: "not paired: " + facts.message, advice: facts.advice)
    }
}

extension InspectionFault {
    /// Whether it can be due to a question that was not answered.
    fileprivate var isOfBond: Bool {
        switch self {
        case .bondRefused, .addressChanges, .tooSlow, .unanswered, .wantsBond: true
        default: false
        }
    }
}

extension PairingSession.Omission {
    fileprivate var problem: ProblemReport {
        switch self {
        case .nobodyThere: .passkeyNeeded
        case .unanswered:
            ProblemReport(
                code: .passkeyNeeded,
                message: "not paired: the strap's question was not answered in time",
                advice: "run edge-gateway pair again, and answer within half a minute")
        case .declined:
            ProblemReport(
                code: .bondRefused,
                message: "not paired: the strap's question was answered with no",
                advice: "run edge-gateway pair again; if the codes differ, it may be another strap"
            )
        case .notTyped:
            ProblemReport(
                code: .bondRefused,
                message:
                    "not paired: the code was not typed into the strap in time, or not correctly",
                advice:
                    "run edge-gateway pair again, and type the code that it shows into the strap "
                    + "within half a minute")
        }
    }
}
