import Foundation
import Testbed
import Testing

@Suite("What a client reads from the exchange")
struct ExchangeAccountTests {
    @Test("another patient's consents are 403, pending studies are listed apart")
    func consents() async throws {
        let session = try await EnrolledExchange()
        #expect(await session.get("/api/v1/patients/40002/consents")?.status == 403)
        let own = await session.get("/api/v1/patients/40001/consents")?.json
        #expect(own?["studies"]?.array?.map { $0["id"]?.number } == [30001])
        #expect(own?["studiesPendingConsent"]?.array?.map { $0["id"]?.number } == [30002])
        await session.exchange.stop()
    }

    @Test("patients/me is there from v0.0.12 on; before it is a 500")
    func myself() async throws {
        for (version, status) in [(ExchangeVersion.head, 200), (.v0013, 200), (.v0010, 500)] {
            let session = try await EnrolledExchange(version: version)
            #expect(await session.get("/api/v1/patients/me")?.status == status)
            await session.exchange.stop()
        }
    }

    @Test("paths are exact: a slash too many is 404 HTML, unknown ones want a login first")
    func paths() async throws {
        let session = try await EnrolledExchange()
        #expect(await session.get("/api/v1/users/profile/")?.isHTML == true)
        #expect(await session.get("/api/v1/nothing")?.status == 404)
        #expect(await session.wire.send("GET", "/api/v1/nothing")?.status == 401)
        #expect(await session.get("/")?.status == 404)
        #expect(await session.post([], to: "/api/v1/clients")?.status == 405)
        await session.exchange.stop()
    }

    @Test("devices of the patient's studies are listed by id and name")
    func devices() async throws {
        let session = try await EnrolledExchange()
        let list = await session.get("/FHIR/R5/Device")?.json
        #expect(list?["total"]?.number == 3)
        #expect(
            list?["entry"]?.array?.compactMap { $0["resource"]?["id"]?.string }
                == ["70001", "70005", "70007"])
        await session.exchange.stop()
    }

    @Test("observations are read back in pages, newest first, one's own only")
    func readBack() async throws {
        let session = try await EnrolledExchange()
        _ = await session.post(
            Sample.bundle(of: (0..<25).map { Sample.observation(id: "r-\($0)") }))
        let first = await session.get("/FHIR/R5/Observation")?.json
        #expect(first?["total"]?.number == 25)
        #expect(first?["entry"]?.array?.count == 20)
        let newest = first?["entry"]?.array?.first?["resource"]
        #expect(newest?["identifier"]?.array?.first?["value"]?.string == "r-24")
        #expect(newest?["status"]?.string == "final")
        #expect(newest?["device"] == nil)
        let second = await session.get("/FHIR/R5/Observation?_count=20&_page=2")?.json
        #expect(second?["entry"]?.array?.count == 5)
        #expect(await session.get("/FHIR/R5/Observation?_page=3")?.status == 404)
        let count = await session.get("/FHIR/R5/Observation?_summary=count")?.json
        #expect(count?["total"]?.number == 25)
        #expect(count?["entry"] == nil)
        let id = try #require(newest?["id"]?.string)
        #expect(await session.get("/FHIR/R5/Observation/\(id)")?.status == 200)
        #expect(await session.get("/FHIR/R5/Observation/1")?.status == 404)
        #expect(
            await session.wire.send("DELETE", "/FHIR/R5/Observation/\(id)", session.authorization)?
                .status == 405)
        await session.exchange.stop()
    }
}
