import Foundation

/// The file that holds one delivery's tokens.
public typealias TokenFile = SecretFile<TokenRecord>

/// A file that holds one record of secrets: mode 0600, replaced as a whole.
///
/// A crash at any moment leaves the old record or the new one, never a mixture: the new record is
/// written beside the old one, synced, renamed over it, and the directory is synced.
public struct SecretFile<Record: Codable & Sendable>: Sendable {
    /// The step at which a write failed.
    public enum Step: String, Sendable, CaseIterable {
        /// Opening the new file beside the old one.
        case create
        /// Writing the record.
        case write
        /// Forcing the record to the disk.
        case sync
        /// Putting the new file in the old one's place.
        case rename
        /// Forcing the directory to the disk.
        case syncDirectory
    }

    /// Why the file could not be read or written.
    public enum Fault: Error, Hashable, Sendable {
        /// There is no such file.
        case missing
        /// A step of writing failed with this `errno`.
        case unwritable(Step, errno: Int32)
        /// Reading failed with this `errno`.
        case unreadable(errno: Int32)
        /// The file is no record of this version.
        case damaged
        /// It could not be sealed, and must be.
        case unsealed(TokenSeal.Fault)
        /// It is sealed and could not be opened.
        case unopened(TokenSeal.Fault)
    }

    /// The path of the file.
    public let path: String
    /// Whether it is sealed when it is written.
    public let policy: TokenSeal.Policy
    private let seal: TokenSeal
    /// Called before each step; a non-zero `errno` makes the step fail. For tests of crashes.
    var failing: @Sendable (Step) -> Int32 = { _ in 0 }

    /// A record is under 2 KiB; anything much larger is not one.
    static var bytesMax: Int { 64 << 10 }
    private static var version: Int { 1 }

    private struct Contents: Codable {
        var version: Int
        var record: Record
    }

    /// The file at `path`, whose directory exists.
    public init(
        path: String, policy: TokenSeal.Policy = .never, seal: TokenSeal = TokenSeal()
    ) {
        self.path = path
        self.policy = policy
        self.seal = seal
    }

    /// The name that a file is sealed under: it opens under no other.
    private var name: String { path.split(separator: "/").last.map(String.init) ?? path }

    private var temporaryPath: String { path + ".new" }

    /// Reads the record.
    public func load() throws(Fault) -> Record {
        var bytes = try contents()
        if TokenSeal.isSealed(bytes) {
            do {
                bytes = try seal.open(bytes, name: name)
            } catch {
                throw .unopened(error)
            }
        }
        guard let contents = try? JSONDecoder().decode(Contents.self, from: Data(bytes)),
            contents.version == Self.version
        else { throw .damaged }
        return contents.record
    }

    /// Whether the file is sealed.
    public func isSealed() throws(Fault) -> Bool { TokenSeal.isSealed(try contents()) }

    private func contents() throws(Fault) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? .missing : .unreadable(errno: errno)
        }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.bytesMax)
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { buffer in
                read(descriptor, buffer.baseAddress.map { $0 + count }, buffer.count - count)
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw .unreadable(errno: errno) }
            if got == 0 { break }
            count += got
        }
        guard count < bytes.count else { throw .damaged }
        return Array(bytes[..<count])
    }

    /// Replaces the record. When this returns, the new one is on the disk.
    public func save(_ record: Record) throws(Fault) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(Contents(version: Self.version, record: record))
        else {
            throw .unwritable(.write, errno: EINVAL)
        }
        let contents = try sealed([UInt8](bytes))
        unlink(temporaryPath)
        do {
            try put(contents)
            _ = try step(.rename) { rename(temporaryPath, path) }
            TokenFaultPoint.renamed.reach()
        } catch {
            unlink(temporaryPath)
            throw error
        }
        try syncDirectory()
        TokenFaultPoint.directorySynced.reach()
    }

    private func sealed(_ bytes: [UInt8]) throws(Fault) -> [UInt8] {
        guard policy != .never else { return bytes }
        do {
            return try seal.close(bytes, name: name)
        } catch {
            if policy == .always { throw .unsealed(error) }
            return bytes
        }
    }

    private var asidePath: String { path + ".erasing" }

    /// Moves the record out of the way, if there is one, until it is removed or put back.
    public func setAside() throws(Fault) {
        let forced = failing(.rename)
        guard forced == 0 else { throw .unwritable(.rename, errno: forced) }
        guard rename(path, asidePath) == 0 || errno == ENOENT else {
            throw .unwritable(.rename, errno: errno)
        }
        try syncDirectory()
    }

    /// Puts a record back that was set aside.
    public func putBack() throws(Fault) {
        guard rename(asidePath, path) == 0 || errno == ENOENT else {
            throw .unwritable(.rename, errno: errno)
        }
        try syncDirectory()
    }

    /// Deletes the record, if there is one, set aside or not.
    public func remove() throws(Fault) {
        unlink(temporaryPath)
        guard unlink(asidePath) == 0 || errno == ENOENT else {
            throw .unwritable(.rename, errno: errno)
        }
        guard unlink(path) == 0 || errno == ENOENT else {
            throw .unwritable(.rename, errno: errno)
        }
        try syncDirectory()
    }

    /// Clears up what a crash has left of a write, or between ``setAside()`` and what had to follow it. Nothing may
    /// use the file meanwhile.
    ///
    /// - Parameter isKept: whether what the record is for still exists. Then a record that was set aside is put back,
    ///   unless there is a newer one, and is deleted otherwise.
    public func clearUp(isKept: Bool) throws(Fault) {
        unlink(temporaryPath)
        if isKept, access(path, F_OK) != 0 { return try putBack() }
        guard unlink(asidePath) == 0 || errno == ENOENT else {
            throw .unwritable(.rename, errno: errno)
        }
        try syncDirectory()
    }

    private func put(_ bytes: [UInt8]) throws(Fault) {
        let descriptor = try step(.create) {
            open(temporaryPath, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        }
        defer { close(descriptor) }
        var written = 0
        while written < bytes.count {
            written += Int(
                try step(.write) {
                    Int32(
                        bytes.withUnsafeBytes { buffer in
                            write(
                                descriptor, buffer.baseAddress.map { $0 + written },
                                buffer.count - written)
                        })
                })
        }
        TokenFaultPoint.written.reach()
        _ = try step(.sync) { fsync(descriptor) }
        TokenFaultPoint.synced.reach()
    }

    private func syncDirectory() throws(Fault) {
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        _ = try step(.syncDirectory) {
            let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { return -1 }
            defer { close(descriptor) }
            return fsync(descriptor)
        }
    }

    /// Runs a system call that reports failure as a negative number, again when interrupted.
    private func step(_ step: Step, _ call: () -> Int32) throws(Fault) -> Int32 {
        let forced = failing(step)
        guard forced == 0 else { throw .unwritable(step, errno: forced) }
        while true {
            let result = call()
            if result >= 0 { return result }
            let number = errno
            if number != EINTR { throw .unwritable(step, errno: number) }
        }
    }
}

extension SecretFile.Fault: CustomStringConvertible {
    /// The failed step, without the path.
    public var description: String {
        switch self {
        case .missing: "there is no token file"
        case .unwritable(let step, let number):
            "write token file (\(step.rawValue)): \(String(cString: strerror(number)))"
        case .unreadable(let number): "read token file: \(String(cString: strerror(number)))"
        case .damaged: "the token file is damaged"
        case .unsealed(let fault): "seal token file: \(fault)"
        case .unopened(let fault): "open sealed token file: \(fault)"
        }
    }
}
