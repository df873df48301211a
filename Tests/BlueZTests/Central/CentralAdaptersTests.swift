import Testbed
import Testing

@testable import BlueZ

extension Central {
    /// Straps whose last link they seem to have ended themselves.
    fileprivate var leaversCount: Int { links.values.count { $0.hasLeft } }
}

@Suite("Many straps and several adapters", .timeLimit(.minutes(10)))
struct CentralAdaptersTests {
    private static let adapters = ["00:1A:7D:DA:71:01", "00:1A:7D:DA:71:02"]

    private static func straps(_ count: Int) -> [String] {
        (1...count).map { "C0:00:00:00:00:" + ($0 < 10 ? "0\($0)" : "\($0)") }
    }

    private func stage(
        _ straps: [String], linksMax: Int, adapters count: Int = 2, namesFullAdapter: Bool = true
    ) async throws -> Stage {
        let stage = try await Stage(
            straps: straps,
            adapters: Self.adapters.prefix(count).enumerated().map {
                SimulatedAdapter(address: $0.element, index: $0.offset, linksMax: linksMax)
            },
            habits: { $0.namesFullAdapter = namesFullAdapter })
        await stage.start()
        for strap in straps { await stage.watch(strap) }
        return stage
    }

    private func stream(_ stage: Stage, _ straps: [String]) async -> Bool {
        await stage.until(atMost: .seconds(60)) { events in
            straps.allSatisfy { !events.frames(of: $0).isEmpty }
        }
    }

    /// Whether a strap comes to wait because no adapter has a place for it.
    private func oneWaits(_ stage: Stage, _ straps: [String]) async -> Bool {
        await stage.until(atMost: .seconds(40)) { events in
            straps.contains { strap in
                events.states(of: strap).contains { $0.state == .suspended(.adapterFull) }
            }
        }
    }

    @Test("twelve straps stream over two adapters that carry six each")
    func twelve() async throws {
        let straps = Self.straps(12)
        let stage = try await stage(straps, linksMax: 6)
        #expect(await stream(stage, straps))
        let links = await stage.central.snapshots()
        for adapter in Self.adapters {
            #expect(links.count { $0.adapter == adapter } == 6)
        }
        await stage.end()
    }

    @Test("a full adapter is a state, not a loop: the strap waits and is tried rarely")
    func full() async throws {
        let straps = Self.straps(3)
        let stage = try await stage(straps, linksMax: 2, adapters: 1)
        #expect(await oneWaits(stage, straps))
        let connects = await stage.bluez.callCount("Connect")
        // Dozens of adverts of the waiting strap later, there was no further attempt.
        await stage.forget()
        #expect(await stage.until { $0.count > 100 })
        #expect(await stage.bluez.callCount("Connect") == connects)
        #expect(await stage.central.adapterSnapshots().first?.isFull == true)
        await stage.end()
    }

    /// `status` said to take the strap's battery out, and it was tried each 1.3 s.
    @Test("a full adapter is recognised though bluetoothd says that it ended the attempt itself")
    func fullUnnamed() async throws {
        let straps = Self.straps(5)
        let stage = try await stage(
            Array(straps.prefix(4)), linksMax: 3, adapters: 1, namesFullAdapter: false)
        #expect(await oneWaits(stage, straps))
        #expect(await stage.central.adapterSnapshots().first?.isFull == true)
        // A link that a busy machine lets go may make a place for a moment.
        var links = await stage.central.snapshots()
        for _ in 0..<200 where links.compactMap(\.trouble) != [.noPlace] {
            try await Task.sleep(for: .milliseconds(50))
            links = await stage.central.snapshots()
        }
        #expect(links.compactMap(\.trouble) == [.noPlace], "\(links)")
        let connects = await stage.bluez.callCount("Connect")
        await stage.forget()
        #expect(await stage.until { $0.count > 100 })
        #expect(await stage.bluez.callCount("Connect") == connects)
        await stage.end()
    }

