import Configuration
import Foundation
import OfflineQueue
import SystemPackage
import Yams

/// Reads the YAML file, then the environment over it, and checks both against ``SettingKey/table``.
struct SettingsLoader {
    /// The default place of the file; it may be absent.
    static let standardPath = "/etc/edge-gateway/config.yaml"
    /// A configuration is a page of text; more than this is some other file.
    static let fileBytesMax = 1 << 20

    /// The environment that overrides the file, and names it with `EDGE_GATEWAY_CONFIG`.
    var environment: [String: String] = ProcessInfo.processInfo.environment

    /// The settings in force.
    ///
    /// - Parameter path: the file named on the command line, or nil for `EDGE_GATEWAY_CONFIG` or
    ///   the standard place.
    /// - Throws: ``SettingsFault`` for a file that cannot be read or parsed, an unknown key, a
    ///   value of the wrong kind or out of range.
    func load(path named: String? = nil) async throws(SettingsFault) -> Settings {
        let explicit = named ?? environment["EDGE_GATEWAY_CONFIG"]
        let path = explicit ?? Self.standardPath
        var providers: [any ConfigProvider] = [
            EnvironmentVariablesProvider(environmentVariables: environment)
                .prefixKeys(with: ["edge", "gateway"])
        ]
        try checkEnvironmentNames()
        if explicit != nil || FileManager.default.fileExists(atPath: path) {
            let text = try read(path)
            if try checkKeys(of: text, in: path) {
                providers.append(try await fileProvider(path))
            }
        }
        var values: [String: SettingValue] = [:]
        for key in SettingKey.table {
            values[key.name] = try value(of: key, from: providers)
        }
        return Settings(checked: values)
    }

    private func read(_ path: String) throws(SettingsFault) -> String {
        do {
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            guard attributes[.type] as? FileAttributeType != .typeDirectory else {
                throw SettingsFault(
                    description: "read configuration \(path): it is a directory; name a YAML file")
            }
            guard (attributes[.size] as? Int ?? 0) <= Self.fileBytesMax else {
                throw SettingsFault(
                    description:
                        "read configuration \(path): it is larger than 1 MiB, too large for settings"
                )
            }
            return try String(contentsOfFile: path, encoding: .utf8)
        } catch let fault as SettingsFault {
            throw fault
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            throw SettingsFault(
                description: "read configuration \(path): no such file; name one with --config "
                    + "or EDGE_GATEWAY_CONFIG")
        } catch {
            throw SettingsFault(
                description: "read configuration \(path): not readable as UTF-8 text by this user")
        }
    }

    /// True when the file holds any key; throws for text that is not YAML and for unknown keys.
    private func checkKeys(of text: String, in path: String) throws(SettingsFault) -> Bool {
        let root: Node?
        do {
            root = try Yams.compose(yaml: text)
        } catch {
            throw SettingsFault(
                description: "parse configuration \(path): \(oneLine(error)); "
                    + "correct the file; `edge-gateway config check` checks it")
        }
        guard let root, root.scalar?.string.isEmpty != true else { return false }
        guard let mapping = root.mapping else {
            throw SettingsFault(
                description: "parse configuration \(path): expected `key: value` lines")
        }
        try checkKeys(of: mapping, under: "", in: path)
        return !mapping.isEmpty
    }

    private func checkKeys(
        of mapping: Node.Mapping, under prefix: String, in path: String
    ) throws(SettingsFault) {
        for (keyNode, valueNode) in mapping {
            let name = prefix + (keyNode.string ?? "?")
            let line = keyNode.mark.map { " line \($0.line)" } ?? ""
            if SettingKey.named(name) != nil {
                guard valueNode.scalar != nil else {
                    throw SettingsFault(
                        description: "configuration \(path)\(line): `\(name)` takes one value")
                }
            } else if let inner = valueNode.mapping,
                SettingKey.table.contains(where: { $0.name.hasPrefix(name + ".") })
            {
                try checkKeys(of: inner, under: name + ".", in: path)
            } else {
                throw unknown(name, where: "configuration \(path)\(line)")
            }
        }
    }

