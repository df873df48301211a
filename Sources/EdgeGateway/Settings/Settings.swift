import GATTHeartRate
import Logging
import OfflineQueue
import Uplink

/// The gateway's settings, checked: every value is in range and every key is known.
struct Settings: Sendable {
    private var values: [String: SettingValue]

    /// Settings from values that the loader has checked against ``SettingKey/table``.
    init(checked values: [String: SettingValue]) {
        self.values = values
    }

    var stateDirectory: String { text("state") }
    var socketPath: String { text("socket") }
    var changePolicy: ChangePolicy {
        ChangePolicy(group: text("control.change_group").nilIfEmpty)
    }
    /// Where the live page listens; nil for no page, and for an address that cannot be understood.
    var pagePlace: PagePlace? { try? PagePlace(text("page.listen")) }
    var pageListen: String? { text("page.listen").nilIfEmpty }
    var pageTokenFile: String? { text("page.token_file").nilIfEmpty }
    var fleetTokenFile: String? { text("fleet.token_file").nilIfEmpty }
    var fleetSecretFile: String? { text("fleet.secret_file").nilIfEmpty }
    var metricsTokenFile: String? { text("metrics.token_file").nilIfEmpty }
    var pageURL: String? { text("page.url").nilIfEmpty }
    var pageOrder: PlaceOrder { PlaceOrder(list("page.order")) }
    var gatewayName: String { text("gateway.name") }
    var gatewaySite: String { text("gateway.site") }
    var gatewayLabels: String { text("gateway.labels") }
    var logLevel: Logger.Level { Logger.Level(rawValue: text("log.level")) ?? .info }
    var clockTrust: ClockTrust { text("clock.trust") == "always" ? .always : .kernel }
    /// A wall clock beyond this year is not trusted.
    var clockLatestYear: Int { integer("clock.latest_year") }
    var batteryLowPercent: Int { integer("sensors.battery_low_percent") }
    var powerOn: String { text("bluetooth.power_on") }
    var radioResetSocket: String { text("radio.reset_socket") }
    var commitSamples: Int { integer("storage.commit_samples") }
    var commitInterval: Duration { .seconds(integer("storage.commit_seconds")) }
    var keepDeliveredHours: Int { integer("storage.keep_delivered_hours") }
    var storeBytesMax: Int64 { Int64(integer("storage.max_megabytes")) << 20 }
    var fullPolicy: FullPolicy { FullPolicy(rawValue: text("storage.full_policy")) ?? .refuseNew }
    var sampleAgeDaysMax: Int { integer("storage.max_age_days") }
    var withheldFlags: String { text("uplink.withhold") }
    /// The interval that somebody chose; nil: by how quickly the exchange answers.
    var deliveryInterval: Duration? {
        let seconds = integer("uplink.interval_seconds")
        return seconds > 0 ? .seconds(seconds) : nil
    }
    var batchSamples: Int { integer("uplink.batch_samples") }
    var allowPlainHTTP: Bool { values["uplink.allow_plain_http"] == .flag(true) }
    var caFile: String? { text("uplink.ca_file").nilIfEmpty }
    var proxy: String? { text("uplink.proxy").nilIfEmpty }
    var clientCertificateFile: String? { text("uplink.client_certificate_file").nilIfEmpty }
    var clientKeyFile: String? { text("uplink.client_key_file").nilIfEmpty }
    var sealTokens: TokenSeal.Policy {
        TokenSeal.Policy(rawValue: text("uplink.seal_tokens")) ?? .auto
    }
    var identifierSystem: String { text("uplink.identifier_system") }

    var decodePolicy: DecodePolicy {
        switch text("decode.policy") {
        case "strict": .strict
        case "lenient": .lenient
        default: .clinical
        }
    }

    /// Every key with its value in force, in the order of the table, for `config show`. A proxy's
    /// password is not shown.
    var listing: [(key: SettingKey, value: SettingValue)] {
        SettingKey.table.compactMap { key in
            guard let value = values[key.name] else { return nil }
            return key.name == "uplink.proxy"
                ? (key, .text(ProxyAddress.masked(text(key.name)))) : (key, value)
        }
    }

    private func text(_ name: String) -> String {
        if case .text(let text) = values[name] { text } else { "" }
    }

    private func list(_ name: String) -> [String] {
        if case .list(let list) = values[name] { list } else { [] }
    }

    private func integer(_ name: String) -> Int {
        if case .integer(let integer) = values[name] { integer } else { 0 }
    }
}

/// A checked value of one key.
enum SettingValue: Sendable, Hashable, CustomStringConvertible {
    case text(String)
    case integer(Int)
    case flag(Bool)
    case list([String])

    var description: String {
        switch self {
        // As it would stand in the file.
        case .list(let list) where list.contains { $0.contains(",") }:
            "["
                + list.map { text in
                    "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
                }.joined(separator: ", ") + "]"
        case .list(let list): list.joined(separator: ", ")
        case .text(let text): text
        case .integer(let integer): String(integer)
        case .flag(let flag): String(flag)
        }
    }
}

/// The faults of a configuration, one line each, with the remedy.
struct SettingsFault: Error, CustomStringConvertible {
    let description: String
    /// The setting to look at, where one alone is to blame.
    var setting: String?

    /// This user may not read the file.
    var isNotPermitted: Bool

    /// Several at once.
    init(_ faults: [SettingsFault]) {
        self.init(
            description: faults.map(\.description).joined(separator: "\n"),
            setting: faults.count == 1 ? faults[0].setting : nil,
            isNotPermitted: faults.contains(where: \.isNotPermitted))
    }

    init(description: String, setting: String? = nil, isNotPermitted: Bool = false) {
        self.description = description
        self.setting = setting
        self.isNotPermitted = isNotPermitted
    }
}

extension String {
    /// Empty text in a configuration means "not set".
    fileprivate var nilIfEmpty: String? { isEmpty ? nil : self }
}
