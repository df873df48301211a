import Basics
import Configuration
import Foundation
import OfflineQueue
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
    /// - Throws: ``SettingsFault`` for a file that cannot be read or parsed, unknown keys, and
    ///   values of the wrong kind or out of range: all of them, a line each.
    func load(path named: String? = nil) throws(SettingsFault) -> Settings {
        let (settings, faults) = examine(path: named)
        guard faults.isEmpty else { throw SettingsFault(faults) }
        return settings
    }

    /// The settings, with the default where a value cannot be used, and everything that is wrong with the file and
    /// the environment.
    func examine(path named: String? = nil) -> (settings: Settings, faults: [SettingsFault]) {
        let explicit = named ?? environment["EDGE_GATEWAY_CONFIG"]
        let path = explicit ?? Self.standardPath
        var faults = unknownVariables()
        var file: [String: Node] = [:]
        if explicit != nil || FileManager.default.fileExists(atPath: path) {
            do throws(SettingsFault) {
                file = try values(of: read(path), in: path, &faults)
            } catch {
                faults.append(error)
            }
        }
        let variables = EnvironmentVariablesProvider(environmentVariables: environment)
            .prefixKeys(with: ["edge", "gateway"])
        var values: [String: SettingValue] = [:]
        for key in SettingKey.table {
            do throws(SettingsFault) {
                var found = try content(of: key, in: variables)
                if found == nil { found = try content(of: key, in: file) }
                if let found { values[key.name] = try check(found, for: key) }
            } catch {
                faults.append(error)
            }
            // The defaults are in range.
            values[key.name] = values[key.name] ?? (try? check(text: key.fallback, for: key))
        }
        return (Settings(checked: values), faults)
    }

    private func read(_ path: String) throws(SettingsFault) -> String {
        do {
            return try TextFile.read(path, bytesMax: Self.fileBytesMax)
        } catch {
            let isNotPermitted = access(path, R_OK) != 0 && errno == EACCES
            throw SettingsFault(
                description: error.message
                    + (isNotPermitted ? "; use sudo" : "; --config names another file"),
                isNotPermitted: isNotPermitted)
        }
    }

    /// The values of the file by the names of their keys; throws for text that is not YAML.
    private func values(
        of text: String, in path: String, _ faults: inout [SettingsFault]
    ) throws(SettingsFault) -> [String: Node] {
        let root: Node?
        do {
            root = try YAMLText.tree(of: text)
        } catch {
            let line = error.line.map { " line \($0)" } ?? ""
            throw SettingsFault(
                description: "parse configuration \(path)\(line): \(error); "
                    + "correct the file; `edge-gateway config check` checks it")
        }
        guard let root, !root.isNothing else { return [:] }
        guard let mapping = root.mapping else {
            throw SettingsFault(
                description: "parse configuration \(path): expected `key: value` lines")
        }
        var values: [String: Node] = [:]
        collect(mapping, under: "", in: path, into: &values, &faults)
        return values
    }

    private func collect(
        _ mapping: Node.Mapping, under prefix: String, in path: String,
        into values: inout [String: Node], _ faults: inout [SettingsFault]
    ) {
        func fault(_ description: String) { faults.append(SettingsFault(description: description)) }
        for (keyNode, valueNode) in mapping {
            let name = prefix + (keyNode.string ?? "?")
            let line = keyNode.mark.map { " line \($0.line)" } ?? ""
            if let key = SettingKey.named(name) {
                guard valueNode.scalar != nil || key.kind == .list && valueNode.isListOfTexts else {
                    fault(
                        "configuration \(path)\(line): `\(name)` takes "
                            + (key.kind == .list ? key.kind.expected : "one value"))
                    continue
                }
                values[name] = valueNode
            } else if SettingKey.table.contains(where: { $0.name.hasPrefix(name + ".") }) {
                // A section whose keys are all comments is an empty one.
                guard !valueNode.isNothing else { continue }
                guard let inner = valueNode.mapping else {
                    fault(
                        "configuration \(path)\(line): `\(name)` is a section; write its keys below it, "
                            + "indented")
                    continue
                }
                collect(inner, under: name + ".", in: path, into: &values, &faults)
            } else {
                faults.append(unknown(name, where: "configuration \(path)\(line)"))
            }
        }
    }

    private static let keysAdvice = "`edge-gateway config show` lists the keys"

    private func unknownVariables() -> [SettingsFault] {
        var known = Set(SettingKey.table.map(\.environmentName)).union(["EDGE_GATEWAY_CONFIG"])
        #if DEBUG
            known.insert(KillSwitch.variable)
        #endif
        let prefix = "EDGE_GATEWAY_"
        let ours = environment.keys.filter { $0.hasPrefix(prefix) }.sorted()
        return ours.filter { !known.contains($0) }.map { name in
            let advice =
                Nearest.of(
                    String(name.dropFirst(prefix.count)),
                    among: known.map { String($0.dropFirst(prefix.count)) }
                ).map { "did you mean `\(prefix)\($0)`?" } ?? Self.keysAdvice
            return SettingsFault(
                description: "environment: unknown variable `\(name)`; \(advice)")
        }
    }

    private func unknown(_ name: String, where place: String) -> SettingsFault {
        let advice =
            Nearest.of(name, among: SettingKey.table.map(\.name))
            .map { "did you mean `\($0)`?" } ?? Self.keysAdvice
        return SettingsFault(description: "\(place): unknown key `\(name)`; \(advice)")
    }

    private func content(
        of key: SettingKey, in variables: some ConfigProvider
    ) throws(SettingsFault) -> ConfigContent? {
        do {
            return try variables.value(
                forKey: AbsoluteConfigKey(ConfigKey(key.name)), type: key.kind.configType
            ).value?.content
        } catch {
            throw wrong(key, "is not \(key.kind.expected)")
        }
    }

    private func content(
        of key: SettingKey, in file: [String: Node]
    ) throws(SettingsFault) -> ConfigContent? {
        if let list = file[key.name]?.sequence {
            return .stringArray(list.compactMap { $0.scalar?.string })
        }
        guard let scalar = file[key.name]?.scalar else { return nil }
        let content: ConfigContent? =
            switch key.kind.configType {
            case .int: try integer(scalar, of: key).map { .int($0) }
            case .bool: flag(scalar).map { .bool($0) }
            default: .string(scalar.string)
            }
        guard let content else { throw wrong(key, "is not \(key.kind.expected)") }
        return content
    }

    /// A whole number in decimal digits. YAML 1.1 would read `0010` as 8, and `1:30` as 90.
    private func integer(
        _ scalar: Node.Scalar, of key: SettingKey
    ) throws(SettingsFault) -> Int? {
        let text = scalar.string
        guard scalar.style == .plain, let number = Int(text) else { return nil }
        guard text == String(number) else {
            throw wrong(
                key, "is \(text.prefix(20)), which YAML may read as another number; write \(number)"
            )
        }
        return number
    }

    /// The words that YAML 1.1 takes for true and false, where it is not in quotation marks.
    private func flag(_ scalar: Node.Scalar) -> Bool? {
        guard scalar.style == .plain else { return nil }
        return switch scalar.string.lowercased() {
        case "true", "yes", "on": true
        case "false", "no", "off": false
        default: nil
        }
    }

    private func check(_ content: ConfigContent, for key: SettingKey) throws(SettingsFault)
        -> SettingValue
    {
        switch content {
        case .bool(let flag): return .flag(flag)
        case .int(let integer): return try check(text: String(integer), for: key)
        case .string(let text): return try check(text: text, for: key)
        case .stringArray(let list): return .list(list)
        default: throw wrong(key, "is not \(key.kind.expected)")
        }
    }

    private func check(text: String, for key: SettingKey) throws(SettingsFault) -> SettingValue {
        switch key.kind {
        case .text:
            return .text(text)
        case .list:
            return .list(
                text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) })
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
            guard words == ["none"] || !words.isEmpty && words.allSatisfy(choices.contains) else {
                throw wrong(key, "is `\(text.prefix(80))`, expected \(key.kind.expected)")
            }
            return .text(text)
        }
    }

    private func wrong(_ key: SettingKey, _ what: String) -> SettingsFault {
        SettingsFault(
            description: "configuration `\(key.name)` (or \(key.environmentName)) \(what)")
    }
}

extension SettingKey.Kind {
    var configType: ConfigType {
        switch self {
        case .text, .choice, .choices, .list: .string
        case .integer: .int
        case .flag: .bool
        }
    }

    var expected: String {
        switch self {
        case .text: "text"
        case .list: "a list of texts, or one text with commas between"
        case .flag: "true or false"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .choice(let choices): "one of " + choices.joined(separator: ", ")
        case .choices(let choices): "none, or some of " + choices.joined(separator: ", ")
        }
    }
}
