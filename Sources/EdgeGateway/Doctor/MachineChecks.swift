import Basics
import Foundation
import Glibc
import OfflineQueue

/// Clock, disk and store.
struct MachineChecks {
    /// Below this a day or two of logs fill a card, bytes.
    private static let freeBytesMin: UInt64 = 256 << 20
    /// A store of up to so many bytes is checked completely, which takes seconds.
    private static let verifiedBytesMax = 128 << 20

    let tree: SystemTree
    let settings: Settings
    var clock: any GatewayClock
    var times = LocalTimes.utc

    func run() -> [Finding] { [time(), disk(), wear(), modes(), store()] }

    func time() -> Finding {
        let name = "clock"
        let reading = clock.read()
        let wall = Date(reading.wall)
        let message: String
        switch clock.doubt(reading) {
        case nil:
            let how =
                settings.clockTrust == .always ? "trusted by clock.trust: always" : "synchronised"
            return .ok(name, "\(times.sentence(wall)), \(how)")
        case .early?:
            message = "the clock says \(times.sentence(wall)), before this program was built"
        case .late(_, let latestYear)?:
            message =
                "the clock says \(times.sentence(wall)), after clock.latest_year (\(latestYear))"
        case .unsynchronised?: message = "the clock is not synchronised; nothing is sent"
        }
        return .fault(
            name, message,
            "timedatectl set-ntp true; allow UDP port 123 out; without any network, set the "
                + "clock, then clock.trust: always")
    }

    func disk() -> Finding {
        let name = "disk"
        var information = statvfs()
        guard statvfs(tree.root + settings.stateDirectory, &information) == 0 else {
            return .fault(
                name, "\(settings.stateDirectory) is missing, or this user may not read it",
                "start the daemon once, or run doctor with sudo")
        }
        let free = UInt64(information.f_bavail) * UInt64(information.f_frsize)
        let megabytes = "\(free >> 20) MB free"
        if information.f_flag & UInt(ST_RDONLY) != 0 {
            return .fault(
                name, "the file system is read-only, \(megabytes)",
                "dmesg | tail; a worn card makes itself read-only: replace it "
                    + "(docs/operate/operations.md, \"Backup, and a new card\")")
        }
        guard free >= Self.freeBytesMin else {
            return .fault(name, megabytes, "make room, or move the state directory")
        }
        return .ok(name, megabytes)
    }

    /// eMMC and some cards report how worn they are (JEDEC JESD84-B51 §7.4.43 and following).
    func wear() -> Finding {
        let name = "disk-wear"
        for card in tree.names("/sys/block").filter({
            $0.hasPrefix("mmcblk") && !$0.contains("boot")
        }) {
            let device = "/sys/block/\(card)/device/"
            guard let life = tree.text(device + "life_time") else { continue }
            // Two estimates in tenths of the life, 0x01 for the first tenth used, 0x0B for all.
            let tenths =
                life.split(separator: " ").compactMap { Int($0.dropFirst(2), radix: 16) }
                .max() ?? 0
            let isEnding = tree.text(device + "pre_eol_info").map { $0 != "0x01" && $0 != "0x00" }
            if isEnding == true || tenths >= 9 {
                return .warning(
                    name, "\(card) has used \(min(tenths, 10) * 10) % of its life",
                    "replace it at the next visit")
            }
            return .ok(name, "\(card) has used up to \(tenths * 10) % of its life")
        }
        return .unknown(name, "this disk does not report its wear")
    }

    /// The daemon takes others' rights away at each start, if the files are its own.
    func modes() -> Finding {
        let name = "state-modes"
        let directory = tree.root + settings.stateDirectory
        guard let first = StateModes(directory: directory).open().first else {
            return tree.exists(settings.stateDirectory)
                ? .ok(name, "the state directory is for the gateway's user alone")
                : .unknown(name, "there is no state directory yet", "start the daemon once")
        }
        return .fault(
            name, "other users have rights to \(first.dropFirst(tree.root.count))",
            "chown it to the gateway's user, then restart the daemon, which takes their rights away"
        )
    }

    func store() -> Finding {
        let name = "store"
        let path = tree.root + settings.stateDirectory + "/queue.sqlite"
        guard FileManager.default.fileExists(atPath: path) else {
            return .unknown(
                name, "there is no store yet, or this user may not read it",
                "run doctor with sudo")
        }
        do {
            try SampleQueue.checkOpens(path: path)
        } catch {
            return .fault(name, error.cause, error.code.advice)
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        let bytes = attributes?[.size] as? Int ?? 0
        guard bytes <= Self.verifiedBytesMax else {
            return .unknown(
                name, "\(bytes >> 20) MB, too large to check here", "edge-gateway queue verify")
        }
        do {
            let audit = try SampleQueue.verify(path: path)
            guard audit.damaged.isEmpty, audit.differences.isEmpty else {
                return .fault(
                    name,
                    "\(audit.damaged.count.counted("sample is", "samples are")) damaged; \(audit.differences.first ?? "")",
                    "edge-gateway queue verify; restart the daemon, which saves what is readable")
            }
            return .ok(name, "\(audit.samples.counted("sample")), all intact")
        } catch {
            return .fault(name, error.cause, error.code.advice)
        }
    }
}
