import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Synchronization
import Testing
import Uplink

@testable import EdgeGateway

/// Changes to an enrollment, with each of their steps failing: all of it is done, or nothing.
@Suite struct EnrollmentChangeTests {
    private struct Failed: Error {}

    /// The step that fails; none at first.
    private final class FailingStep: Sendable {
        private let step = Mutex<EnrollmentStep?>(nil)

        func set(_ new: EnrollmentStep?) { step.withLock { $0 = new } }

        func reach(_ step: EnrollmentStep) throws {
            if self.step.withLock({ $0 == step }) { throw Failed() }
        }
    }

    private struct Place {
        let directory: URL
        let gateway: Gateway
        let failing = FailingStep()

        init() async throws {
            directory = URL(filePath: "/tmp/enrollment-change-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            let settings = try SettingsLoader(environment: [
                "EDGE_GATEWAY_STATE": directory.path, "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
            ]).load()
            let clock = SystemClock(trust: .always)
            gateway = Gateway(
                settings: settings,
                queue: try SampleQueue(
                    path: directory.path + "/queue.sqlite", clock: clock, bootID: "boot"),
                central: Central(settings: CentralSettings(service: HeartRateService.service)),
                clock: clock, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                failing: { [failing] in try failing.reach($0) })
        }

        func end() async {
            await gateway.deliveries.stopAll()
            try? await gateway.queue.close()
            try? FileManager.default.removeItem(at: directory)
        }
    }

    private static func terms(_ device: String) -> EnrollmentTerms {
        // No server listens there.
        EnrollmentTerms(
            name: "e1", origin: "http://127.0.0.1:9", fhirBase: "http://127.0.0.1:9/FHIR/R5",
            clientID: "gw", patient: "40001", device: device,
            codeSystem: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0",
            identifierSystem: "urn:x")
    }

    private static func tokens(_ text: String) throws -> TokenRecord {
        TokenRecord(
            origin: try #require(Origin("http://127.0.0.1:9")), clientID: "gw", credential: .none,
            pair: TokenPair(
                access: Secret(text), refresh: Secret("refresh-" + text),
                granted: UTC(microseconds: 1_795_000_000_000_000), lifetime: .seconds(1_209_600)))
    }

    @Test(arguments: EnrollmentStep.allCases)
    func anEnrollmentThatCannotBeStoredLeavesNothingBehind(step: EnrollmentStep) async throws {
        let place = try await Place()
        let gateway = place.gateway
        place.failing.set(step)
        await #expect(throws: Failed.self) {
            _ = try await gateway.enrollmentChanges.begin(
                Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        }
        #expect(try await gateway.queue.enrollments().isEmpty)
        let files = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        #expect(files.allSatisfy { !$0.hasPrefix("tokens-") }, "\(files)")
        place.failing.set(nil)
        let stored = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        #expect(stored.state == .active)
        #expect(await gateway.deliveries.isRunning(1))
        await place.end()
    }

    @Test(arguments: EnrollmentStep.allCases)
    func anEarlierEnrollmentGoesOnWhenANewOneCannotBeStored(step: EnrollmentStep) async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        let known = try #require(try await gateway.queue.enrollments().first)
        place.failing.set(step)
        await #expect(throws: Failed.self) {
            _ = try await gateway.enrollmentChanges.begin(
                Self.terms("70008"), insteadOf: known, .tokens(try Self.tokens("b")),
                hold: .noConsent)
        }
        #expect(try await gateway.queue.enrollments() == [known])
        #expect(
            try gateway.enrollmentChanges.tokenFile(of: known.id).load() == Self.tokens("a"))
        #expect(await gateway.deliveries.isRunning(known.id))
        #expect(await gateway.deliveries.stopped(known.id) == nil)
        place.failing.set(nil)
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70008"), insteadOf: known, .tokens(try Self.tokens("b")), hold: .noConsent)
        #expect(try await gateway.queue.enrollments().first?.terms.device == "70008")
        #expect(
            try gateway.enrollmentChanges.tokenFile(of: known.id).load() == Self.tokens("b"))
        #expect(await gateway.deliveries.isRunning(known.id))
        await place.end()
    }

    @Test func theDirectoryMayNotBeWritable() async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        let known = try #require(try await gateway.queue.enrollments().first)
        // In the way of the file beside the old one, for root as well.
        try FileManager.default.createDirectory(
            atPath: place.directory.path + "/tokens-1.json.new", withIntermediateDirectories: true)
        await #expect {
            _ = try await gateway.enrollmentChanges.begin(
                Self.terms("70008"), insteadOf: known, .tokens(try Self.tokens("b")))
        } throws: {
            ($0 as? ProblemReport)?.message.contains("nothing was changed") == true
        }
        #expect(await gateway.deliveries.isRunning(known.id))
        #expect(try await gateway.queue.enrollments() == [known])
        await place.end()
    }

    @Test(arguments: EnrollmentStep.allCases)
    func anErasureThatFailsLeavesTheEnrollmentDelivering(step: EnrollmentStep) async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        place.failing.set(step)
        await #expect(throws: Failed.self) {
            _ = try await gateway.erasing.erase(EraseRequest(enrollment: "e1"))
        }
        #expect(try gateway.enrollmentChanges.tokenFile(of: 1).load() == Self.tokens("a"))
        #expect(await gateway.deliveries.isRunning(1))
        place.failing.set(nil)
        _ = try await gateway.erasing.erase(EraseRequest(enrollment: "e1"))
        #expect(try await gateway.queue.enrollments().isEmpty)
        #expect(await !gateway.deliveries.isRunning(1))
        let files = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        #expect(files.allSatisfy { !$0.hasPrefix("tokens-") }, "\(files)")
        await place.end()
    }

    private func tokenFiles(_ place: Place) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
            .filter { $0.hasPrefix("tokens-") }.sorted()
    }

    /// A power cut in the middle of an erasure left the tokens in `tokens-1.json.erasing` for ever: of an enrollment
    /// that was still there, which then asked to be enrolled again, or of one that was erased.
    @Test(arguments: [false, true]) func anErasureThatAPowerCutEndedIsClearedUp(
        isErased: Bool
    ) async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        await gateway.deliveries.stop(1)
        try gateway.enrollmentChanges.tokenFile(of: 1).setAside()
        if isErased { #expect(try await gateway.queue.erase(Erasure(enrollment: 1))) }
        #expect(try tokenFiles(place) == ["tokens-1.json.erasing"])
        await gateway.enrollmentChanges.startMissingDeliveries()
        #expect(try tokenFiles(place) == (isErased ? [] : ["tokens-1.json"]))
        #expect(await gateway.deliveries.isRunning(1) == !isErased)
        if !isErased {
            #expect(try gateway.enrollmentChanges.tokenFile(of: 1).load() == Self.tokens("a"))
            #expect(try await gateway.queue.enrollments().map(\.state) == [.active])
        }
        await place.end()
    }

    /// A secret that was being written stayed beside its file, whatever became of the enrollment.
    @Test func aTokenFileThatAPowerCutLeftUnfinishedGoesAtTheNextStart() async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        await gateway.deliveries.stop(1)
        let names = [
            "tokens-1.json.new", "tokens-2.json.new", "tokens-1.json.erasing",
            "shares.json.part-7f", "tokens-x.json.new", "tokens-3.json",
        ]
        for name in names {
            try Data("secret".utf8).write(to: place.directory.appending(path: name))
        }
        await gateway.enrollmentChanges.startMissingDeliveries()
        // What is no leftover of ours, and what another store may know, stays.
        #expect(
            try tokenFiles(place) == ["tokens-1.json", "tokens-3.json", "tokens-x.json.new"])
        #expect(try gateway.enrollmentChanges.tokenFile(of: 1).load() == Self.tokens("a"))
        _ = Shares(stateDirectory: place.directory.path)
        let files = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        #expect(!files.contains { $0.contains(".part-") }, "\(files)")
        await place.end()
    }

    /// A delivery that runs may be writing its tokens anew.
    @Test func whatADeliveryThatRunsWritesIsLeftAlone() async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        #expect(await gateway.deliveries.isRunning(1))
        try Data("secret".utf8).write(to: place.directory.appending(path: "tokens-1.json.new"))
        await gateway.enrollmentChanges.startMissingDeliveries()
        #expect(try tokenFiles(place) == ["tokens-1.json", "tokens-1.json.new"])
        await place.end()
    }

    @Test func aDeliveryThatDidNotStartIsReportedAndStartedLater() async throws {
        let place = try await Place()
        let gateway = place.gateway
        try await gateway.queue.enroll(Self.terms("70007"))
        try gateway.enrollmentChanges.tokenFile(of: 1).save(Self.tokens("a"))
        #expect(await gateway.deliveries.stopped(1) == nil, "the gateway itself is starting")
        await gateway.enrollmentChanges.startMissingDeliveries()
        #expect(await gateway.deliveries.isRunning(1))
        var second = Self.terms("70008")
        second.name = "e2"
        try await gateway.queue.enroll(second)
        #expect(await gateway.deliveries.stopped(2) == "it was not started")
        #expect(await gateway.deliveries.stopped(1) == nil)
        await place.end()
    }

    @Test func aNameOfAnotherEnrollmentIsRefused() async throws {
        let place = try await Place()
        let gateway = place.gateway
        _ = try await gateway.enrollmentChanges.begin(
            Self.terms("70007"), insteadOf: nil, .tokens(try Self.tokens("a")))
        let existing = try await gateway.queue.enrollments()
        let same = try #require(existing.first)
        #expect(try EnrollmentName.choose(asked: nil, insteadOf: nil, beside: existing) == "e2")
        #expect(try EnrollmentName.choose(asked: nil, insteadOf: same, beside: existing) == "e1")
        #expect(try EnrollmentName.choose(asked: "e1", insteadOf: same, beside: existing) == "e1")
        // Neither of "e1" and "E1" could be named any more: not to erase its patient either.
        for asked in ["e1", "E1"] {
            #expect(throws: ProblemReport.self) {
                try EnrollmentName.choose(asked: asked, insteadOf: nil, beside: existing)
            }
        }
        #expect(try EnrollmentName.choose(asked: "E1", insteadOf: same, beside: existing) == "e1")
        var other = same
        other.terms.name = "E2"
        #expect(
            try EnrollmentName.choose(asked: nil, insteadOf: nil, beside: [same, other]) == "e3")
        #expect(throws: ProblemReport.self) {
            try EnrollmentName.choose(asked: "e9", insteadOf: same, beside: existing)
        }
        await place.end()
    }
}
