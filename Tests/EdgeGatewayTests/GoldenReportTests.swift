import Foundation
import Testing

@testable import EdgeGateway

/// What commands print with `--json` and the control socket answers, every field of it, to the letter:
/// fields may be added to the files in Golden, none may change. `WRITE_DOCS=1` writes those that are missing.
@Suite struct GoldenReportTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
    private static let noon = Date(timeIntervalSince1970: 1_796_126_400)

    private static let sensor = SensorReport(
        id: 1, address: "C0:00:00:00:00:01", name: "Ada", link: "suspended",
        linkDetail: "outOfRange, stale", bpm: 72, contact: true, secondsSinceFrame: 0.5,
        batteryPercent: 87, lostFrames: 3,
        enrollment: "e1", patient: "40001",
        coverageTodayPercent: 99.5,
        stored: 10, pending: 2)
    private static let enrollment = EnrollmentReport(
        name: "e1", kind: "practitioner-key", exchange: "https://exchange.example",
        patient: "40001", device: "70007", code: "omh:heart-rate:2.0", resolution: "raw",
        state: "active", held: "device-unknown", fault: "answers 503",
        partialFault: "RR intervals are not sent", heldPatients: ["no-consent": 1], pending: 2,
        delivered: 7, dead: 1, lastDelivery: noon, tokenExpires: noon, tokenRefused: true,
        dataPoints: ["rr-interval": DataPointsReport(delivered: 8, refused: ["no-consent": 2])])
    private static let balance = BalanceReport(
        received: 12, stored: 10, undecodable: 1, refused: ["queue-full": 1], delivered: 5,
        pending: 2, held: ["not-enrolled": 1], dead: 1, dropped: ["zeroRate": 1], buffered: 4,
        balanced: true)
    private static let health = HealthItem(
        name: "battery-low", severity: "warning", since: noon, seconds: 60, sensor: 1,
        message: "Ada: battery at 9 %",
        advice: "change it")
    private static let problem = ProblemReport(
        code: .noAdapter, message: "there is no Bluetooth adapter", advice: "plug one in")
    private static let salvage = SalvagedStoreReport(
        at: noon, brokenFile: "queue.sqlite.broken-1", cause: "malformed", stored: 10,
        storedAt: noon, carried: 8, damaged: 1, orphaned: 0, unknown: 2, done: true,
        acknowledged: false)
    private static let strap = LiveStrap(
        sensor: 1, assignment: 3, name: "Ada", bpm: 72, contact: true, rrMs: [833, 841],
        batteryPercent: 87, secondsSinceFrame: 0.5, link: "streaming", linkSeconds: 60, rssi: -60)
    private static let destination = DestinationReport(
        id: 2, name: "ward", kind: "influx", place: "http://127.0.0.1:8086", state: "active",
        held: "schema", fault: "the server answers HTTP 503", everyStrap: true, straps: 2,
        keepDays: 30, resolution: "raw", pending: 2, delivered: 7, dead: 1,
        dropped: ["max-age": 1], lastDelivery: noon)
    private static let tried = DestinationTestReport(
        name: "ward", checked: ["it takes an empty batch"], unchecked: ["row policies"])
    private static let status = StatusReport(
        gateway: GatewayIdentity(
            name: "ward3-07", site: "Ward 3", labels: ["floor": "3"]), version: "1.0.0",
        well: false, health: [health], uptimeSeconds: 60.5, clockTrusted: true,
        sensors: [sensor], enrollments: [enrollment], destinations: [destination], balance: balance,
        oldestUnsent: noon)

    private static let coverage = FleetCoverageReport(
        time: noon, gateway: status.gateway, since: noon - 43_200, until: noon + 43_200,
        straps: [
            .init(
                name: "Ada",
                days: [
                    .init(
                        day: noon - 43_200, percent: 99.65, expectedSeconds: 3600,
                        coveredSeconds: 3587.5, longestGapSeconds: 12.5,
                        secondsByCause: ["no-contact": 12.5])
                ])
        ])

    private static let reports: [String: any Encodable & Sendable] = [
        "acknowledge": [salvage],
        "alerts": [
            AlertReport(
                name: "mail", kind: "mail", place: "smtps://mail.example:465, 1 recipient",
                state: "active", errorsAfter: 300, warningsAfter: 3600, every: 300,
                strapNames: false, waitingSince: noon, fault: "answers 451", lastSent: noon)
        ],
        "assign": AssignReport(enrollment: "e1", samples: 5, notes: ["no consent yet"]),
        "assignments": [
            UnboundReport(
                assignment: 3, sensor: 1, address: "…00:01", name: "Ada", patient: "40001",
                first: noon, last: noon, samples: 5, recording: true,
                unsure: false)
        ],
        "boots": [
            BootReport(
                boot: "b", running: true, held: 5, firstUptime: 1.5, lastUptime: 60,
                earliestOffset: 1_796_126_000, latestOffset: 1_796_126_400.5)
        ],
        "bugreport": BugreportReport(file: "report.txt"),
        "dead": DeadLettersReport(
            letters: [
                DeadLetterReport(
                    id: 4711, uuid: "00000000-0000-8000-8000-000000126700", time: noon, died: noon,
                    sensor: 1, address: "…00:01", name: "Ada", enrollment: "e1", bpm: 72,
                    frame: "0048", reason: "422", diagnostics: "required")
            ], more: true),
        "destinations": [destination],
        "destination-add": DestinationAddReport(destination: destination, test: tried),
        "destination-code": DestinationCodesReport(
            name: "cloudcare",
            codes: [
                DestinationCodesReport.Code(
                    strap: "C0:00:00:00:00:01", text: #"{"userId":"gw-1"}"#, expires: noon)
            ]),
        "destination-compare": DestinationComparisonReport(
            names: ["firebase", "ward"],
            days: [
                .init(
                    day: noon, until: noon, samples: 10,
                    counts: [
                        .init(delivered: 10, waiting: 0, refused: 0, dropped: 0, before: 0),
                        .init(delivered: 3, waiting: 3, refused: 1, dropped: 2, before: 1),
                    ])
            ], alone: [0, 5], same: false),
        "destination-show": DestinationDetailReport(
            destination: destination, settings: ["database": "ward", "token": "(set)"],
            delivered: "durable", deliveredMeans: "it is on the disk", mayRepeat: false,
            patient: "none", example: "heart_rate,sensor=1 bpm=72"),
        "destination-test": tried,
        "doctor": DoctorReport(
            version: "1.0.0", well: false,
            findings: [
                .ok("clock", "synchronised"),
                .warning("disk", "nearly full", "free some"),
                .fault("daemon", "it does not answer", "systemctl start edge-gateway"),
                .unknown("wear", "no access", "sudo edge-gateway doctor"),
            ]),
        "enroll-web": WebEnrollmentReport(
            state: "waiting", enrollment: enrollment, problem: problem),
        "enrollments": [enrollment],
        "erase": EraseReport(
            enrollment: "e1", enrollmentErased: true, samples: 10, undecodable: 1, unsent: 2,
            furtherUnsent: 3, logEmptied: true,
            left: ["/var/lib/edge-gateway/queue.sqlite.broken-1"]),
        "beats": BeatsReport(file: "beats.csv", beats: 9, damaged: 1, deleted: true),
        "export": ExportReport(
            file: "ward.ndjson", samples: 9, damaged: 1, leftOut: true, underWay: 3,
            deleted: false),
        "export-coverage": CoverageExportReport(file: "coverage.csv", days: 14),
        "export-gaps": GapExportReport(file: "gaps.csv", gaps: 7),
        "fleet": FleetReport(status, at: noon.addingTimeInterval(60)),
        "fleet-coverage": coverage,
        "fleet-coverage-table": FleetCoverageTable(
            [
                (FleetSubject(address: "https://ward3-07.example"), .report(coverage)),
                (
                    FleetSubject(address: "https://ward3-09.example", name: "ward3-09"),
                    .fault(
                        .noAnswer, detail: "no connection to the server",
                        remedy: "is it switched on?")
                ),
            ], FleetMemory(), days: [noon - 43_200], at: noon),
        "fleet-hosts": FleetHostsReport(
            time: noon,
            gateways: [
                FleetGateway(
                    name: "ward3-09", labels: [:], state: .gone, since: noon,
                    items: [
                        FleetItem(
                            name: "no-answer", severity: "error", since: noon,
                            detail: "no connection to the server", remedy: "is it switched on?")
                    ]),
                FleetGateway(
                    name: "ward3-07", site: "Ward 3", labels: ["floor": "3"], version: "1.0.0",
                    state: .notWell, since: noon,
                    items: FleetReport(status, at: noon).items,
                    sensors: FleetSensors(paired: 2, streaming: 1, silent: ["Ada"]),
                    oldestUndeliveredSeconds: 60.5,
                    backlog: [FleetBacklog(destination: "e1", kind: "exchange", samples: 2)],
                    lastAnswer: noon),
            ]),
        "gaps": GapsReport(
            gaps: [
                GapReport(
                    sensor: 1, address: "C0:00:00:00:00:01", name: "Ada", cause: "no-contact",
                    from: noon, until: noon, seconds: 12.5, open: false)
            ], more: false,
            coverage: [
                CoverageReport(
                    sensor: 1, address: "C0:00:00:00:00:01", name: "Ada", day: noon,
                    expectedSeconds: 3600, coveredSeconds: 3587.5, percent: 99.65,
                    longestGapSeconds: 12.5, secondsByCause: ["no-contact": 12.5])
            ]),
        "history": HistoryReport(
            uploads: [
                UploadReport(
                    at: noon, enrollment: "e1", samples: 50, first: noon, last: noon,
                    outcome: "delivered")
            ], more: false),
        "hours": [
            HourReport(
                sensor: 1, address: "…00:01", name: "Ada", hour: noon, samples: 60, meanBpm: 71.5,
                lowestBpm: 60, highestBpm: 90, timeUncertaintyMs: 40_000)
        ],
        "import": ImportReport(
            added: 1, known: 2, unsure: 5,
            unsureSamples: [
                UnsureSamplesReport(
                    address: "…00:01", assignment: 3, first: noon, last: noon, samples: 5,
                    line: 12, reason: "lost")
            ], settled: 3, notSelected: 4),
        "import-part": ImportPartReport(upload: "1f", bytes: 4096),
        "import-progress": ImportProgressReport(
            state: "storing", bytes: 4096, samples: 10, of: 20),
        "live-gateway": LiveGatewayReport(status),
        "live-history": LiveHistoryReport(
            sensor: 1, from: noon, until: noon, bucketSeconds: 5,
            points: [.init(at: noon, low: 60, mean: 61.5, high: 63, count: 5)],
            gaps: [.init(from: noon, until: noon, cause: "link-lost")]),
        "pair": PairReport(
            sensor: sensor, bodyLocation: "chest", manufacturer: "Testbed", model: "Strap",
            firmware: "1.2.3", firstBpm: 70, notes: ["moisten the electrodes"]),
        "problem": problem,
        "purge": PurgeReport(delivered: 3, dead: 1),
        "queue": QueueReport(
            balance: balance, destinations: [.init(name: "e1", balance: balance)],
            oldestUnsent: noon, usedBytes: 3 << 20, reclaimableBytes: 1 << 20,
            logBytes: 4096, maxBytes: 2 << 30, fullPolicy: "refuse-new", full: false,
            clockUnknownBoots: 1, salvages: [salvage]),
        "release": SampleCountReport(samples: 5),
        "samples": SamplesReport(
            samples: [
                SampleReport(
                    id: 4711, time: noon, timeUncertaintyMs: 120, sensor: 1, address: "…00:01",
                    name: "Ada", enrollment: "e1", bpm: 72, state: "held", reason: "no-consent")
            ], more: false),
        "scan": [
            SightingReport(
                address: "C0:00:00:00:00:01", name: "Ada", rssi: -60, known: true,
                connected: false, bonded: false)
        ],
        "sensors": [sensor],
        "share": ShareReport(
            link: "http://192.168.0.2:8470/#secret", expires: noon, loopbackOnly: false),
        "share-stop": ShareStopReport(stopped: 2),
        "status": status,
        "verify": VerifyReport(clean: false, samples: 9, damaged: [4], findings: ["sqlite: …"]),
        "watch": LiveReport(
            at: MillisecondTime(noon.addingTimeInterval(0.25)), scope: "full", straps: [strap]),
        "watch-share": LiveReport(
            at: MillisecondTime(noon), scope: "share", straps: [strap.shared]),
    ]

    private static func golden(_ name: String) throws -> String {
        try String(
            contentsOf: root.appending(path: "Golden/\(name).json"), encoding: .utf8)
    }

    @Test(arguments: reports.keys.sorted())
    func aReportIsWhatItWas(name: String) throws {
        let report = try #require(Self.reports[name])
        let data = try ReportCoding.encoder(pretty: true).encode(report)
        let file = Self.root.appending(path: "Golden/\(name).json")
        if ProcessInfo.processInfo.environment["WRITE_DOCS"] == "1",
            !FileManager.default.fileExists(atPath: file.path)
        {
            try (data + Data("\n".utf8)).write(to: file)
        }
        #expect(String(decoding: data, as: UTF8.self) + "\n" == (try Self.golden(name)))
    }

    /// A field without documentation is no contract.
    @Test func everyFieldIsInTheDocuments() throws {
        let docs = Self.root.deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs")
        let schemas = try String(contentsOf: docs.appending(path: "api.yaml"), encoding: .utf8)
        // Reasons, causes and the settings of a kind are keys too.
        let values: Set = [
            "no-consent", "no-contact", "not-enrolled", "queue-full", "zeroRate", "max-age",
            "database", "rr-interval",
            "floor", "token",
        ]
        for name in Self.reports.keys {
            for match in try Self.golden(name).matches(of: /"([^"]+)" :/) {
                let field = match.output.1
                if values.contains(String(field)) { continue }
                #expect(schemas.contains(" \(field):"), "api.yaml: \(field) of \(name)")
            }
        }
    }
}
