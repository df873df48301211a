import Foundation

/// The packages that Debian's own list has. It is read as a file: `dpkg-query` may be slow on a card, and
/// absent elsewhere.
struct DebianPackages {
    let tree: SystemTree

    /// The versions of the installed packages whose name is wanted, by name.
    func versions(_ isWanted: (String) -> Bool) -> [String: String] {
        guard let list = FileManager.default.contents(atPath: tree.root + "/var/lib/dpkg/status")
        else { return [:] }
        var versions: [String: String] = [:]
        var name: String?
        var isInstalled = false
        for line in String(decoding: list, as: UTF8.self).split(separator: "\n") {
            if line.hasPrefix("Package: ") {
                let found = String(line.dropFirst("Package: ".count))
                (name, isInstalled) = (isWanted(found) ? found : nil, false)
            } else if line.hasPrefix("Status: ") {
                isInstalled = line.hasSuffix(" installed")
            } else if let name, isInstalled, line.hasPrefix("Version: ") {
                versions[name] = Printable.line(String(line.dropFirst("Version: ".count)))
            }
        }
        return versions
    }
}
