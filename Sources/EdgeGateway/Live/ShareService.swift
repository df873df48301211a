import Foundation
import OfflineQueue

/// Links that show heart rates and nothing else.
struct ShareService: Sendable {
    let queue: SampleQueue
    let shares: Shares
    let page: PageLink

    /// Makes a link to the live page with heart rates only.
    func share(_ ask: ShareRequest) async throws -> ShareReport {
        let place = try page.place()
        guard Shares.hoursRange.contains(ask.hours) else {
            throw ProblemReport(
                code: .badRequest,
                message: "a link lasts from 1 hour to \(Shares.hoursRange.upperBound / 24) days",
                advice: "edge-gateway share --for 24h")
        }
        var sensor: Sensor?
        if let address = ask.address {
            sensor = try await queue.sensors().first { $0.address == address.uppercased() }
            guard sensor != nil else { throw ProblemReport.unknownSensor }
        }
        let now = Date()
        let expires = now.addingTimeInterval(Double(ask.hours) * 3600)
        let share = try await shares.make(sensor: sensor?.id, expires: expires, at: now)
        return ShareReport(
            link: page.url(place) + "/#" + share.token, expires: expires,
            loopbackOnly: place.isLoopback)
    }

    /// Ends all shares.
    func stop() async throws -> ShareStopReport {
        ShareStopReport(stopped: try await shares.stop(at: Date()))
    }
}
