// swift-tools-version: 6.2
import PackageDescription

// Depends on the decoder alone: nothing else of EdgeGateway is compiled.
let package = Package(
    name: "DecodeFrames",
    dependencies: [.package(name: "edge-gateway", path: "../..")],
    targets: [
        .executableTarget(
            name: "DecodeFrames",
            dependencies: [.product(name: "GATTHeartRate", package: "edge-gateway")],
            path: "Sources")
    ])
