import Foundation
import Glibc
import Uplink

/// A setting whose value cannot be used.
struct SettingProblem: Equatable, Sendable {
    /// Such as `page.listen`.
    var setting: String
    /// One line: the setting, its value, the cause, and what to do.
    var message: String
    /// The daemon does not start with it; with the others it records, and says what does not work.
    var stopsDaemon: Bool
}

extension SettingProblem {
    /// - Parameter rest: the message after the setting's name, with the blank or the colon before it.
    fileprivate init(_ setting: String, _ rest: String, stopsDaemon: Bool = false) {
        self.init(
            setting: setting, message: "configuration `\(setting)`" + rest,
            stopsDaemon: stopsDaemon)
    }
}

/// The faults of the settings on this machine, beyond what the loader sees. `config check` and `run` ask the
/// same.
extension Settings {
    /// Everything that cannot be used, by this user and at this moment.
    func problems() -> [SettingProblem] {
        uplinkProblems() + identityProblems() + pathProblems() + stateProblems() + socketProblems()
            + pageProblems() + fleetProblems()
    }

    /// The page's token; nil for a page on loopback that needs none, and for one that only programs' tokens open.
    ///
    /// - Throws: ``SettingsFault`` for a file that cannot be used, and for a page that others could reach
    ///   without a token.
    func pageToken(for place: PagePlace) throws(SettingsFault) -> String? {
        if let file = pageTokenFile {
            return try PageToken.read(file, setting: "page.token_file")
        }
        guard place.isLoopback || !programTokenFiles.isEmpty else {
            throw SettingsFault(
                description:
                    "page.listen: \(pageListen ?? "") is reachable from other machines, and no token is set; "
                    + "set page.token_file (head -c 32 /dev/urandom | base64 > FILE; chgrp edge-gateway FILE; chmod 640 FILE)",
                setting: "page.token_file")
        }
        return nil
    }

    /// The files of ``programTokens()``, each with its setting.
    private var programTokenFiles: [(program: PageAccess.Program, setting: String, file: String)] {
        [
            (PageAccess.Program.fleet, "fleet.token_file", fleetTokenFile),
            (.metrics, "metrics.token_file", metricsTokenFile),
        ].compactMap { program, setting, file in file.map { (program, setting, $0) } }
    }

    /// The tokens of programs, each of which opens its one thing alone.
    ///
    /// - Throws: ``SettingsFault`` for a file that cannot be used, and for a token that opens something else, too.
    func programTokens() throws(SettingsFault) -> [PageAccess.Program: String] {
        var known: [(setting: String, token: String)] = []
        if let page = pageTokenFile {
            known.append(
                ("page.token_file", try PageToken.read(page, setting: "page.token_file")))
        }
        var tokens: [PageAccess.Program: String] = [:]
        for (program, setting, file) in programTokenFiles {
            let token = try PageToken.read(file, setting: setting)
            if let other = known.first(where: { $0.token.isSameSecret(as: token) }) {
                throw SettingsFault(
                    description:
                        "\(setting): \(file) holds the token of \(other.setting), which opens "
                        + "something else; make another one",
                    setting: setting)
            }
            known.append((setting, token))
            tokens[program] = token
        }
        return tokens
    }

    private func identityProblems() -> [SettingProblem] {
        var problems: [SettingProblem] = []
        for (name, text) in [("gateway.name", gatewayName), ("gateway.site", gatewaySite)]
        where !text.isEmpty && !GatewayIdentity.isName(text) {
            problems.append(
                SettingProblem(
                    name,
                    " is longer than \(GatewayIdentity.lengthMax) characters or cannot be printed; it is not used"
                ))
        }
        if GatewayIdentity.labels(gatewayLabels) == nil {
            problems.append(
                SettingProblem(
                    "gateway.labels",
                    " is not a list such as floor=3, owner=cardiology, of \(GatewayIdentity.labelsMax) at most; "
                        + "it is not used"))
        }
        return problems
    }

