import Foundation
import Synchronization
import Testbed
import Testing

@Suite struct ChildProcessTests {
    @Test func aChildKeepsNoPortThatWasOpenedWhileItStarted() async throws {
        let ended = Mutex(false)
        let opener = Thread {
            while !ended.withLock({ $0 }) {
                let sockets = (0..<64).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
                for socket in sockets { close(socket) }
            }
        }
        opener.start()
        defer { ended.withLock { $0 = true } }

        for _ in 0..<8 {
            let child = try await ChildProcess.launch(
                "/bin/sleep", ["600"], environment: [:], log: "/dev/null", output: "/dev/null")
            // Until `setpriv` has become the program, the descriptors are still those of our spawn.
            let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(child.pid)/fd")
            let sockets = open.filter {
                let target = try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/\(child.pid)/fd/\($0)")
                return target?.hasPrefix("socket:") == true
            }
            #expect(sockets.isEmpty)
            await child.stop()
        }
    }
}
