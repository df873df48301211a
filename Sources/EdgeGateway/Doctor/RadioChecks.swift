import BlueZ
import Foundation

/// Controllers, bluetoothd and what the kernel allows them.
struct RadioChecks {
    /// Straps ask for a connection interval of up to 500 ms; a kernel that refuses it loses them
    /// after half a minute or two. In units of 1.25 ms (Core v5.4 Vol 6 Part B §4.5.1).
    private static let intervalWanted = 400
    private static let busDeadline = Duration.seconds(5)

    let tree: SystemTree
    var controllers: ([Controller], errno: Int32?) = {
        let (list, errno) = Controller.list()
        return (list, errno)
    }()

    func run() async -> [Finding] {
        [kernelControllers(), switchedOff(), connectionWindow(), wifi(), await daemon()]
    }

    func kernelControllers() -> Finding {
        let name = "controller"
        if let number = controllers.errno {
            return .fault(
                name, "this kernel has no Bluetooth (\(String(cString: strerror(number))))",
                "boot a kernel with Bluetooth; modprobe bluetooth; dmesg | grep -i bluetooth")
        }
        guard !controllers.0.isEmpty else {
            return .fault(
                name, "the kernel sees no Bluetooth controller",
                "plug one in; on a Raspberry Pi remove dtoverlay=disable-bt from config.txt")
        }
        let words = controllers.0.map {
            "hci\($0.index) …\($0.address.suffix(5)) \($0.isUp ? "up" : "down")"
        }
        guard controllers.0.contains(where: \.isUp) else {
            return .fault(
                name, words.joined(separator: ", "),
                "rfkill unblock bluetooth; bluetoothctl power on")
        }
        return .ok(name, words.joined(separator: ", "))
    }

    func switchedOff() -> Finding {
        let name = "rfkill"
        let switches = tree.names("/sys/class/rfkill").map { "/sys/class/rfkill/" + $0 }
            .filter { tree.text($0 + "/type") == "bluetooth" }
        let hard = switches.filter { tree.number($0 + "/hard") == 1 }
        let off = switches.filter { hard.contains($0) || tree.number($0 + "/soft") == 1 }
        guard let one = off.first else {
            return switches.isEmpty
                ? .unknown(name, "rfkill lists no Bluetooth controller")
                : .ok(name, "Bluetooth is not switched off")
        }
        let advice = hard.isEmpty ? "rfkill unblock bluetooth" : "use the machine's switch"
        guard off.count == switches.count else {
            return .warning(
                name,
                "\(tree.text(one + "/name") ?? "an adapter") is switched off; the gateway uses another one",
                "if that is not meant: \(advice)")
        }
        return .fault(
            name, "Bluetooth is switched off\(hard.isEmpty ? "" : " by hardware")", advice)
    }

    func connectionWindow() -> Finding {
        let name = "connection-interval"
        let base = "/sys/kernel/debug/bluetooth/"
        let windows = tree.names(base).filter { $0.hasPrefix("hci") }.compactMap { controller in
            tree.number(base + controller + "/conn_max_interval").map { (controller, $0) }
        }
        guard !windows.isEmpty else {
            return .unknown(
                name, "the kernel's connection window cannot be read",
                "it takes root and a mounted debugfs: sudo mount -t debugfs none /sys/kernel/debug")
        }
        let narrow = windows.filter { $0.1 < Self.intervalWanted }
        guard let first = narrow.first else {
            return .ok(name, "straps may ask for intervals of up to 500 ms")
        }
        return .warning(
            name,
            "\(first.0) allows \(first.1 * 5 / 4) ms at most; some kernels then drop straps that "
                + "ask for 500 ms",
            "if straps disconnect after the same time again and again: [LE] MaxConnectionInterval=400 in "
                + "/etc/bluetooth/main.conf")
    }

    /// Bluetooth and Wi-Fi of one chip share an antenna.
    func wifi() -> Finding {
        let name = "wifi"
        let interfaces = tree.names("/sys/class/net").filter {
            tree.exists("/sys/class/net/\($0)/wireless")
                || tree.exists("/sys/class/net/\($0)/phy80211")
        }
        let up = interfaces.filter { tree.text("/sys/class/net/\($0)/operstate") == "up" }
        guard let first = up.first else { return .ok(name, "no Wi-Fi is in use") }
        let driver = tree.linkName("/sys/class/net/\(first)/device/driver") ?? "unknown driver"
        let isShared = [
            "brcmfmac", "rtw88", "rtl8723bs", "rtl8723ds", "mwifiex_sdio", "ath10k_sdio",
        ]
        .contains { driver.hasPrefix($0) }
        return isShared
            ? .warning(
                name, "\(first) (\(driver)) shares its chip with Bluetooth",
                "use 5 GHz or a cable; or a USB Bluetooth adapter on an extension lead")
            : .ok(name, "\(first) (\(driver))")
    }

    /// Whether this user has access to bluetoothd, and its version.
    func daemon() async -> Finding {
        let name = "bluetoothd"
        let version = bluezVersion().map { "BlueZ \($0)" } ?? "BlueZ of unknown version"
        do throws(DBusFault) {
            let bus = try await DBusConnection.open()
            defer { bus.close() }
            _ = try await bus.call(
                destination: "org.bluez", path: "/",
                interface: "org.freedesktop.DBus.ObjectManager", member: "GetManagedObjects",
                deadline: Self.busDeadline)
            return .ok(name, "\(version) answers")
        } catch {
            if error.name == DBusFault.accessDenied {
                return .fault(
                    name, "D-Bus denies this user access to bluetoothd",
                    "sudo apt install --reinstall edge-gateway brings the D-Bus policy of the user "
                        + "edge-gateway back; add another user to the group bluetooth")
            }
            if error.name.hasSuffix("ServiceUnknown") || error.name.hasSuffix("NameHasNoOwner") {
                return .fault(name, "bluetoothd is not running", "systemctl enable --now bluetooth")
            }
            return .fault(name, "\(error.name)", "systemctl status dbus bluetooth")
        }
    }

    /// The version by Debian's files: bluetoothd does not give its version over D-Bus.
    private func bluezVersion() -> String? {
        DebianPackages(tree: tree).versions { $0 == "bluez" }["bluez"]
    }
}
