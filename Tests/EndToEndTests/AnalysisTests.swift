import Foundation
import GATTHeartRate
import Testbed
import Testing

/// Examples/analysis, run as a researcher would: on what a gateway exported, on what arrived at the
/// exchange, and beside a live page. Examples/analysis/check runs it.
@Suite(.serialized, .enabled(if: Analysis.python != nil, "make test-all RINGS=analysis"))
struct AnalysisTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Examples/analysis")

    /// Runs `script` with the examples' Python as `$python`, in their folder.
    private func shell(_ script: String, _ variables: [String: String] = [:]) async throws
        -> Command.Outcome
    {
        var environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
        environment["python"] = Analysis.python
        environment["PYTHONPATH"] = Self.folder.path
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        return try await Command.run(
            "/bin/bash", ["-euc", script], environment: environment, directory: Self.folder.path)
    }

    @Test func theNotebookReadsAnExportItsGapsAndWhatArrivedAtTheExchange() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            try await fixture.put(on: 0)
            // The second strap's rates are averages of ten seconds at the exchange.
            let link = await fixture.exchange.invite(patient: TestWorld.patients[1])
            try await fixture.command(
                "enroll", "-", "--name", "e1", "--resolution", "10s", input: link)
            try await fixture.command("pair", TestWorld.addresses[1], "--enrollment", "e1")
            var status = try await fixture.eventually("samples") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored >= 12 }
            }
            // A gap within a run of the gateway, and one between two.
            await fixture.bluez.setOnAir(TestWorld.addresses[0], false)
            let before = status.balance.stored
            try await fixture.eventually("a gap") { $0.balance.stored >= before + 10 }
            await fixture.bluez.setOnAir(TestWorld.addresses[0], true)
            for _ in 0..<2 {
                let count = status.balance.stored
                status = try await fixture.eventually("more samples", withinSeconds: 180) {
                    $0.balance.stored >= count + 40
                }
                await fixture.gateway.stop()
                try await fixture.gateway.start()
            }
            await fixture.bluez.setSendsFrames(false)
            // The last window of a run is complete once the run is over.
            await fixture.gateway.stop()
            try await fixture.gateway.start()
            try await fixture.eventually("all delivered", withinSeconds: 180) {
                $0.balance.unsent == 0 && $0.balance.buffered == 0
            }

            let data = fixture.gateway.directory
            try await fixture.command(
                "queue", "export", data.appending(path: "samples.csv").path, "--format", "csv",
                "--all")
            try await fixture.command(
                "queue", "export", data.appending(path: "beats.csv").path, "--beats")
            try await fixture.command("gaps", "--last", "1d", "--json").write(
                to: data.appending(path: "gaps.json"), atomically: true, encoding: .utf8)
            let outcome = try await shell(
                """
                JHE_TOKEN=$(curl -fsS -u "$key" -d grant_type=client_credentials "$JHE_URL/o/token/" |
                    "$python" -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
                export JHE_TOKEN
                "$python" -m jupytext --quiet --to ipynb --execute heartbeats.py -o "$GATEWAY_DATA/heartbeats.ipynb"
                "$python" -m jupytext --quiet --to py:percent "$GATEWAY_DATA/heartbeats.ipynb" -o - | head -n 1
                grep -c 'windows, ' "$GATEWAY_DATA/heartbeats.ipynb"
                ls "$GATEWAY_DATA/samples.parquet" "$GATEWAY_DATA/gaps.parquet"
                """,
                [
                    "GATEWAY_DATA": data.path, "JHE_URL": fixture.exchange.baseURL,
                    "PATIENTS": TestWorld.patients.map(String.init).joined(separator: ","),
                    "key": ExchangeSeed.standard.practitionerKeys.map {
                        "\($0.clientID):\($0.secret)"
                    }[0],
                ])
            #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
            if let keep = ProcessInfo.processInfo.environment["ANALYSIS_KEEP"] {
                _ = try await Command.run("/bin/cp", ["-r", data.path, keep])
            }
        }
    }

    @Test func theOutletGivesEachStrapsRatesToALabStreamingReceiver() async throws {
        let port = try FreePort.anywhere()
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]
        try await TestWorld.run(straps: 2, settings: settings) { fixture in
            try await fixture.put(on: 0)
            try await fixture.put(on: 1)
            try await fixture.eventually("samples") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored >= 2 }
            }
            let outcome = try await shell(
                """
                "$python" lsl_outlet.py http://127.0.0.1:\(port) &
                outlet=$!
                trap 'kill $outlet' EXIT
                "$python" lsl_receive.py 2 10
                """, ["LSLAPICFG": Self.folder.appending(path: "lsl_api.cfg").path])
            try #require(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
            let line = outcome.output.split(separator: "\n").last ?? ""
            let received = try JSONDecoder().decode(
                [String: [[Double]]].self, from: Data(line.utf8))
            #expect(received.count == 2)
            for (index, address) in TestWorld.addresses.prefix(2).enumerated() {
                let samples = try #require(received["Heart rate Strap \(index + 1)"])
                let sent = await fixture.bluez.framesSent(address)
                    .compactMap { try? HeartRateMeasurement(frame: $0.bytes) }
                    .map { Double($0.bpm) }
                #expect(samples.count >= 5 && samples.count <= 13, "once each: \(samples)")
                // They came in the order in which the strap sent them. Of two frames that came at once the
                // live page has the newer one.
                let rates = samples.map { $0[1] }
                #expect(sent.containsInOrder(rates), "\(rates) of \(sent)")
                #expect(zip(samples, samples.dropFirst()).allSatisfy { $0[0] < $1[0] })
            }
        }
    }
}

private enum Analysis {
    /// The examples' Python, which Examples/analysis/setup makes.
    static let python = ProcessInfo.processInfo.environment["ANALYSIS_PYTHON"]
}

extension [Double] {
    /// Whether `values` are in it in their order, with others between at most.
    fileprivate func containsInOrder(_ values: [Double]) -> Bool {
        var rest = self[...]
        return values.allSatisfy { value in
            guard let place = rest.firstIndex(of: value) else { return false }
            rest = rest[(place + 1)...]
            return true
        }
    }
}
