import Basics

/// How frames come: by a socket or by signals.
extension Central {
    /// Subscribes over a socket if one is wanted and available, else by signals.
    func subscribe(
        to characteristic: String, of link: WatchedLink, _ client: BlueZClient
    ) async throws(DBusFault) {
        let wantsSocket = settings.wantsSocket && link.socketLostAt != link.machine.attempt
        let made = try await client.subscribe(characteristic, prefersSocket: wantsSocket)
        if let refusal = made.refusal { count(refusal) }
        mailbox.post([.subscribed(address: link.address, made.way, refusal: made.refusal)])
    }

    /// The socket of a sensor's frames ended, or its characteristic is gone. bluetoothd closes the one and removes the
    /// other a moment before it tells that the link is lost. While the link stays, any program that calls `StopNotify`
    /// has the socket closed, too, and a sensor whose services change has other characteristics in a moment.
    func noteSubscriptionEnd(at path: String, isOfSocket: Bool) {
        guard let client, let link = subscribers[path], let device = link.device else { return }
        let attempt = link.machine.attempt
        Task {
            do throws(DBusFault) {
                let known = try await client.refresh(device: device)
                guard known?.isConnected == true, link.machine.attempt == attempt else { return }
                if isOfSocket {
                    link.socketLostAt = attempt
                } else {
                    link.servicesChangedAt = attempt
                }
                self.handle(.notificationsEnded, link)
            } catch {
                self.count(error)
            }
            self.settle()
        }
    }

    func noteFullSocket(at path: String) {
        guard let link = subscribers[path] else { return }
        mailbox.post([.socketFull(address: link.address)])
    }
}