    private func checkEnvironmentNames() throws(SettingsFault) {
        var known = Set(SettingKey.table.map(\.environmentName)).union(["EDGE_GATEWAY_CONFIG"])
        #if DEBUG
            known.insert(KillSwitch.variable)
        #endif
        let ours = environment.keys.filter { $0.hasPrefix("EDGE_GATEWAY_") }.sorted()
        for name in ours where !known.contains(name) {
            let nearest = known.min { editDistance($0, name) < editDistance($1, name) } ?? ""
            throw SettingsFault(
                description: "environment: unknown variable `\(name)`; did you mean `\(nearest)`?")
        }
    }

    private func unknown(_ name: String, where place: String) -> SettingsFault {
        let advice =
            SettingKey.nearest(to: name).map { "did you mean `\($0)`?" }
            ?? "`edge-gateway config show` lists the keys"
        return SettingsFault(description: "\(place): unknown key `\(name)`; \(advice)")
    }

    private func fileProvider(_ path: String) async throws(SettingsFault) -> any ConfigProvider {
        do {
            return try await FileProvider<YAMLSnapshot>(filePath: FilePath(path))
        } catch {
            throw SettingsFault(description: "parse configuration \(path): \(oneLine(error))")
        }
    }

    private func value(
        of key: SettingKey, from providers: [any ConfigProvider]
    ) throws(SettingsFault) -> SettingValue {
        let absolute = AbsoluteConfigKey(ConfigKey(key.name))
        for provider in providers {
            let content: ConfigContent?
            do {
                content = try provider.value(forKey: absolute, type: key.kind.configType)
                    .value?.content
            } catch {
                throw wrong(key, "is not \(key.kind.expected)")
            }
            if let content { return try check(content, for: key) }
        }
        return try check(text: key.fallback, for: key)
    }

    private func check(_ content: ConfigContent, for key: SettingKey) throws(SettingsFault)
        -> SettingValue
    {
        switch content {
        case .bool(let flag): return .flag(flag)
        case .int(let integer): return try check(text: String(integer), for: key)
        case .string(let text): return try check(text: text, for: key)
        default: throw wrong(key, "is not \(key.kind.expected)")
        }
    }

    private func check(text: String, for key: SettingKey) throws(SettingsFault) -> SettingValue {
        switch key.kind {
        case .text:
            return .text(text)
        case .flag:
            guard let flag = Bool(text) else { throw wrong(key, "is not \(key.kind.expected)") }
            return .flag(flag)
        case .integer(let range):
            guard let integer = Int(text), range.contains(integer) else {
                throw wrong(key, "is \(text), expected \(key.kind.expected)")
            }
            return .integer(integer)
        case .choice(let choices):
            guard choices.contains(text) else {
                throw wrong(key, "is `\(text.prefix(40))`, expected \(key.kind.expected)")
            }
            return .text(text)
        case .choices(let choices):
            let words = text.split { $0 == "," || $0.isWhitespace }.map(String.init)
            guard words == ["none"] || words.allSatisfy(choices.contains) else {
                throw wrong(key, "is `\(text.prefix(80))`, expected \(key.kind.expected)")
            }
            return .text(text)
        }
    }

    private func wrong(_ key: SettingKey, _ what: String) -> SettingsFault {
        SettingsFault(
            description: "configuration `\(key.name)` (or \(key.environmentName)) \(what)")
    }

    private func oneLine(_ error: any Error) -> String {
        "\(error)".split(whereSeparator: \.isNewline).prefix(2)
            .map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: " ")
    }
}

extension SettingKey.Kind {
    var configType: ConfigType {
        switch self {
        case .text, .choice, .choices: .string
        case .integer: .int
        case .flag: .bool
        }
    }

    var expected: String {
        switch self {
        case .text: "text"
        case .flag: "true or false"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .choice(let choices): "one of " + choices.joined(separator: ", ")
        case .choices(let choices): "none, or some of " + choices.joined(separator: ", ")
        }
    }
}
