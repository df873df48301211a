import CGlibc

#if canImport(Glibc)
    import Glibc
#endif

/// A thread that runs one body and ends.
public enum OwnThread {
    /// The machine has no thread to spare.
    public struct Shortage: Error {
        /// The error of pthread_create(3).
        public let code: Int32
    }

    /// Less than the 2 MiB of a huge page: the kernel may give one to a larger stack, of which little is used.
    private static let stackBytes = 1 << 20

    /// Gives a stack of this size to each thread that any library starts from now on; glibc's default is 8 MiB.
    public static func limitStacks() {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, stackBytes)
        pthread_setattr_default_np(&attributes)
    }

    private final class Body: Sendable {
        private let name: String
        private let run: @Sendable () -> Void

        init(_ name: String, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }

        func begin() {
            let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
            if file >= 0 {
                _ = write(file, name, name.utf8.count)
                close(file)
            }
            run()
        }
    }

    /// Runs `body` on a thread of its own, and waits for it without blocking one of Swift's pool. Where the machine has no
    /// thread to spare, the caller's runs it.
    ///
    /// - Parameters:
    ///   - name: what `top -H` and a debugger show; the kernel keeps 15 bytes.
    ///   - body: what may take long.
    /// - Returns: what `body` returned.
    public static func value<Value: Sendable>(
        _ name: String, _ body: @escaping @Sendable () -> Value
    ) async -> Value {
        await withCheckedContinuation { continuation in
            let started = start(name) { continuation.resume(returning: body()) }
            if case .failure = started { continuation.resume(returning: body()) }
        }
    }

    /// Starts it.
    ///
    /// - Parameters:
    ///   - name: what `top -H` and a debugger show; the kernel keeps 15 bytes.
    ///   - run: what it does.
    /// - Returns: the thread, or the error if it could not be started.
    public static func start(
        _ name: String, _ run: @escaping @Sendable () -> Void
    ) -> Result<pthread_t, Shortage> {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, stackBytes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        var thread = pthread_t()
        let context = Unmanaged.passRetained(Body(name, run))
        let code = pthread_create(
            &thread, &attributes,
            { context in
                guard let context else { return nil }
                Unmanaged<Body>.fromOpaque(context).takeRetainedValue().begin()
                return nil
            }, context.toOpaque())
        guard code == 0 else {
            context.release()
            return .failure(Shortage(code: code))
        }
        return .success(thread)
    }
}
