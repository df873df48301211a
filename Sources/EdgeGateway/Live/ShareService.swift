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
        var worn: WornStrap?
        if let address = ask.address {
            let sensor = try await queue.sensors().first { $0.address == address.uppercased() }
            worn = try await self.worn().first { $0.sensor == sensor?.id }
            guard worn != nil else { throw ProblemReport.unknownSensor }
        }
        let now = Date()
        let expires = now.addingTimeInterval(Double(ask.hours) * 3600)
        let share = try await shares.make(sensor: worn, expires: expires, at: now)
        return ShareReport(
            link: page.url(place) + "/#" + share.token, expires: expires,
            loopbackOnly: place.isLoopback)
    }

    /// Ends the shares whose time is over, and those of a strap that somebody else wears by now, or nobody.
    func look(at now: Date) async {
        // What stands in for an absent store knows of no share.
        let isThere = await !queue.health().isAbsent
        await shares.look(at: now, worn: isThere ? try? await worn() : nil)
    }

    private func worn() async throws -> Set<WornStrap> {
        Set(
            try await queue.openAssignments().map {
                WornStrap(sensor: $0.sensorID, assignment: $0.id)
            })
    }

    /// Ends all shares.
    func stop() async throws -> ShareStopReport {
        ShareStopReport(stopped: try await shares.stop(at: Date()))
    }
}