    private func uplinkProblems() -> [SettingProblem] {
        var problems: [SettingProblem] = []
        func add(_ name: String, _ message: String, stops: Bool = true) {
            problems.append(SettingProblem(name, message, stopsDaemon: stops))
        }
        if let proxy, !ProxyAddress.isValid(proxy) {
            // The fault may be in the password.
            add("uplink.proxy", " is not an address such as http://proxy.example:3128")
        }
        for (name, path) in [
            ("uplink.ca_file", caFile), ("uplink.client_certificate_file", clientCertificateFile),
            ("uplink.client_key_file", clientKeyFile),
        ] {
            if let fault = path.flatMap(PEMFile.fault) {
                // No other one is taken in its place.
                add(name, ": \(fault); nothing is sent by TLS without it", stops: false)
            }
        }
        if let key = clientKeyFile {
            if clientCertificateFile == nil {
                add(
                    "uplink.client_key_file",
                    " is set without `uplink.client_certificate_file`; set both")
            }
            if PEMFile.isOpenToAll(key) {
                add(
                    "uplink.client_key_file",
                    ": every user may read \(key); chgrp edge-gateway and chmod 640 it")
            }
        }
        if !Self.isURI(identifierSystem) {
            add("uplink.identifier_system", " is not a URI such as urn:edge-gateway:sample")
        }
        return problems
    }

    /// Where a relative path leads depends on who starts the program, and where.
    private func pathProblems() -> [SettingProblem] {
        let paths = [
            ("state", stateDirectory), ("socket", socketPath),
            ("radio.reset_socket", radioResetSocket.isEmpty ? nil : radioResetSocket),
            ("page.token_file", pageTokenFile), ("fleet.token_file", fleetTokenFile),
            ("fleet.secret_file", fleetSecretFile), ("metrics.token_file", metricsTokenFile),
            ("uplink.ca_file", caFile),
            ("uplink.client_certificate_file", clientCertificateFile),
            ("uplink.client_key_file", clientKeyFile),
        ]
        return paths.compactMap { name, path in
            guard let path, !path.hasPrefix("/") else { return nil }
            return SettingProblem(
                name, (path.isEmpty ? " is empty" : " is \(path)") + "; it must begin with /",
                // Samples must not go where nobody looks for them.
                stopsDaemon: name == "state")
        }
    }

    private func stateProblems() -> [SettingProblem] {
        guard stateDirectory.hasPrefix("/"),
            let why = Self.whyUnusable(directory: stateDirectory, isCreated: true)
        else {
            return []
        }
        return [SettingProblem("state", ": \(stateDirectory) \(why)")]
    }

    private func socketProblems() -> [SettingProblem] {
        var problems: [SettingProblem] = []
        func add(_ name: String, _ message: String) {
            problems.append(SettingProblem(name, ": \(message)"))
        }
        if let group = changePolicy.group, getgrnam(group) == nil {
            add("control.change_group", "there is no group \(group); only root may change anything")
        }
        guard socketPath.hasPrefix("/") else { return problems }
        if socketPath.utf8.count > Self.socketPathBytesMax {
            add(
                "socket",
                "\(socketPath) is longer than \(Self.socketPathBytesMax) bytes; choose a shorter one"
            )
        }
        let directory = URL(filePath: socketPath).deletingLastPathComponent().path
        let type = try? FileManager.default.attributesOfItem(atPath: socketPath)[.type]
        if let type = type as? FileAttributeType, type != .typeSocket {
            add("socket", "another file is at \(socketPath); choose another path")
        } else if directory != Self.runtimeDirectory || access(directory, F_OK) == 0,
            let why = Self.whyUnusable(directory: directory, isCreated: false)
        {
            add("socket", "\(directory) \(why)")
        }
        return problems
    }

