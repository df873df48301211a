import Basics
import Foundation
import GATTHeartRate
import Testbed
import Testing

@Suite(.serialized) struct HeartbeatTests {
    @Test func everyFrameOfTwoStrapsReachesItsPatientOnce() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            try await fixture.put(on: 0)
            try await fixture.put(on: 1)
            try await fixture.eventually("samples of both") {
                $0.sensors.count == 2 && $0.sensors.allSatisfy { $0.stored >= 5 }
            }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            for index in 0..<2 {
                let sent = await fixture.bluez.framesSent(TestWorld.addresses[index])
                let rates = try sent.map {
                    Double(try HeartRateMeasurement(frame: $0.bytes).bpm)
                }
                let stored = await fixture.exchange.stored
                    .filter { $0.patient == TestWorld.patients[index] }
                    .sorted { ($0.effectiveTime ?? "") < ($1.effectiveTime ?? "") }
                #expect(stored.compactMap(\.beatsPerMinute) == rates)
                #expect(stored.allSatisfy { $0.device == 70007 })
            }
        }
    }

    @Test func aSampleIsDatedByItsArrivalToTheMillisecond() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("some samples") { $0.balance.stored >= 3 }
            _ = try await fixture.settle()
            let sent = await fixture.bluez.framesSent(TestWorld.addresses[0])
            let stored = await fixture.exchange.stored.compactMap(\.effectiveTime).sorted()
            try #require(stored.count == sent.count)
            let format = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
            let offset = Date().timeIntervalSince1970 - uptimeSeconds()
            for (time, frame) in zip(stored, sent) {
                let effective = try Date(time, strategy: format).timeIntervalSince1970
                let handedOver = (frame.uptime - .zero).inSeconds + offset
                #expect(effective - handedOver > -0.05 && effective - handedOver < 1)
            }
        }
    }

    @Test func theQueueGrowsWhileTheNetworkIsAwayAndDrainsInOrderAfter() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.exchange.cutNetwork()
            let before = await fixture.exchange.storedCount()
            try await fixture.eventually("a backlog") { $0.balance.unsent >= 6 }
            #expect(await fixture.exchange.storedCount() == before)
            try await fixture.exchange.restoreNetwork()
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            let times = await fixture.exchange.stored.compactMap(\.effectiveTime)
            #expect(times == times.sorted(), "oldest first")
        }
    }

    @Test func aStrapPairedBeforeEnrollmentRecordsAndIsDeliveredOnceAssigned() async throws {
        try await TestWorld.run { fixture in
            try await fixture.command("pair", TestWorld.addresses[0])
            let held = try await fixture.eventually("held samples") {
                $0.balance.held["not-enrolled", default: 0] >= 3
            }
            #expect(held.health.contains { $0.name == "not-enrolled" })
            let link = await fixture.exchange.invite(patient: 40001)
            try await fixture.command("enroll", "-", input: link)
            try await fixture.command("pair", TestWorld.addresses[0])
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            #expect(status.balance.delivered >= 3)
        }
    }

    @Test func garbageFramesAreKeptAndCountedAndTheStreamGoesOn() async throws {
        try await TestWorld.run { fixture in
            await fixture.bluez.setNoise(
                TestWorld.addresses[0], FrameNoise(framesPerMalformed: 2, framesPerEmpty: 3))
            try await fixture.put(on: 0)
            try await fixture.eventually("garbage") {
                $0.balance.undecodable >= 3 && $0.balance.stored >= 5
            }
            let status = try await fixture.settle()
            #expect(status.balance.addsUp)
            let sent = await fixture.bluez.framesSentCount(TestWorld.addresses[0])
            #expect(status.balance.received == sent)
            #expect(await fixture.exchange.storedCount() == status.balance.delivered)
        }
    }

    private func uptimeSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
