import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("Identity of a data point")
struct IdentityTests {
    @Test func layoutIsThatOfAVersion8UUID() {
        // RFC 9562 §5.8: custom_a 48 bits, version 4, custom_b 12, variant 2, custom_c 62.
        let identity = SampleIdentity(
            runNonce: 0xFED_CBA9_8765_4321, sample: 0x2A_BCDE_F012_3456,
            kind: DataPointKind(rawValue: 0x5C))
        #expect(identity.description == "fedcba98-7654-8321-aabc-def01234565c")
        #expect(identity.high >> 12 & 0xF == 8)
        #expect(identity.low >> 62 == 0b10)
    }

    @Test func versionAndVariantHoldAtTheEdges() {
        for nonce in [0, 1, SampleIdentity.nonceMask, .max] {
            for sample in [0, 1, SampleIdentity.sampleMax, .max, -1] {
                for kind in [UInt8.min, .max] {
                    let text = SampleIdentity(
                        runNonce: nonce, sample: sample, kind: DataPointKind(rawValue: kind)
                    ).description
                    let characters = Array(text)
                    #expect(characters.count == 36 && characters[14] == "8")
                    #expect("89ab".contains(characters[19]))
                    #expect([8, 13, 18, 23].allSatisfy { characters[$0] == "-" })
                    #expect(text == text.lowercased())
                }
            }
        }
        let least = SampleIdentity(runNonce: 0, sample: 0)
        #expect(least.description == "00000000-0000-8000-8000-000000000000")
    }

    @Test func everyBitOfNonceSampleAndKindCounts() {
        var seen: Set<SampleIdentity> = [SampleIdentity(runNonce: 0, sample: 0)]
        for bit in 0..<60 { seen.insert(SampleIdentity(runNonce: 1 << UInt64(bit), sample: 0)) }
        for bit in 0..<54 { seen.insert(SampleIdentity(runNonce: 0, sample: 1 << Int64(bit))) }
        for bit in 0..<8 {
            let kind = DataPointKind(rawValue: 1 << UInt8(bit))
            seen.insert(SampleIdentity(runNonce: 0, sample: 0, kind: kind))
        }
        #expect(seen.count == 1 + 60 + 54 + 8)
    }

    @Test func anIdentityIsReadFromItsOwnTextAndFromNoOther() {
        var random = SeededRandom(seed: 11)
        for _ in 0..<1000 {
            let identity = SampleIdentity(
                runNonce: random.next(), sample: Int64(bitPattern: random.next()),
                kind: DataPointKind(rawValue: UInt8.random(in: 0...255, using: &random)))
            let text = identity.description
            #expect(SampleIdentity(text: text) == identity)
            var octets = Array(text.utf8)
            octets[Int.random(in: 0..<36, using: &random)] = .random(in: 0...127, using: &random)
            let other = String(decoding: octets, as: UTF8.self)
            #expect(SampleIdentity(text: other).map(\.description) ?? other == other)
        }
        for text in ["", "0", UUID().uuidString.lowercased() + "0", "\u{0}"] {
            #expect(SampleIdentity(text: text) == nil)
        }
        let version4 = "5b5a6e0f-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
        #expect(SampleIdentity(text: version4) == nil)
        #expect(SampleIdentity(text: version4.replacing("-4", with: "-8")) != nil)
        #expect(SampleIdentity(text: version4.replacing("-4", with: "-8").uppercased()) == nil)
    }

    @Test func checksumIsTheCommonCRC32() {
        #expect(RowChecksum.crc32(Array("123456789".utf8)) == 0xCBF4_3926)
        #expect(RowChecksum.crc32([]) == 0)
    }

    @Test func aNewRunNeverRepeatsAnIdentity() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        var seen: Set<String> = []
        var count = 0
        var delivery: Int64 = 0
        for run in 0..<5 {
            let queue = try await store.open(clock)
            if run == 0 { delivery = try await Worn(queue).enrollment.id }
            let assignment = try #require(try await queue.openAssignments().first)
            for _ in 0..<20 { try await queue.beat(assignment, clock) }
            try await queue.flush()
            let sent = try await queue.deliverAll(delivery)
            seen.formUnion(sent.map(\.uuid))
            count += sent.count
            try await queue.close()
        }
        #expect(count == 100 && seen.count == 100)
    }

    @Test func aRestoredBackupRepeatsOnlyWhatItAlreadyHeld() async throws {
        let store = try TestStore()
        let restored = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<10 { try await queue.beat(worn.assignment, clock) }
        try await queue.close()
        try FileManager.default.copyItem(atPath: store.path, toPath: restored.path)

        var sent: [[PendingSample]] = []
        for store in [store, restored] {
            let queue = try await store.open(clock)
            for _ in 0..<10 { try await queue.beat(worn.assignment, clock) }
            try await queue.flush()
            sent.append(try await queue.deliverAll(worn.enrollment.id))
        }
        let both = sent.map { Set($0.map(\.uuid)) }
        // The ten of the backup are the same data points; the server knows them by their identity.
        #expect(both[0].intersection(both[1]) == Set(sent[0].prefix(10).map(\.uuid)))
        #expect(sent[0].map(\.id) == sent[1].map(\.id))
    }

    @Test func theIdentityOfASampleSurvivesReopening() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let first = try await store.open(clock)
        let worn = try await Worn(first)
        for _ in 0..<3 { try await first.beat(worn.assignment, clock) }
        try await first.flush()
        let before = try await first.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        try await first.close()
        let second = try await store.open(clock, bootID: "boot-2")
        #expect(try await second.nextBatch(enrollment: worn.enrollment.id, limit: 9) == before)
    }
}
