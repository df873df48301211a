import Dispatch
import Foundation
import Synchronization

/// Takes the signals that ask the demo to end, so that it can end what it started.
final class Interruption: Sendable {
    private let first = Mutex<Int32?>(nil)
    // Safe: only `init` writes it, before anything else can see this object, and nothing reads it. It keeps the sources
    // alive, which are not marked as sendable.
    nonisolated(unsafe) private var sources: [any DispatchSourceSignal] = []

    /// - Parameter act: called at each signal.
    init(_ act: @escaping @Sendable () -> Void) {
        sources = [SIGINT, SIGTERM, SIGHUP].map { number in
            Foundation.signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [weak self] in
                self?.first.withLock { if $0 == nil { $0 = number } }
                act()
            }
            source.resume()
            return source
        }
    }

    /// The first signal that came.
    var signal: Int32? { first.withLock { $0 } }
}
