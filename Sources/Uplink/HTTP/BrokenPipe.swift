import CCurl
import CMosquitto
import Glibc

// A server that goes away while it is written to must be a fault, not the end of the process.

/// Blocks the signal of a broken connection in this thread, for ever.
func blockBrokenPipeSignal() {
    var pipe = brokenPipe()
    pthread_sigmask(SIG_BLOCK, &pipe, nil)
}

/// Runs `body` without the signal that a write into a broken connection raises, which would end a process
/// that does not ignore it: neither libmosquitto nor libssl can be asked not to raise it.
func withoutBrokenPipe<Value>(_ body: () -> Value) -> Value {
    var pipe = brokenPipe()
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, &pipe, &before)
    defer {
        if sigismember(&before, SIGPIPE) == 0 {
            let number = errno
            var now = timespec()
            _ = sigtimedwait(&pipe, nil, &now)
            pthread_sigmask(SIG_SETMASK, &before, nil)
            errno = number
        }
    }
    return body()
}

// Both libraries' headers declare the type, hence both imports.
private func brokenPipe() -> sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, SIGPIPE)
    return set
}