    private func pageProblems() -> [SettingProblem] {
        var problems: [SettingProblem] = []
        if let listen = pageListen {
            do throws(SettingsFault) {
                _ = try pageToken(for: try PagePlace(listen))
                _ = try programTokens()
            } catch {
                problems.append(
                    SettingProblem(
                        setting: error.setting ?? "page.listen", message: error.description,
                        stopsDaemon: false))
            }
        } else {
            let files =
                [("page.token_file", pageTokenFile)]
                + programTokenFiles.map { ($0.setting, $0.file) }
            problems += files.filter { $0.1 != nil }.map { setting, _ in
                SettingProblem(
                    setting: setting,
                    message:
                        "\(setting): nothing is served without page.listen; set page.listen, or remove the token",
                    stopsDaemon: false)
            }
        }
        if let url = pageURL, !Self.isPageURL(url) {
            problems.append(
                SettingProblem(
                    "page.url", " is not the beginning of a link, such as https://ward.example"))
        }
        return problems
    }

    /// The marks of straps; nil without a secret, or with one that cannot be used, which `config check` reports.
    var strapMarks: StrapMarks? { try? fleetSecret().map(StrapMarks.init(secret:)) }

    /// - Throws: ``SettingsFault`` for a file that cannot be used, and for a token: whoever holds one could find
    ///   addresses by their marks.
    private func fleetSecret() throws(SettingsFault) -> Secret? {
        guard let file = fleetSecretFile else { return nil }
        let setting = "fleet.secret_file"
        let secret = try PageToken.read(file, setting: setting)
        let tokens = [
            ("page.token_file", pageTokenFile), ("fleet.token_file", fleetTokenFile),
            ("metrics.token_file", metricsTokenFile),
        ]
        for (name, tokenFile) in tokens {
            guard let tokenFile, let token = try? PageToken.read(tokenFile, setting: name),
                token.isSameSecret(as: secret)
            else { continue }
            throw SettingsFault(
                description: "\(setting): \(file) holds the token of \(name); make another secret",
                setting: setting)
        }
        return Secret(secret)
    }

    private func fleetProblems() -> [SettingProblem] {
        do throws(SettingsFault) {
            _ = try fleetSecret()
            return []
        } catch {
            return [
                SettingProblem(
                    setting: "fleet.secret_file", message: error.description, stopsDaemon: false)
            ]
        }
    }

    /// The length that fits into `sun_path` with its final NUL (unix(7)).
    private static let socketPathBytesMax = 107
    /// systemd creates it when it starts the daemon (`RuntimeDirectory`).
    private static let runtimeDirectory = "/run/edge-gateway"

    /// - Parameter isCreated: the daemon makes the directory if it is missing.
    private static func whyUnusable(directory: String, isCreated: Bool) -> String? {
        var isDirectory: ObjCBool = false
        if FileManager.default.fileExists(atPath: directory, isDirectory: &isDirectory) {
            guard isDirectory.boolValue else { return "is not a directory" }
            return access(directory, W_OK | X_OK) == 0
                ? nil : "cannot be written by this user: \(String(cString: strerror(errno)))"
        }
        guard isCreated else { return "is missing; create it" }
        var parent = URL(filePath: directory).standardizedFileURL
        repeat {
            parent.deleteLastPathComponent()
        } while parent.path != "/"
            && !FileManager.default.fileExists(atPath: parent.path, isDirectory: &isDirectory)
        _ = FileManager.default.fileExists(atPath: parent.path, isDirectory: &isDirectory)
        return isDirectory.boolValue && access(parent.path, W_OK | X_OK) == 0
            ? nil : "is missing, and this user cannot create it"
    }

    /// An absolute URI (RFC 3986 §4.3), as FHIR wants an identifier's system.
    static func isURI(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":"), text.index(after: colon) != text.endIndex,
            let first = text.utf8.first, UInt8(ascii: "a")...UInt8(ascii: "z") ~= first | 0x20
        else { return false }
        let scheme = text[..<colon]
        return scheme.utf8.allSatisfy {
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || "+-.".utf8.contains($0)
        } && text.utf8.allSatisfy { 0x21...0x7E ~= $0 }
    }

    /// An address to which `/#TOKEN` can be appended.
    private static func isPageURL(_ text: String) -> Bool {
        guard let parts = URLComponents(string: text), let host = parts.host, !host.isEmpty else {
            return false
        }
        return ["http", "https"].contains(parts.scheme?.lowercased() ?? "")
            && parts.fragment == nil && parts.query == nil && !text.hasSuffix("/")
    }
}
