import Foundation
import Testing

@testable import Testbed

/// The judgement at the end of `make demo`, with figures that are right and wrong.
@Suite struct DestinationBooksTests {
    /// A system that says what it is told to.
    private struct ToldSystem: DestinationSystem {
        let kind = "postgrest"
        let title = "PostgreSQL"
        var mayRepeat = false
        let settings = ["url": "http://127.0.0.1:1", "password": "correct horse"]
        let secretFiles = ["password": "/tmp/password"]
        func counts() async throws -> (stored: Int, repeated: Int) { (0, 0) }
        func stop() async {}
    }

    private static func books(
        stored: Int = 48, delivered: Int = 48, pending: Int = 0, held: String? = nil,
        dead: Int = 0, dropped: [String: Int] = [:], has: Int = 48, repeated: Int = 0,
        mayRepeat: Bool = false
    ) -> DestinationBooks {
        DestinationBooks(
            GatewayStatus.Destination(
                name: "rows", held: held, pending: pending, delivered: delivered, dead: dead,
                dropped: dropped),
            stored: stored, system: ToldSystem(mayRepeat: mayRepeat), counts: (has, repeated))
    }

    @Test func booksThatAgreeWithTheSystemHaveNoComplaint() {
        #expect(Self.books().disagreements.isEmpty)
        let rest = Self.books(delivered: 45, dead: 1, dropped: ["max-age": 2], has: 45)
        #expect(rest.disagreements.isEmpty, "what is dead and dropped has its reason")
        #expect(rest.sum == "45 delivered + 0 waiting + 0 held + 1 dead + 2 dropped")
        #expect(Self.books(repeated: 3, mayRepeat: true).disagreements.isEmpty)
    }

    @Test(
        arguments: [
            (books(has: 47), ["rows: 48 are delivered, and PostgreSQL has 47"]),
            (books(has: 49), ["rows: 48 are delivered, and PostgreSQL has 49"]),
            (books(repeated: 1), ["rows: PostgreSQL has 1 samples more than once"]),
            (
                books(delivered: 45, pending: 3, has: 45),
                ["rows: 3 samples were not delivered in time"]
            ),
            (
                books(stored: 49),
                [
                    "rows: the balance does not add up: 49 is not "
                        + "48 delivered + 0 waiting + 0 held + 0 dead + 0 dropped"
                ]
            ),
            (
                books(delivered: 44, pending: 3, held: "forbidden", has: 46),
                [
                    "rows: the balance does not add up: 48 is not "
                        + "44 delivered + 0 waiting + 3 held + 0 dead + 0 dropped",
                    "rows: 3 samples were not delivered in time",
                    "rows: 44 are delivered, and PostgreSQL has 46",
                ]
            ),
        ])
    func whatDoesNotAgreeIsNamed(books: DestinationBooks, complaints: [String]) {
        #expect(books.disagreements == complaints)
    }

    @Test func aSecretIsNotPartOfACommandLine() {
        #expect(
            ToldSystem().settingWords == ["password=@/tmp/password", "url=http://127.0.0.1:1"])
    }

    @Test func kindsAreNamedWithCommasBetween() throws {
        #expect(try SystemKind.list(nil).isEmpty && SystemKind.list("").isEmpty)
        #expect(try SystemKind.list("mqtt, postgrest") == [.mqtt, .postgrest])
        let twice = #expect(throws: SystemFault.self) { try SystemKind.list("mqtt,file,mqtt") }
        #expect(twice?.description == "the destination mqtt is named twice")
    }

    @Test func anUnknownKindIsAnErrorThatListsTheKinds() async throws {
        let words =
            "no kind of destination 'oracle': the kinds are "
            + "fhir, file, influx, mqtt, postgrest, webhook"
        let fault = #expect(throws: SystemFault.self) { try SystemKind.list("mqtt,oracle") }
        #expect(fault?.description == words)
        // It refuses before it looks at the machine.
        let setup = try await Command.run(
            SystemHost.root.appending(path: "deploy/setup").path, ["--destinations", "mqtt,oracle"])
        #expect(setup.status == 2 && setup.complaint == "setup: \(words)\n")
    }

    @Test func aMissingProgramIsNamedWithWhatInstallsIt() async throws {
        let fault = await #expect(throws: SystemFault.self) {
            try await SystemHost.start("mqtt", needs: ["/nonexistent/mosquitto"]) { _ in }
        }
        #expect(
            fault?.description
                == "mqtt needs /nonexistent/mosquitto: deploy/setup --destinations mqtt, or --test, installs it"
        )
    }

    @Test func whatASystemStartedIsGoneWhenItDoesNotStart() async throws {
        var directory = ""
        let fault = await #expect(throws: SystemFault.self) {
            try await SystemHost.start("mqtt", needs: []) { host in
                directory = host.directory
                try await host.launch("/usr/bin/sleep", ["1000"], output: "printed")
                throw SystemFault("broken")
            }
        }
        #expect(fault?.description == "broken" && !directory.isEmpty)
        #expect(!FileManager.default.fileExists(atPath: directory))
    }
}