    @Test("a strap that is paired where there is no place is told so, and not to come nearer")
    func pairedWithoutPlace() async throws {
        let straps = Self.straps(4)
        let stage = try await Stage(
            straps: straps, adapters: [SimulatedAdapter(linksMax: 3)],
            habits: { $0.namesFullAdapter = false })
        await stage.start()
        for strap in straps.prefix(3) { await stage.watch(strap) }
        #expect(await stream(stage, Array(straps.prefix(3))))
        await #expect(throws: InspectionFault.adapterFull) {
            _ = try await stage.central.inspect(
                address: straps[3], service: Stage.service, characteristic: Stage.measurement,
                reading: [])
        }
        await stage.end()
    }

    /// Its own fault, beside straps of which one has left.
    @Test(
        "a strap that fails where there was a place for more is not taken for one without a place")
    func sickStrap() async throws {
        let straps = Self.straps(5)
        let stage = try await stage(straps, linksMax: 16, adapters: 1)
        #expect(await stream(stage, straps))
        await stage.bluez.inject(
            ScriptedFault("Connect", of: straps[4], times: nil, .error(BlueZFault.abortByLocal)))
        await stage.bluez.drop(straps[4])
        #expect(
            await stage.until { $0.states(of: straps[4]).contains(where: \.isUnreachable) })
        #expect(await stage.central.adapterSnapshots().first?.isFull == false)
        await stage.end()
    }

    @Test("who waits for a place takes the one that becomes free")
    func placeFreed() async throws {
        let straps = Self.straps(3)
        let stage = try await stage(straps, linksMax: 2, adapters: 1)
        #expect(await oneWaits(stage, straps))
        let links = await stage.central.snapshots()
        let waiting = links.first { $0.state == .suspended(.adapterFull) }?.address ?? ""
        let streaming = straps.first { $0 != waiting } ?? ""
        await stage.forget()
        await stage.bluez.setOnAir(streaming, false)
        await stage.central.unwatch(address: streaming)
        #expect(await stage.until { !$0.frames(of: waiting).isEmpty })
        await stage.end()
    }

    @Test("straps of a full adapter move to another that is plugged in")
    func adapterAdded() async throws {
        let straps = Self.straps(4)
        let stage = try await stage(straps, linksMax: 2)
        await stage.bluez.unplug(Self.adapters[1])
        #expect(await oneWaits(stage, straps))
        await stage.forget()
        await stage.bluez.plug(Self.adapters[1], index: 5)
        #expect(await stream(stage, straps))
        await stage.end()
    }

    /// The kernel was blamed for what another program did.
    @Test("links that end together are no strap's leaving")
    func endedTogether() async throws {
        let straps = Self.straps(3)
        let stage = try await stage(straps, linksMax: 7, adapters: 1)
        #expect(await stream(stage, straps))
        await stage.forget()
        await stage.bluez.drop(straps[0])
        #expect(await stage.until { $0.states(of: straps[0]).contains { $0.reason == .linkLost } })
        #expect(await stage.central.leaversCount == 1)
        await stage.forget()
        #expect(await stream(stage, straps))
        await stage.forget()
        for strap in straps { await stage.bluez.drop(strap) }
        #expect(
            await stage.until { events in
                straps.allSatisfy { strap in
                    events.states(of: strap).contains { $0.reason == .linkLost }
                }
            })
        #expect(await stage.central.leaversCount == 0)
        await stage.end()
    }

    @Test("thousands of strangers' adverts cost no event, no call, and no object is kept of them")
    func strangers() async throws {
        let stage = try await stage([Stage.strap], linksMax: 7, adapters: 1)
        await stage.bluez.setForeignDiscovery(true)
        #expect(await stream(stage, [Stage.strap]))
        try await stage.bluez.flood(count: 200)
        await stage.watch("C0:00:00:00:00:77")
        #expect(await stage.bluez.wait { $0.isDiscovering })
        let frames = await stage.bluez.framesSentCount(Stage.strap)
        #expect(await stage.bluez.wait { $0.framesSentCount(Stage.strap) > frames + 100 })
        let sightings = await stage.events.count { if case .sighting = $0 { true } else { false } }
        #expect(sightings < 20)
        #expect(await stage.central.devices.count <= 2)
        await stage.end()
    }

    /// Straps that were away came back only when the other program had ended.
    @Test("a strap that was away is found again while another program discovers")
    func foreignDiscovery() async throws {
        let stage = try await Stage(habits: { $0.rssiWaver = 0 })
        await stage.start()
        await stage.bluez.setForeignDiscovery(true)
        await stage.watch()
        #expect(await stream(stage, [Stage.strap]))
        for _ in 0..<2 {
            await stage.bluez.setOnAir(Stage.strap, false)
            await stage.forget()
            #expect(await stage.until { !$0.states().isEmpty })
            await stage.forget()
            await stage.bluez.setOnAir(Stage.strap, true)
            #expect(await stream(stage, [Stage.strap]))
        }
        await stage.end()
    }
}
