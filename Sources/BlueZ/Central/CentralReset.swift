/// Mending an adapter that hangs.
extension Central {
    /// What the kernel's own management interface needs to take a controller down.
    static let powerOffPause = Duration.seconds(2)
    private static let hourMicroseconds: Int64 = 3_600_000_000

    /// Power-cycles an adapter, at most so many times an hour as the settings allow.
    ///
    /// - Parameter isThorough: resets the controller itself, where somebody can.
    func resetAdapter(_ path: String, isThorough: Bool) {
        let now = clock.now()
        resets.removeAll { $0 + Self.hourMicroseconds < now }
        guard let client, let adapter = adapters[path],
            resets.count < settings.adapterResetsPerHourMax
        else { return }
        resets.append(now)
        mailbox.post([.adapterReset(address: adapter.address)])
        Task { [clock, settings] in
            if isThorough, await settings.resetsController?(adapter.address) == true { return }
            do throws(DBusFault) {
                try await client.powerOff(path)
                await clock.sleep(Self.powerOffPause)
                try await client.powerOn(path)
            } catch {
                self.count(error)
            }
        }
    }
}
