import BlueZ
import GATTHeartRate
import OfflineQueue

/// One key of the configuration file.
///
/// The table below is the only list of keys: the loader, `config show`, `config check` and the
/// environment overrides all read it.
struct SettingKey: Sendable {
    enum Kind: Sendable, Equatable {
        case text
        case integer(ClosedRange<Int>)
        case flag
        case choice([String])
        /// Some of these, with commas between, or `none`.
        case choices([String])
        /// Texts: a list of YAML, or one text with commas between.
        case list
    }

    /// Dotted name, such as `clock.trust`.
    let name: String
    let kind: Kind
    /// The default as it would stand in the file; empty means "not set".
    let fallback: String
    /// One line for people: what it does, unit included.
    let help: String

    /// `clock.trust` is overridden by `EDGE_GATEWAY_CLOCK_TRUST`.
    var environmentName: String {
        "EDGE_GATEWAY_"
            + String(name.map { $0 == "." ? "_" : $0 }).uppercased()
    }
}

extension SettingKey {
    static let table: [SettingKey] = [
        SettingKey(
            name: "state", kind: .text, fallback: "/var/lib/edge-gateway",
            help: "directory of the store and the tokens, mode 0700"),
        SettingKey(
            name: "socket", kind: .text, fallback: "/run/edge-gateway/control.sock",
            help: "control socket that the commands talk to"),
        SettingKey(
            name: "control.change_group", kind: .text, fallback: "",
            help:
                "group whose members may change things by commands; empty: every user of the socket"
        ),
        SettingKey(
            name: "gateway.name", kind: .text, fallback: "",
            help: "what people call this gateway, up to 64 characters; empty: the host name"),
        SettingKey(
            name: "gateway.site", kind: .text, fallback: "",
            help: "where it is, such as a ward, up to 64 characters"),
        SettingKey(
            name: "gateway.labels", kind: .text, fallback: "",
            help: "up to 16 more words about it, such as floor=3, owner=cardiology"),
        SettingKey(
            name: "page.listen", kind: .text, fallback: "",
            help: "address and port of the live page, such as 127.0.0.1:8470; empty: no page"),
        SettingKey(
            name: "page.token_file", kind: .text, fallback: "",
            help: "file with the token that shows the whole page; needed beyond this machine"),
        SettingKey(
            name: "fleet.token_file", kind: .text, fallback: "",
            help:
                "file with the token that opens /v1/fleet and what is below it at the page's port, and nothing else"
        ),
        SettingKey(
            name: "fleet.secret_file", kind: .text, fallback: "",
            help:
                "file with a secret that the gateways of a fleet share: its screen then knows a strap that two of "
                + "them have; empty: it does not"),
        SettingKey(
            name: "metrics.token_file", kind: .text, fallback: "",
            help: "file with the token that opens /metrics at the page's port, and nothing else"),
        SettingKey(
            name: "page.url", kind: .text, fallback: "",
            help: "beginning of links to the page, where a proxy serves it"),
        SettingKey(
            name: "page.order", kind: .list, fallback: "",
            help:
                "names of straps in the order of their places on every screen, as a list or with commas between; "
                + "the others follow by name"),
        SettingKey(
            name: "log.level", kind: .choice(["debug", "info", "notice", "warning", "error"]),
            fallback: "info", help: "least severe message that is logged to standard error"),
        SettingKey(
            name: "clock.trust", kind: .choice(["kernel", "always"]), fallback: "kernel",
            help: "kernel: times count once NTP has set the clock; always: for machines without NTP"
        ),
        SettingKey(
            name: "clock.latest_year", kind: .integer(2026...2199),
            fallback: "\(ClockTrust.latestYear)",
            help: "the last year in which a clock is trusted: one beyond it is broken"),
        SettingKey(
            name: "decode.policy", kind: .choice(["strict", "clinical", "lenient"]),
            fallback: "clinical", help: "what to do with disputed heart-rate frames"),
        SettingKey(
            name: "sensors.battery_low_percent", kind: .integer(0...100), fallback: "15",
            help: "battery charge, in percent, below which `battery-low` is reported"),
        SettingKey(
            name: "bluetooth.power_on", kind: .choice(PowerPolicy.allCases.map(\.rawValue)),
            fallback: PowerPolicy.always.rawValue,
            help:
                "always: an adapter that is off is powered on; if-ours: only one that the gateway "
                + "switched off to recover it; never: the gateway leaves its power alone"),
        SettingKey(
            name: "radio.reset_socket", kind: .text, fallback: "/run/edge-gateway-radio/reset.sock",
            help: "socket of the radio-reset helper; without the socket, the helper is not used"),
        SettingKey(
            name: "storage.commit_samples", kind: .integer(1...1000), fallback: "500",
            help: "samples kept in memory before they are committed"),
        SettingKey(
            name: "storage.commit_seconds", kind: .integer(1...60), fallback: "5",
            help: "longest time, in seconds, that a sample waits for its commit"),
        SettingKey(
            name: "storage.keep_delivered_hours", kind: .integer(0...8760), fallback: "24",
            help: "hours that delivered samples stay in the store"),
        SettingKey(
            name: "storage.max_megabytes", kind: .integer(16...1_000_000), fallback: "2048",
            help: "megabytes that the store may fill"),
        SettingKey(
            name: "storage.full_policy", kind: .choice(["refuse-new", "keep-newest"]),
            fallback: "refuse-new",
            help: "what a full store does: refuse new samples, or drop the oldest that wait"),
        SettingKey(
            name: "storage.max_age_days", kind: .integer(0...3650), fallback: "0",
            help: "days after which samples that wait are dropped; 0: they wait for ever"),
        SettingKey(
            name: "uplink.withhold", kind: .choices(Plausibility.all.names),
            fallback: "contactLost,zeroRate,outOfRange,uncertainTime",
            help:
                "flags of samples that are not delivered; there are also frozenRR, impossibleJump, "
                + "estimatedTime and possibleCopy"),
        SettingKey(
            name: "uplink.interval_seconds", kind: .integer(0...86400), fallback: "0",
            help:
                "seconds between deliveries while samples come in; 0: to an exchange 5 to 30, by how "
                + "quickly it answers, to other systems 30"),
        SettingKey(
            name: "uplink.batch_samples", kind: .integer(1...100), fallback: "100",
            help: "largest number of samples in one bundle"),
        SettingKey(
            name: "uplink.allow_plain_http", kind: .flag, fallback: "false",
            help: "permit http:// to hosts other than this machine (tests only: tokens go in clear)"
        ),
        SettingKey(
            name: "uplink.ca_file", kind: .text, fallback: "",
            help: "PEM file of the certificate authority to trust instead of the system's"),
        SettingKey(
            name: "uplink.proxy", kind: .text, fallback: "",
            help: "URL of the proxy for deliveries; empty: as https_proxy and no_proxy say"),
        SettingKey(
            name: "uplink.client_certificate_file", kind: .text, fallback: "",
            help: "PEM file of the certificate for servers that ask for one of the client"),
        SettingKey(
            name: "uplink.client_key_file", kind: .text, fallback: "",
            help: "PEM file of that certificate's key; other users must not be able to read it"),
        SettingKey(
            name: "uplink.seal_tokens",
            kind: .choice(["auto", "always", "never"]), fallback: "auto",
            help: "encrypt token files to this machine; auto: where systemd-creds can"
        ),
        SettingKey(
            name: "uplink.identifier_system", kind: .text,
            fallback: "urn:edge-gateway:sample",
            help: "FHIR identifier system of the samples; the same for the life of a gateway"),
    ]

    static func named(_ name: String) -> SettingKey? {
        table.first { $0.name == name }
    }
}
