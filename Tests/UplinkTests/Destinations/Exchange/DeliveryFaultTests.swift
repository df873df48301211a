import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// The reported fault of a delivery that does not deliver.
@Suite struct DeliveryFaultTests {
    @Test(
        "an exchange that answers nothing useful is reported within two minutes, and delivery resumes within one",
        arguments: [
            (.status(500), "HTTP 500 with a web page"), (.status(502), "HTTP 502 with a web page"),
            (.status(503), "HTTP 503 with a web page"), (.status(429), "HTTP 429 with a web page"),
            (.status(400), "does not accept this host name"),
            (.status(401), "HTTP 401 with a web page"),
            (.status(403), "HTTP 403 with a web page"), (.status(302), "HTTP 302, a redirect to"),
            (.status(511), "HTTP 511 with a web page"), (.status(200), "HTTP 200 with a web page"),
            (.empty(200), "empty"), (.empty(503), "empty"), (.databaseDown, "HTTP 500"),
            (.databaseReadOnly, "422: cannot execute INSERT in a read-only transaction"),
        ] as [(ExchangeFault, String)], [true, false])
    func everyAnswer(fault: (ExchangeFault, String), alsoToQuestions: Bool) async throws {
        let delivery = try await DeliveryFixture(samples: 30)
        let routes: Set<ExchangeRoute> =
            alsoToQuestions ? Set(ExchangeRoute.allCases) : [.bundle, .observation]
        await delivery.exchange.inject(fault.0, on: routes, for: .untilCleared)
        try await delivery.drain(seconds: 110)
        let now = delivery.clock.read().uptime
        let said = await delivery.runner.facts.lastingFault(at: now)
        #expect(said?.contains(fault.1) == true, "\(said ?? "nothing")")
        #expect(try await delivery.queue.uploads().allSatisfy { $0.outcome != "delivered in part" })
        try await delivery.drain(seconds: 600)
        let later = await delivery.runner.facts
        let state = later.state
        if case .held = state {
        } else {
            #expect(later.lastingFault(at: now + .seconds(600)) != nil, "\(state)")
        }
        await delivery.exchange.clearFaults()
        try await delivery.drain(seconds: 75)
        #expect(try await delivery.queue.balance().delivered == 30)
        try await delivery.checkExactlyOnce(30)
        #expect(await delivery.runner.facts.trouble == nil)
        await delivery.exchange.stop()
    }

    /// After a restart the exchange was only asked whether it answers, and `status` said well while nothing was delivered.
    @Test(
        arguments: [
            (.token, "gives no access token"), (.read, "HTTP 503"),
        ] as [(ExchangeRoute, String)])
    func whatKeepsARestartedDeliveryFromAskingIsReported(
        route: ExchangeRoute, words: String
    ) async throws {
        let delivery = try await DeliveryFixture(samples: 3)
        // The token's time is over.
        if route == .token { delivery.clock.advance(by: .seconds(1_300_000)) }
        await delivery.exchange.inject(.status(503), on: [route], for: .untilCleared)
        let start = delivery.clock.read().uptime
        let runner = DeliveryRunner(
            enrollment: delivery.enrollment, queue: delivery.queue,
            destination: delivery.destination, clock: delivery.clock, logger: .quiet,
            unansweredSince: start)
        while delivery.clock.read().uptime < start + .seconds(120) {
            delivery.clock.advance(to: await runner.advance())
        }
        let said = await runner.facts.lastingFault(at: delivery.clock.read().uptime)
        #expect(said?.contains(words) == true, "\(said ?? "nothing")")
        #expect(await delivery.exchange.storedCount(patient: 40001) == 0)
        await delivery.exchange.stop()
    }

