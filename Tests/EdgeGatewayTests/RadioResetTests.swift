import Foundation
import Glibc
import Testbed
import Testing

@testable import EdgeGateway

/// The way to the radio-reset helper, and the helper's own manners. That it really resets a
/// controller is seen in Tests/RealBlueZ.
@Suite struct RadioResetTests {
    /// A helper that takes one connection, keeps the line it was sent, and answers.
    private final class Helper {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "radio-\(UInt32.random(in: 0 ... .max)).sock").path
        private let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)

        init() {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let name = Array(path.utf8)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
            _ = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            listen(listener, 1)
        }

        deinit {
            close(listener)
            unlink(path)
        }

        func serveOnce(answer: String) -> Task<String, Never> {
            let listener = listener
            return Task.detached {
                await withCheckedContinuation { continuation in
                    Thread.detachNewThread {
                        let connection = accept(listener, nil, nil)
                        var line = [UInt8](repeating: 0, count: 64)
                        let count = recv(connection, &line, line.count, 0)
                        let bytes = Array(answer.utf8)
                        _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
                        close(connection)
                        continuation.resume(
                            returning: String(decoding: line.prefix(max(0, count)), as: UTF8.self))
                    }
                }
            }
        }
    }

    @Test func theHelperIsGivenTheAddressAndItsWordIsTaken() async {
        for (answer, isDone) in [("ok\n", true), ("find controller: No such device\n", false)] {
            let helper = Helper()
            let asked = helper.serveOnce(answer: answer)
            let client = RadioResetClient(socketPath: helper.path)
            let done = await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    continuation.resume(returning: client.reset("00:1A:7D:DA:71:01"))
                }
            }
            #expect(done == isDone)
            #expect(await asked.value == "00:1A:7D:DA:71:01\n")
        }
    }

    @Test func aHelperThatIsNotInstalledIsNoFault() {
        #expect(!RadioResetClient(socketPath: "/nonexistent/reset.sock").reset("00:00:00:00:00:00"))
        let long = "/tmp/" + String(repeating: "x", count: 200)
        #expect(!RadioResetClient(socketPath: long).reset("00:00:00:00:00:00"))
    }

    @Test(arguments: ["", "hci0\n", "00:1A:7D:DA:71\n", "00:1A:7D:DA:71:01; reboot\n"])
    func theHelperTakesAnAddressAndNothingElse(line: String) async throws {
        let helper = GatewayProcess.program("edge-gateway-radio-reset")
        let outcome = try await Command.run(helper.path, [], input: line)
        #expect(outcome.status == 1)
        #expect(outcome.output == "read address: Invalid argument\n")
    }
}
