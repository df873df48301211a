import Glibc

/// Encrypts token files to this machine with `systemd-creds`: with its TPM, its host key, or both.
///
/// The host key can be read by root only, so that with the systemd of Debian 12 a gateway that runs as
/// another user cannot seal. A process is started for each write and each start of the gateway.
public struct TokenSeal: Sendable {
    /// When token files are sealed. The raw values are those of the configuration.
    public enum Policy: String, Sendable, CaseIterable {
        /// Where it can be done.
        case auto
        /// Always: what cannot be sealed is not stored.
        case always
        /// Never; what is sealed already is still opened.
        case never
    }

    /// Why something could not be sealed or opened.
    public enum Fault: Error, Hashable, Sendable {
        /// The program could not be started, with this `errno`.
        case notRun(errno: Int32)
        /// It took too long, or broke off.
        case unanswered
        /// It left with this status: no key, no TPM, or sealed for another machine.
        case refused(status: Int32)
        /// The sealed text does not open to the same again.
        case notTheSame
    }

    /// Where the program is.
    public let program: String

    /// Debian's place for it.
    public static let standardProgram = "/usr/bin/systemd-creds"
    /// A TPM may take a second; this is a hung one.
    static let patience = Duration.seconds(10)
    /// The sealed text is a third larger than a record at most, with some 200 bytes of its own.
    static let bytesMax = 256 << 10

    /// A seal made by `program`.
    public init(program: String = TokenSeal.standardProgram) {
        self.program = program
    }

    /// Encrypts `bytes` under `name`, and sees that they can be had back.
    func close(_ bytes: [UInt8], name: String) throws(Fault) -> [UInt8] {
        let sealed = try run(["encrypt", "--name=\(name)", "-", "-"], bytes)
        // A pair that cannot be had back would lock the gateway out.
        guard TokenSeal.isSealed(sealed), try open(sealed, name: name) == bytes else {
            throw .notTheSame
        }
        return sealed
    }

    /// Decrypts what ``close(_:name:)`` made.
    func open(_ sealed: [UInt8], name: String) throws(Fault) -> [UInt8] {
        try run(["decrypt", "--name=\(name)", "-", "-"], sealed)
    }

    /// Whether a token file with these contents is sealed: that is Base64, in lines; a record in clear is
    /// a JSON object.
    static func isSealed(_ contents: some Collection<UInt8>) -> Bool {
        !contents.isEmpty
            && contents.allSatisfy {
                $0.isAlphanumeric || $0 == 0x2B || $0 == 0x2F || $0 == 0x3D || $0 == 0x0A
            }
    }

    private func run(_ words: [String], _ input: [UInt8]) throws(Fault) -> [UInt8] {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw .notRun(errno: errno) }
        let child: pid_t
        do {
            child = try spawn(words, on: ends[1])
            Glibc.close(ends[1])
        } catch {
            Glibc.close(ends[0])
            Glibc.close(ends[1])
            throw error
        }
        let output = exchange(input, ends[0])
        Glibc.close(ends[0])
        if output == nil { kill(child, SIGKILL) }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0 {
            guard errno == EINTR else { throw .unanswered }
        }
        guard let output else { throw .unanswered }
        guard status == 0 else { throw .refused(status: status & 0x7F == 0 ? status >> 8 : -1) }
        return output
    }

    private func spawn(_ words: [String], on descriptor: Int32) throws(Fault) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, descriptor, 0)
        posix_spawn_file_actions_adddup2(&actions, descriptor, 1)
        // Its complaints may name paths; its exit code says enough.
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A thread of Swift's pool may have signals blocked, and a child inherits that.
        withUnsafeTemporaryAllocation(of: sigset_t.self, capacity: 1) { none in
            guard let none = none.baseAddress else { return }
            sigemptyset(none)
            posix_spawnattr_setsigmask(&attributes, none)
        }
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var arguments = ([program] + words).map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        // Nothing of ours: no notification socket, no settings, no loader variables.
        var environment = [strdup("LC_ALL=C"), strdup("PATH=/usr/bin:/bin"), nil]
        defer { for variable in environment { free(variable) } }
        var child: pid_t = 0
        let fault = posix_spawn(&child, program, &actions, &attributes, &arguments, &environment)
        guard fault == 0 else { throw .notRun(errno: fault) }
        return child
    }

    /// Sends `input`, ends it, and reads to the end; nil if it takes too long.
    private func exchange(_ input: [UInt8], _ socket: Int32) -> [UInt8]? {
        var patience = timeval(tv_sec: Int(Self.patience.components.seconds), tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, size)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, size)
        var sent = 0
        while sent < input.count {
            let count = input.withUnsafeBytes { buffer in
                send(
                    socket, buffer.baseAddress.map { $0 + sent }, buffer.count - sent,
                    Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            // It may leave without reading; its status says why.
            guard count > 0 else { break }
            sent += count
        }
        shutdown(socket, Int32(SHUT_WR))
        var output: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4096)
        while output.count <= Self.bytesMax {
            let count = read(socket, &part, part.count)
            if count == 0 { return output }
            if count < 0 {
                if errno == EINTR { continue }
                // Gone with input unread.
                return errno == ECONNRESET ? output : nil
            }
            output += part[..<count]
        }
        return nil
    }
}

extension TokenSeal.Fault: CustomStringConvertible {
    /// The failed step.
    public var description: String {
        switch self {
        case .notRun(let number):
            "systemd-creds cannot be run: \(String(cString: strerror(number)))"
        case .unanswered: "systemd-creds does not answer"
        case .refused(let status):
            "systemd-creds refused (status \(status)): no host key or TPM that this user may use, or "
                + "sealed on another machine"
        case .notTheSame: "systemd-creds cannot open what it has sealed"
        }
    }
}
