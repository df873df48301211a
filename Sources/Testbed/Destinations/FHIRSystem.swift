import Foundation

/// sekmet-fhir, a FHIR R4 server of other people's, whose Observations fhir.resources judges.
public struct FHIRSystem: DestinationSystem {
    /// How its clients sign in.
    public enum SignIn: Sendable {
        case none
        /// As a user with a password.
        case password
        /// As a client whose public keys these are.
        case keySet(String)
    }

    public let kind = "fhir"
    public let title = "the FHIR server"
    public let resolution: String? = "raw"
    public let settings: [String: String]
    public let secretFiles: [String: String]
    private let host: SystemHost
    /// Its base.
    public let address: String

    /// The client of ``SignIn/keySet(_:)``.
    public static let client = "gateway-ward3"
    /// The rights of that client, which it asks for: this server demands them of all that send batches.
    public static let scope = "system/*.read system/*.write"
    /// The account that may read everything.
    public static let readerToken = "a-reader-of-the-tests"
    private static let user = "gateway"
    private static let password = "correct horse"

    public static func start(_ signIn: SignIn = .none) async throws -> FHIRSystem {
        let python = SystemHost.fhirPython
        return try await SystemHost.start("fhir", needs: [python, "/usr/bin/curl"]) { host in
            let port = try FreePort.anywhere()
            let root = "http://127.0.0.1:\(port)"
            let auth =
                switch signIn {
                case .none: #"{"types":["none"]}"#
                case .password:
                    #"{"types":["basic","bearer"],"tokens":["\#(readerToken)"],"#
                        + #""users":{"\#(user)":"\#(password)"}}"#
                case .keySet(let keys):
                    #"{"types":["smart","bearer"],"tokens":["\#(readerToken)"],"smart_clients":["#
                        + #"{"client_id":"\#(client)","jwks":\#(keys),"scopes":"#
                        + #""\#(scope)"}]}"#
                }
            // JSON is YAML as well.
            let file = try host.write(
                #"{"base_url":"\#(root)/fhir","host":"127.0.0.1","port":\#(port),"#
                    + #""data_dir":"\#(host.path("data"))","log_inbound":false,"#
                    + #""simulator":{"enabled":false},"server_auth":\#(auth)}"#, to: "settings.json"
            )
            try await host.launch(
                python,
                [
                    "-m", "sekmet.cli", "serve", "--config", file, "--host", "127.0.0.1", "--port",
                    "\(port)",
                ], output: "output")
            try await host.wait(for: "\(root)/fhir/metadata")
            return FHIRSystem(
                host: host, address: "\(root)/fhir", signIn,
                passwordFile: try host.write(password, to: "password"))
        }
    }

    private init(host: SystemHost, address: String, _ signIn: SignIn, passwordFile: String) {
        self.host = host
        self.address = address
        var settings = ["url": address, "gateway": "ward3", "patient": "id"]
        if case .password = signIn {
            settings["user"] = Self.user
            settings["password"] = Self.password
            secretFiles = ["password": passwordFile]
        } else {
            secretFiles = [:]
        }
        self.settings = settings
    }

    private struct Counts: Decodable { var stored, repeated, gaps, days: Int }

    private func read() async throws -> Counts {
        let reader = SystemHost.root.appending(path: "Tests/Conformance/fhir_reader.py").path
        let text = try await host.run(
            SystemHost.fhirPython, [reader, address, Self.readerToken])
        return try JSONDecoder().decode(Counts.self, from: Data(text.utf8))
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try await read()
        return (counts.stored, counts.repeated)
    }

    public func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        let counts = try await read()
        return (counts.gaps, counts.days)
    }

    public func stop() async { await host.stop() }
}
