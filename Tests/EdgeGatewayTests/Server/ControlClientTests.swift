import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// What commands say that do not reach the daemon.
@Suite struct ControlClientTests {
    private static let nobody = "65534"
    private static let setpriv = "/usr/bin/setpriv"

    /// "This user may not use it" was followed by "start it: systemctl start edge-gateway".
    @Test(
        .enabled(
            if: geteuid() == 0 && FileManager.default.isExecutableFile(atPath: setpriv),
            "it runs commands as another user"))
    func whoMayNotUseTheSocketIsToldThatAlone() async throws {
        try await ServerFixture.run { fixture in
            chmod(fixture.directory.path, 0o700)
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                for words in [["status"], ["doctor"]] {
                    let outcome = try await Command.run(
                        Self.setpriv,
                        ["--reuid", Self.nobody, "--clear-groups"]
                            + [GatewayProcess.program("edge-gateway").path] + words,
                        environment: [
                            "PATH": "/usr/bin:/bin", "EDGE_GATEWAY_STATE": fixture.directory.path,
                            "EDGE_GATEWAY_SOCKET": fixture.settings.socketPath,
                            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
                        ], directory: "/")
                    let text = outcome.output + outcome.complaint
                    #expect(text.contains("this user may not use it"), "\(words): \(text)")
                    #expect(text.contains("join the group edge-gateway"), "\(words): \(text)")
                    #expect(!text.contains("systemctl start edge-gateway"), "\(words): \(text)")
                }
            }
        }
    }
}
