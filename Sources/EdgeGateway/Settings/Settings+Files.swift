import Foundation

/// What the settings name must be there before the daemon starts.
extension Settings {
    /// - Throws: ``SettingsFault`` for the first file that cannot be used, and for a proxy that is no
    ///   address.
    func checkUplink() throws(SettingsFault) {
        if let proxy, !ProxyAddress.isValid(proxy) {
            // What is wrong with it may be the password.
            throw SettingsFault(
                description: "configuration `uplink.proxy` is no address such as "
                    + "http://proxy.example:3128")
        }
        try check("uplink.ca_file", caFile)
        try check("uplink.client_certificate_file", clientCertificateFile)
        try check("uplink.client_key_file", clientKeyFile)
        guard let key = clientKeyFile else { return }
        guard clientCertificateFile != nil else {
            throw SettingsFault(
                description: "configuration `uplink.client_key_file` is set without "
                    + "`uplink.client_certificate_file`; set both")
        }
        let mode = try? FileManager.default.attributesOfItem(atPath: key)[.posixPermissions]
        if let mode = mode as? Int, mode & 0o007 != 0 {
            throw SettingsFault(
                description: "configuration `uplink.client_key_file`: everybody may read \(key); "
                    + "chmod 640 it")
        }
    }

    private func check(_ name: String, _ path: String?) throws(SettingsFault) {
        guard let path else { return }
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
            !isDirectory.boolValue, FileManager.default.isReadableFile(atPath: path)
        else {
            throw SettingsFault(
                description: "configuration `\(name)`: \(path) is not there, or this user may not "
                    + "read it")
        }
    }
}