    /// A look that was answered made the fault forgotten, and `status` well while nothing was taken.
    @Test(arguments: ["influx", "webhook"])
    func aServerThatTakesOnlyRequestsOfNothingIsReported(kind: String) async throws {
        let transport = ScriptedTransport { request in
            request.body.isEmpty ? .success(HTTPAnswer(status: 204)) : .failure(.timeout)
        }
        let scratch = try Scratch()
        let clock = StillClock()
        let queue = try SampleQueue(
            path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "e", kind: .destination, origin: "https://host.example", fhirBase: "",
                identifierSystem: "i"))
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        try await queue.append(contentsOf: [
            Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: [0, 60])
        ])
        try await queue.flush()
        let destination = try KindFixture.make(kind).make(
            DestinationParts(transport: transport, clock: clock, logger: .quiet))
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        for _ in 0..<60 {
            clock.advance(to: await runner.advance())
            let facts = await runner.facts
            guard let trouble = facts.trouble, trouble.attempts > 1 else { continue }
            #expect(facts.lastingFault(at: clock.read().uptime)?.contains("no answer") == true)
        }
        let looks = transport.requests.filter(\.body.isEmpty)
        #expect(!looks.isEmpty && transport.requests.count > looks.count + 3)
        try await queue.close()
    }

    @Test func aFaultThatPassesAtOnceIsNotReported() {
        let trouble = Delivery.Trouble(since: .zero, attempts: 1)
        var facts = DeliveryFacts(state: .idle, trouble: trouble, fault: "x")
        #expect(facts.lastingFault(at: .seconds(59)) == nil)
        #expect(facts.lastingFault(at: .seconds(60)) == "x")
        facts.trouble?.attempts = 2
        #expect(facts.lastingFault(at: .microseconds(1)) == "x")
        facts.fault = nil
        #expect(facts.lastingFault(at: .seconds(60)) != nil, "nothing is taken, all the same")
        facts.trouble = nil
        #expect(facts.lastingFault(at: .seconds(60)) == nil)
    }

    @Test func wordsOfADatabaseAreShownWithoutDigitsAndControls() {
        let answer = EntryAnswer(
            status: 422, diagnostics: "value 72 \u{1B}[31m of 40001\nsecond line",
            endpoint: .bundle)
        #expect(
            "\(DeliveryFault.refusal(of: answer))"
                == "the exchange stores no sample (422: value ## ?[##m of #####)")
    }

    @Test func aNameThatCannotBeResolvedIsNamed() {
        #expect(
            "\(DeliveryFault.transport(.dns, host: "jhe.example"))"
                == "the server's name jhe.example could not be resolved")
    }

    @Test func aRequestWithNothingDeliveredIsNotCalledDeliveredInPart() {
        func word(_ statuses: [Int]) -> String {
            DeliveryAnswer.entries(
                statuses.map { EntryAnswer(status: $0, diagnostics: "x", endpoint: .bundle) }
            ).word
        }
        #expect(word([201, 201]) == "delivered")
        #expect(word([201, 422]) == "delivered in part")
        #expect(word([422, 422]) == "not delivered")
    }

    @Test func theDeviceThatAPersonChoseIsNotReplaced() async throws {
        for isChosen in [true, false] {
            let transport = EnrollerTests.exchange()
            let enrolled = try await EnrollerTests.enroll(transport)
            let scratch = try Scratch()
            let tokens = RenewingTokens(
                record: enrolled.tokens, file: TokenFile(path: scratch.path + "/tokens.json"),
                transport: transport, clock: StillClock(), logger: .quiet)
            var terms = EnrollmentTerms(
                name: "e1", origin: enrolled.tokens.origin.description,
                fhirBase: enrolled.tokens.origin.description + enrolled.fhirBase,
                clientID: "gw", patient: "40001", device: "70008",
                codeSystem: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0",
                identifierSystem: "urn:x")
            terms.isDeviceChosen = isChosen
            let destination = try #require(
                ExchangeDestination(
                    terms: terms, tokens: tokens, transport: transport, clock: StillClock(),
                    logger: .quiet))
            _ = await destination.isMended(.deviceUnknown)
            #expect(await destination.terms.device == (isChosen ? "70008" : "70007"))
        }
    }

    @Test func tokensThatWereSetAsideArePutBackOrRemoved() async throws {
        let chosen = try await EnrollerTests.enroll(EnrollerTests.exchange())
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        try file.save(chosen.tokens)
        try file.setAside()
        #expect(throws: TokenFile.Fault.missing) { try file.load() }
        try file.putBack()
        #expect(try file.load() == chosen.tokens)
        try file.setAside()
        try file.remove()
        try file.putBack()
        #expect(throws: TokenFile.Fault.missing) { try file.load() }
    }

    @Test func wrongInvitationsAndHostNamesAreCalledWhatTheyAre() async throws {
        func fault(_ answers: @escaping @Sendable (String) -> Result<HTTPAnswer, TransportFault>?)
            async -> String
        {
            do {
                _ = try await EnrollerTests.enroll(EnrollerTests.exchange(answers))
                return "enrolled"
            } catch { return "\(error)" }
        }
        let used = await fault {
            $0 == "/o/token/" ? .json(400, #"{"error":"invalid_grant"}"#) : nil
        }
        #expect(used.contains("used or has expired") && used.contains("new one"))
        #expect(await fault { _ in .html(400) }.contains("ALLOWED_HOSTS"))
        #expect(await fault { _ in .html(502) }.contains("HTTP 502"))
        #expect(await fault { _ in .html(200) }.contains("not a JupyterHealth Exchange"))
    }

    /// A practitioner's key, and one study with a single device that takes heart rate, or with two.
    private func practitioner(
        devices: [Int], scratch: Scratch? = nil,
        termsChanged: (@Sendable (EnrollmentTerms) async -> Void)? = nil
    ) async throws -> (StandInExchange, ExchangeDestination) {
        var seed = ExchangeSeed.standard
        seed.studies[0].devices = devices
        let exchange = try await StandInExchange.start(seed: seed)
        let key = seed.practitionerKeys[0]
        let secret = Secret(Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString())
        let transport = CurlTransport()
        let clock = StillClock(wall: .now())
        let origin = try #require(Origin(exchange.baseURL))
        let enrolled = try await Enroller(transport: transport, clock: clock)
            .enroll(practitionerKey: secret, at: origin)
        let scratch = try scratch ?? Scratch()
        let tokens = RenewingTokens(
            record: enrolled.tokens, file: TokenFile(path: scratch.path + "/tokens.json"),
            transport: transport, clock: clock, logger: .quiet)
        let destination = try #require(
            ExchangeDestination(
                terms: EnrollmentTerms(
                    name: "ward", kind: .practitionerKey, origin: "\(origin)",
                    fhirBase: "\(origin)" + enrolled.fhirBase, clientID: key.clientID,
                    identifierSystem: "urn:x"),
                tokens: tokens, transport: transport, clock: clock, logger: .quiet,
                termsChanged: termsChanged))
        return (exchange, destination)
    }

    private func points(_ patients: [String]) -> [OutgoingPoint] {
        patients.enumerated().map { number, patient in
            OutgoingPoint(
                DataPoint(
                    uuid: "00000000-0000-8000-8000-00000000000\(number)",
                    .heartRate(bpm: 70, at: UTC(microseconds: 1_795_000_000_000_000))),
                patient: patient, sensorID: 1)
        }
    }

    private func verdicts(_ answer: DeliveryAnswer) -> [EntryVerdict] {
        if case .entries(let entries) = answer { entries.map(\.verdict) } else { [] }
    }

    @Test func samplesOfAPractitionersPatientGoOutThoughNoStrapWasEverPaired() async throws {
        let (exchange, destination) = try await practitioner(devices: [70005, 70007])
        let answer = await destination.deliver(points(["40001", "40002", "40003"]), alone: false)
        #expect(verdicts(answer) == [.stored, .stored, .held(.wrongPatient)], "\(answer)")
        #expect(await exchange.stored.map(\.device) == [70007, 70007])
        await exchange.stop()
    }

    /// The request was sent again with the new token as it was, to whoever had the number by then.
    @Test func withANewTokenTheExchangeIsAskedWhoAPractitionersPatientsAre() async throws {
        let scratch = try Scratch()
        let (exchange, destination) = try await practitioner(
            devices: [70007], scratch: scratch, termsChanged: { _ in })
        #expect(verdicts(await destination.deliver(points(["40001"]), alone: true)) == [.stored])
        await exchange.giveNumber(ofPatient: 40001)
        await exchange.expireAccessTokens()
        let more = points(["40002", "40001"])
        var answer = await destination.deliver([more[1]], alone: true)
        #expect(answer == .notSent(retryAt: nil))
        answer = await destination.deliver([more[1]], alone: true)
        #expect(verdicts(answer) == [.held(.patientChanged)], "\(answer)")
        #expect(await exchange.stored.count == 1)
        await exchange.stop()
        withExtendedLifetime(scratch) {}
    }

    @Test func whereSeveralDevicesFitThePatientsSamplesAreHeldUntilOneIsChosen() async throws {
        let (exchange, destination) = try await practitioner(devices: [70001, 70007])
        let answer = await destination.deliver(points(["40001"]), alone: false)
        #expect(verdicts(answer) == [.held(.deviceNotChosen)])
        #expect(await !destination.isMended(.deviceNotChosen, of: "40001"))
        var terms = await destination.terms
        terms.device = "70007"
        await destination.update(terms)
        // The device alone: its code is found as well.
        #expect(verdicts(await destination.deliver(points(["40001"]), alone: true)) == [.stored])
        await exchange.stop()
    }

    /// One such patient kept everybody's samples from a whole request, and from all that followed.
    @Test(arguments: ["40001", "4OOO1"])
    func aPatientWhoseConsentsCannotBeReadIsHeldAlone(patient: String) async throws {
        let (exchange, destination) = try await practitioner(devices: [70007])
        await exchange.breakConsents(of: 40001)
        let answer = await destination.deliver(points([patient, "40002"]), alone: false)
        #expect(verdicts(answer) == [.held(.patientUnknown), .stored], "\(answer)")
        #expect(await destination.fault == nil)
        #expect(await !destination.isMended(.patientUnknown, of: patient))
        await exchange.clearFaults()
        #expect(await destination.isMended(.patientUnknown, of: "40001"))
        #expect(verdicts(await destination.deliver(points(["40001"]), alone: true)) == [.stored])
        await exchange.stop()
    }

    /// A strap that was paired without a patient had the exchange asked about all the others anew each minute.
    @Test func aLookAtSamplesWithoutAPatientTellsNothingOfTheOthers() async throws {
        let (exchange, destination) = try await practitioner(devices: [70007])
        var samples = points(["40001", "40001", "40001"])
        samples[1].patient = nil
        #expect(verdicts(await destination.deliver([samples[0]], alone: true)) == [.stored])
        await exchange.forgetRequests()
        #expect(await destination.isMended(.patientUnknown, of: nil))
        let held = await destination.deliver([samples[1]], alone: true)
        #expect(verdicts(held) == [.held(.patientUnknown)])
        #expect(verdicts(await destination.deliver([samples[2]], alone: true)) == [.stored])
        #expect(await exchange.requests.map(\.route) == [.observation])
        await exchange.stop()
    }

    @Test(arguments: [ExchangeFault.databaseDown, .status(500), .status(503), .hangUp])
    func whileTheExchangeFailsAQuestionAboutAPatientTellsNothingOfThem(
        fault: ExchangeFault
    ) async throws {
        let (exchange, destination) = try await practitioner(devices: [70007])
        await exchange.inject(fault, on: [.account], for: .untilCleared)
        #expect(
            await destination.deliver(points(["40001"]), alone: false) == .notSent(retryAt: nil))
        await exchange.clearFaults()
        #expect(verdicts(await destination.deliver(points(["40001"]), alone: false)) == [.stored])
        await exchange.stop()
    }

    /// One error held the patient, whom the delivery asked about again minutes later where several were held.
    @Test func aQuestionAboutAPatientThatFailsOnceTellsNothingOfThem() async throws {
        let (exchange, destination) = try await practitioner(devices: [70007])
        await exchange.inject(.status(500), on: [.account], for: .requests(1))
        #expect(
            await destination.deliver(points(["40001"]), alone: false) == .notSent(retryAt: nil))
        #expect(verdicts(await destination.deliver(points(["40001"]), alone: false)) == [.stored])
        await exchange.stop()
    }

    /// What was found out about a patient was kept for ever: samples were held until the gateway's or the relay's
    /// next start, and the other patients' with them.
    @Test func aDeviceThatWasReplacedHoldsItsPatientUntilTheExchangeIsAskedAnew() async throws {
        let (exchange, destination) = try await practitioner(devices: [70001, 70007])
        await exchange.setDeviceType(70001, to: "medical_device")
        let samples = points(["40001", "40001", "40002", "40001"])
        func deliver(_ index: Int) async -> [EntryVerdict] {
            verdicts(await destination.deliver([samples[index]], alone: true))
        }
        #expect(await deliver(0) == [.stored])
        await exchange.setDeviceType(70007, to: "medical_device")
        await exchange.setDeviceType(70001, to: "personal_device")
        #expect(await deliver(1) == [.held(.deviceNotChosen)], "a reason of one patient")
        #expect(await deliver(2) == [.stored])
        #expect(await deliver(3) == [.stored])
        #expect(await exchange.stored.map(\.device) == [70007, 70001, 70001])
        await exchange.stop()
    }
}
