import Basics
import Foundation
import Glibc
import OfflineQueue

/// The statements of a report about the machine, the packages, the daemon and the store: facts, and no verdicts.
struct MachineEvidence {
    /// The packages whose versions decide how Bluetooth, the clock or the store behave.
    private static let packages = [
        "bluez", "bluez-firmware", "dbus", "edge-gateway", "firmware-brcm80211",
        "firmware-realtek", "libc6", "libcurl4", "libdbus-1-3", "libsqlite3-0", "raspi-firmware",
        "systemd", "systemd-timesyncd",
    ]
    private static let kernelPackages = ["linux-image-", "raspberrypi-kernel"]
    /// Words by which the kernel's lines about controllers and their firmware are known.
    private static let radioWords = ["bluetooth", "hci", "brcm", "btusb", "btintel", "btrtl"]
    /// The kernel speaks of the firmware first.
    private static let radioLinesMax = 60

    let tree: SystemTree
    let settings: Settings

    /// Model, kernel, page size and memory.
    func machine() -> [String] {
        var name = utsname()
        uname(&name)
        let release = tree.text("/etc/os-release").flatMap { Self.value(of: "PRETTY_NAME", in: $0) }
        return [
            "model: " + (tree.text("/proc/device-tree/model").map(Self.plain) ?? "no device tree"),
            "architecture: " + Self.string(&name.machine),
            "kernel: " + Self.string(&name.release),
            "system: " + (release ?? "unknown"),
            "page size: \(sysconf(Int32(_SC_PAGESIZE))) bytes",
            "processors: \(sysconf(Int32(_SC_NPROCESSORS_ONLN)))",
            "memory: " + Self.mebibytes(field("MemTotal", of: "/proc/meminfo")),
            "on for: "
                + (tree.text("/proc/uptime")?.split(separator: " ").first.map { "\($0) s" }
                    ?? "unknown"),
        ]
    }

    /// The versions of Debian's packages that matter here, of those that are installed.
    func packageVersions() -> [String] {
        let known = DebianPackages(tree: tree).versions { name in
            Self.packages.contains(name) || Self.kernelPackages.contains { name.hasPrefix($0) }
        }
        return known.isEmpty
            ? ["this machine has no Debian packages"]
            : known.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
    }

    /// The kernel's lines about controllers and their firmware.
    static func radioLines(inKernelLog log: String) -> [String] {
        let lines = log.split(separator: "\n").filter { line in
            let line = line.lowercased()
            return radioWords.contains { line.contains($0) }
        }
        guard !lines.isEmpty else { return ["the kernel's log says nothing of Bluetooth"] }
        return lines.prefix(radioLinesMax).map { Printable.line(String($0)) }
    }

    /// Memory and bytes written of the daemon.
    ///
    /// - Parameter uptime: how long it has run, seconds, by its own account.
    func daemon(uptime: Double?) -> [String] {
        guard let process = daemonProcess() else { return ["the daemon does not run"] }
        let memory = "/proc/\(process)/smaps_rollup"
        var lines = ["runs for: " + (uptime.map { "\(Int(bounding: $0)) s" } ?? "unknown")]
        guard let own = field("Anonymous", of: memory) else {
            return lines + ["its memory can be read by root only: sudo edge-gateway doctor"]
        }
        lines.append("memory of its own: " + Self.mebibytes(own))
        lines.append("proportional (PSS): " + Self.mebibytes(field("Pss", of: memory)))
        lines.append("resident: " + Self.mebibytes(field("Rss", of: memory)))
        lines.append("swapped: " + Self.mebibytes(field("Swap", of: memory)))
        guard let bytes = field("write_bytes", of: "/proc/\(process)/io") else { return lines }
        lines.append("written to disks: \(bytes) bytes")
        if let uptime, uptime > 0 {
            let perDay = Double(bytes) / uptime * 86_400 / 1_000_000
            lines.append("which is, for a day: \(Int(bounding: perDay)) MB")
        }
        return lines
    }

    /// The store's files, and how long the first sample of this boot took.
    func store() -> [String] {
        let path = tree.root + settings.stateDirectory + "/queue.sqlite"
        var lines: [String] = []
        for name in ["", "-wal", "-shm"] {
            let attributes = try? FileManager.default.attributesOfItem(atPath: path + name)
            guard let bytes = attributes?[.size] as? Int else { continue }
            lines.append("queue.sqlite\(name): \(bytes) bytes")
        }
        guard !lines.isEmpty else { return ["there is no store, or this user may not read it"] }
        return lines + [firstSample(path)]
    }

    private func firstSample(_ path: String) -> String {
        guard let boot = tree.text("/proc/sys/kernel/random/boot_id") else {
            return "first sample: unknown, this boot has no name"
        }
        do {
            guard let first = try SampleQueue.firstSample(path: path, bootID: boot) else {
                return "first sample: none since power-on"
            }
            func seconds(_ time: Duration) -> String {
                String(format: "%.1f s", time / .seconds(1))
            }
            return "first sample: \(seconds(first.sincePowerOn)) after power-on, "
                + "\(seconds(first.sinceStart)) after the daemon's start"
        } catch {
            return "first sample: unknown, \(error.cause)"
        }
    }

    /// How the clock came by its time.
    func clock() -> [String] {
        let stamp = "/run/systemd/timesync/synchronized"
        return [
            "systemd-timesyncd: "
                + (tree.exists(stamp) ? "has synchronised since power-on" : "has not synchronised"),
            "clock of its own: " + (tree.names("/sys/class/rtc").isEmpty ? "none" : "yes"),
            "clock.trust: \(settings.clockTrust.rawValue)",
        ]
    }

    // MARK: - Reading

    private func daemonProcess() -> String? {
        tree.names("/proc").first { process in
            guard process.allSatisfy(\.isNumber), let line = tree.text("/proc/\(process)/cmdline")
            else { return false }
            let words = line.split(separator: "\0")
            return words.first?.hasSuffix("edge-gateway") == true
                && words.dropFirst().contains("run")
        }
    }

    /// A number of a file of `Name: NUMBER` lines.
    private func field(_ name: String, of path: String) -> Int? {
        for line in (tree.text(path) ?? "").split(separator: "\n") where line.hasPrefix(name + ":")
        {
            return line.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        }
        return nil
    }

    private static func mebibytes(_ kibibytes: Int?) -> String {
        kibibytes.map { String(format: "%.1f MiB", Double($0) / 1024) } ?? "unknown"
    }

    private static func plain(_ text: String) -> String {
        Printable.line(text.filter { $0 != "\0" })
    }

    /// A value in a file of `NAME="VALUE"` lines.
    private static func value(of name: String, in text: String) -> String? {
        text.split(separator: "\n").first { $0.hasPrefix(name + "=") }
            .map { plain($0.dropFirst(name.count + 1).filter { $0 != "\"" }) }
    }

    private static func string<Characters>(_ field: inout Characters) -> String {
        withUnsafeBytes(of: &field) { bytes in
            plain(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self))
        }
    }
}
