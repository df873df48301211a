// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .treatAllWarnings(as: .error),
]
// Packed relocations make the program a tenth smaller, on the disk and in memory. They need glibc 2.36 (Debian 12).
let packed: [LinkerSetting] = [
    .unsafeFlags(
        ["-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs"],
        .when(configuration: .release))
]
// The tests themselves compile in half the time without optimization, also where what they test has it.
let tests = settings + [.unsafeFlags(["-Onone"], .when(configuration: .release))]
let shim: [CSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
    name: "edge-gateway",
    products: [
        .executable(name: "edge-gateway", targets: ["EdgeGateway"]),
        .executable(name: "edge-gateway-radio-reset", targets: ["RadioReset"]),
        .executable(name: "drain-bench", targets: ["DrainBench"]),
        .executable(name: "fleet-simulation", targets: ["FleetSimulation"]),
        .executable(name: "gateway-demo", targets: ["GatewayDemo"]),
        .executable(name: "latency-bench", targets: ["LatencyBench"]),
        .executable(name: "queue-bench", targets: ["QueueBench"]),
        .executable(name: "record-bench", targets: ["RecordBench"]),
        .executable(name: "simulated-day", targets: ["SimulatedDay"]),
        .executable(name: "soak", targets: ["Soak"]),
        .executable(name: "stand-in-exchange", targets: ["StandInExchange"]),
        .executable(name: "uplink-bench", targets: ["UplinkBench"]),
        .library(name: "GATTHeartRate", targets: ["GATTHeartRate"]),
        .library(name: "FastTime", type: .dynamic, targets: ["FastTime"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
        .package(
            url: "https://github.com/apple/swift-configuration", exact: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        .package(
            url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2"),
    ],
    targets: [
        // What several targets need and none of them owns.
        .target(name: "Basics", dependencies: ["CGlibc"], swiftSettings: settings),
        .systemLibrary(name: "CGlibc"),
        // Loads the libraries that few gateways need when they are first needed.
        .target(name: "CLoad", cSettings: shim),

        // Wire bytes to values.
        .target(name: "GATTHeartRate", swiftSettings: settings),

        // Bluetooth.
        .systemLibrary(name: "CDBus", pkgConfig: "dbus-1"),
        .target(
            name: "CBlueZ", dependencies: ["CDBus"], cSettings: shim,
            linkerSettings: [.linkedLibrary("bluetooth")]),
        .target(name: "BlueZ", dependencies: ["Basics", "CBlueZ"], swiftSettings: settings),

        // Storage.
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3"),
        .target(
            name: "OfflineQueue",
            dependencies: [
                "Basics", "CGlibc", "CSQLite", "GATTHeartRate",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            swiftSettings: settings),

        // Radio to storage.
        .target(
            name: "Recording",
            dependencies: [
                "Basics", "BlueZ", "GATTHeartRate", "OfflineQueue",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),

        // Whether all is well.
        .target(
            name: "Health", dependencies: ["Basics", "BlueZ", "OfflineQueue", "Recording"],
            swiftSettings: settings),

        // Delivery.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl"),
        .target(name: "CNATS", dependencies: ["CLoad"], cSettings: shim),
        .target(name: "CMosquitto", dependencies: ["CLoad", "COpenSSL"], cSettings: shim),
        .target(
            name: "Uplink",
            dependencies: [
                "Basics", "CCurl", "CMosquitto", "CNATS", "COpenSSL", "GATTHeartRate",
                "OfflineQueue",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),

        // The product.
        .target(name: "CQREncode", dependencies: ["CLoad"], cSettings: shim),
        .executableTarget(
            name: "EdgeGateway",
            dependencies: [
                "Basics", "BlueZ", "CQREncode", "GATTHeartRate", "Health", "OfflineQueue",
                "Recording", "Uplink",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Yams", package: "Yams"),
            ],
            resources: [
                .embedInCode("Live/Page/page.html"), .embedInCode("Live/Page/fleet.html"),
                .embedInCode("Live/Page/enroll.html"), .embedInCode("Live/Page/page.css"),
                .embedInCode("Live/Page/strip.css"), .embedInCode("Live/Page/wall.css"),
                .embedInCode("Live/Page/levels.css"), .embedInCode("Live/Page/basics.js"),
                .embedInCode("Live/Page/chart.js"), .embedInCode("Live/Page/need.js"),
                .embedInCode("Live/Page/tile.js"), .embedInCode("Live/Page/card.js"),
                .embedInCode("Live/Page/fit.js"), .embedInCode("Live/Page/places.js"),
                .embedInCode("Live/Page/tools.js"), .embedInCode("Live/Page/opened.js"),
                .embedInCode("Live/Page/strip.js"), .embedInCode("Live/Page/wall.js"),
                .embedInCode("Live/Page/ward.js"), .embedInCode("Live/Page/straps.js"),
                .embedInCode("Live/Page/gateway.js"), .embedInCode("Live/Page/stream.js"),
                .embedInCode("Live/Page/token.js"), .embedInCode("Live/Page/start.js"),
                .embedInCode("Live/Page/fleet.js"),
            ],
            swiftSettings: settings, linkerSettings: packed),

        // The one part with privilege.
        .executableTarget(
            name: "RadioReset", cSettings: shim, linkerSettings: [.linkedLibrary("bluetooth")]),

        // The world around it, simulated.
        .target(
            name: "Testbed",
            dependencies: [
                "Basics", "BlueZ", "CGlibc", "GATTHeartRate",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Subprocess", package: "swift-subprocess"),
            ],
            resources: [.copy("Hearts")],
            swiftSettings: settings),
        .executableTarget(
            name: "GatewayDemo", dependencies: ["GATTHeartRate", "Testbed"], swiftSettings: settings
        ),
        .target(name: "Figures", path: "Benchmarks/figures", swiftSettings: settings),
        .executableTarget(
            name: "RecordBench", dependencies: ["Figures", "Testbed"],
            path: "Benchmarks/record-sources", exclude: ["peer.py"], swiftSettings: settings),
        .executableTarget(
            name: "DrainBench", dependencies: ["Figures", "Testbed"],
            path: "Benchmarks/drain-sources", exclude: ["peer.py"], swiftSettings: settings),
        .executableTarget(
            name: "LatencyBench", dependencies: ["Figures", "Testbed"],
            path: "Benchmarks/latency-sources", swiftSettings: settings),
        .executableTarget(
            name: "QueueBench",
            dependencies: [
                "Basics", "GATTHeartRate", "OfflineQueue",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Benchmarks/queue-sources", exclude: ["figures.py", "peer.py"],
            swiftSettings: settings),
        .executableTarget(
            name: "UplinkBench", dependencies: ["Basics", "Uplink"],
            path: "Benchmarks/uplink-sources", exclude: ["figures.py", "peer.py"],
            swiftSettings: settings),
        .executableTarget(
            name: "Soak", dependencies: ["Figures", "Testbed"],
            path: "Benchmarks/soak-sources", exclude: ["heap.c", "plot.py"], swiftSettings: settings
        ),

        .executableTarget(
            name: "FleetSimulation",
            dependencies: [
                "Basics", "OfflineQueue", "Testbed", "Uplink",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            path: "Benchmarks/fleet-sources", swiftSettings: settings),

        .target(
            name: "VirtualTime", dependencies: ["Basics", "OfflineQueue"],
            path: "Tests/VirtualTime", swiftSettings: settings),
        .executableTarget(
            name: "SimulatedDay",
            dependencies: [
                "Basics", "BlueZ", "GATTHeartRate", "Health", "OfflineQueue", "Recording",
                "Testbed", "VirtualTime",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/SimulatedDay", swiftSettings: settings),

        .executableTarget(
            name: "StandInExchange", dependencies: ["Testbed"], path: "Tests/Installed/exchange",
            swiftSettings: settings),

        .testTarget(name: "BasicsTests", dependencies: ["Basics"], swiftSettings: tests),
        .testTarget(
            name: "GATTHeartRateTests", dependencies: ["Basics", "GATTHeartRate", "Testbed"],
            swiftSettings: settings),
        .testTarget(
            name: "BlueZTests", dependencies: ["Basics", "BlueZ", "Testbed"],
            swiftSettings: tests),
        .target(
            name: "FaultyDisk", path: "Tests/FaultyDisk", cSettings: shim,
            linkerSettings: [.linkedLibrary("sqlite3")]),
        .testTarget(
            name: "OfflineQueueTests",
            dependencies: [
                "Basics", "FaultyDisk", "OfflineQueue",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            exclude: ["Golden"], swiftSettings: tests),
        .testTarget(
            name: "RecordingTests",
            dependencies: [
                "Basics", "BlueZ", "GATTHeartRate", "OfflineQueue", "Recording",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "HealthRuleTests",
            dependencies: [
                "Basics", "BlueZ", "GATTHeartRate", "Health", "OfflineQueue", "Recording",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "UplinkTests", dependencies: ["Basics", "Uplink", "Testbed"],
            swiftSettings: tests),
        .testTarget(
            name: "TestbedTests", dependencies: ["Basics", "BlueZ", "GATTHeartRate", "Testbed"],
            exclude: ["bleak_check.py"], swiftSettings: tests),
        .testTarget(
            name: "EdgeGatewayTests",
            dependencies: [
                "BlueZ", "EdgeGateway", "GATTHeartRate", "Health", "OfflineQueue", "Recording",
                "Testbed", "Uplink", .product(name: "Logging", package: "swift-log"),
            ],
            exclude: ["Golden"], swiftSettings: tests),
        .testTarget(
            name: "EndToEndTests",
            dependencies: ["Basics", "BlueZ", "EdgeGateway", "GATTHeartRate", "Testbed"],
            swiftSettings: tests),
        // Preloaded into the gateway, never linked.
        .target(name: "FastTime", path: "Tests/Chaos/FastTime", cSettings: shim),
        .testTarget(
            name: "ChaosTests",
            dependencies: [
                "Basics", "BlueZ", "EdgeGateway", "OfflineQueue", "Testbed", "Uplink",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Tests/Chaos", exclude: ["FastTime"], swiftSettings: tests),
        .testTarget(
            name: "Simulation",
            dependencies: [
                "Basics", "BlueZ", "EdgeGateway", "FaultyDisk", "GATTHeartRate", "Health",
                "OfflineQueue", "Recording", "Testbed", "Uplink", "VirtualTime",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Tests/Simulation", exclude: ["Mutations"], swiftSettings: settings),
        .testTarget(
            name: "ConformanceTests",
            dependencies: ["Basics", "EdgeGateway", "OfflineQueue", "Testbed", "Uplink"],
            path: "Tests/Conformance",
            exclude: [
                "beats.py", "control_api.py", "control_api_hooks.py", "documents.py", "frames.py",
                "frames-golden.jsonl", "postgrest_front.py", "requirements.txt", "setup",
                "webhook_receiver.py",
            ],
            swiftSettings: tests),
    ]
)
