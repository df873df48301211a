import Glibc

/// Looks at what the threads of processes do, thousands of times a second. The files of proc(5) that say so stay open:
/// to find and open one costs more than to read it.
final class ThreadWatch {
    private final class Process {
        /// Its folder of threads.
        let folder: CInt
        /// Links of the folder when the threads were listed: one for each, beside the usual two.
        var links: nlink_t = 0
        var files: [CInt] = []

        init(_ process: pid_t) {
            folder = open("/proc/\(process)/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }

        deinit {
            closeFiles()
            close(folder)
        }

        func closeFiles() {
            for file in files { close(file) }
            files = []
        }

        /// Opens the files of the threads that there are now.
        func list() {
            closeFiles()
            guard let names = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
            else { return }
            defer { closedir(names) }
            while let entry = readdir(names) {
                guard entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) else { continue }
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) {
                        String(cString: $0)
                    }
                }
                let file = openat(folder, "\(name)/stat", O_RDONLY | O_CLOEXEC)
                if file >= 0 { files.append(file) }
            }
        }
    }

    private var processes: [pid_t: Process] = [:]

    /// Whether a thread of a process is in one of these states (proc(5)): R runs or waits for a processor, D waits
    /// for the disk.
    func hasThread(of id: pid_t, in states: StaticString) -> Bool {
        guard id > 0 else { return false }
        let process = processes[id] ?? Process(id)
        processes[id] = process
        while true {
            var folder = stat()
            guard fstat(process.folder, &folder) == 0 else { break }
            if folder.st_nlink != process.links {
                process.list()
                process.links = folder.st_nlink
            }
            guard !process.files.isEmpty else { break }
            var areAllThere = true
            for file in process.files {
                guard let state = Self.state(in: file) else {
                    areAllThere = false
                    continue
                }
                if memchr(states.utf8Start, CInt(state), states.utf8CodeUnitCount) != nil {
                    return true
                }
            }
            if areAllThere { return false }
            // One has ended, and another may have begun.
            process.links = 0
        }
        // It has ended, and its number may be another's one day.
        processes[id] = nil
        return false
    }

    /// The state of a process or a thread by its file. Without the optimizer an array would cost as much as the system
    /// call.
    static func state(in file: CInt) -> UInt8? {
        // "4194304 (fifteen letters) S 1 …"
        withUnsafeTemporaryAllocation(byteCount: 32, alignment: 1) { text in
            var end = pread(file, text.baseAddress, text.count, 0) - 3
            while end > 0, text[end] != UInt8(ascii: ")") { end -= 1 }
            return end > 0 ? text[end + 2] : nil
        }
    }
}
