import Basics
import Foundation
import Testing

@testable import Uplink

@Suite struct TokenFileTests {
    @Test func whatIsSavedIsLoadedAndOnlyTheOwnerMayReadIt() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        for credential in [
            .invitation(Secret("i")), .none,
            .practitionerKey(clientID: "c", secret: Secret("s")),
        ] as [Credential] {
            let record = TokenRenewalTests.record(credential: credential)
            try file.save(record)
            #expect(try file.load() == record)
        }
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).count == 1)
    }

    @Test func timesAreNumbersWhoseNamesTellTheUnit() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        var record = TokenRenewalTests.record()
        record.pair.granted = UTC(microseconds: 1_795_285_548_585_999)
        try file.save(record)
        let text = try String(contentsOfFile: file.path, encoding: .utf8)
        #expect(
            text.contains(
                #""pair":{"access":"access1","grantedMicroseconds":1795285548585999,"#
                    + #""lifetimeSeconds":1209600,"refresh":"refresh1"}"#), "\(text)")
    }

    @Test(
        "a failure at any step leaves the old record or the new one whole",
        arguments: TokenFile.Step.allCases)
    func crash(step: TokenFile.Step) throws {
        let scratch = try Scratch()
        var file = TokenFile(path: scratch.path + "/tokens.json")
        let old = TokenRenewalTests.record(1)
        let new = TokenRenewalTests.record(2)
        try file.save(old)
        file.failing = { $0 == step ? ENOSPC : 0 }
        #expect(throws: TokenFile.Fault.unwritable(step, errno: ENOSPC)) { try file.save(new) }
        let kept = try file.load()
        #expect(kept == (step == .syncDirectory ? new : old))
        file.failing = { _ in 0 }
        try file.save(new)
        #expect(try file.load() == new)
    }

    @Test func aHalfWrittenFileOfACrashIsOverwritten() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        try file.save(TokenRenewalTests.record(1))
        try Data("{\"half".utf8).write(to: URL(fileURLWithPath: file.path + ".new"))
        #expect(try file.load() == TokenRenewalTests.record(1))
        try file.save(TokenRenewalTests.record(2))
        #expect(try file.load() == TokenRenewalTests.record(2))
    }

    @Test func damagedAndMissingFilesAreToldApart() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        #expect(throws: TokenFile.Fault.missing) { try file.load() }
        let url = URL(fileURLWithPath: file.path)
        for text in ["", "{}", "[]", "\u{0}", String(repeating: " ", count: 70_000)] {
            try Data(text.utf8).write(to: url)
            #expect(throws: TokenFile.Fault.damaged) { try file.load() }
        }
    }

    @Test func aLinkInThePlaceOfTheFileIsNotFollowed() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        try Data().write(to: URL(fileURLWithPath: scratch.path + "/other"))
        symlink(scratch.path + "/other", file.path)
        #expect(throws: TokenFile.Fault.unreadable(errno: ELOOP)) { try file.load() }
    }

    @Test func removingTwiceIsFine() throws {
        let scratch = try Scratch()
        let file = TokenFile(path: scratch.path + "/tokens.json")
        try file.save(TokenRenewalTests.record(1))
        try file.remove()
        try file.remove()
        #expect(throws: TokenFile.Fault.missing) { try file.load() }
    }
}
