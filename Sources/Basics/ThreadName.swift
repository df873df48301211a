#if canImport(Glibc)
    import Glibc
#endif

/// The name of the calling thread, as `top -H` and a debugger show it.
public enum ThreadName {
    /// - Parameter name: the kernel keeps 15 bytes of it.
    public static func set(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        _ = write(file, name, name.utf8.count)
        close(file)
    }
}
