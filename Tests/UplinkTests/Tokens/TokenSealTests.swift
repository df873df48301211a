import Foundation
import Testing

@testable import Uplink

/// Token files that are encrypted to this machine, by a stand-in for systemd-creds and by the real one.
@Suite struct TokenSealTests {
    /// Base64 stands for encryption; `wrong` makes it fail in one way.
    private static func program(in scratch: Scratch, _ script: String? = nil) throws -> TokenSeal {
        let path = scratch.path + "/creds"
        let standard = "case $1 in encrypt) base64 ;; decrypt) base64 -d ;; esac"
        try "#!/bin/sh\n\(script ?? standard)\n".write(
            toFile: path, atomically: true, encoding: .utf8)
        chmod(path, 0o755)
        let seal = TokenSeal(program: path)
        // A child that another test starts meanwhile may hold the script open for writing for a moment;
        // once it could be run, it can be.
        while true {
            do throws(TokenSeal.Fault) {
                _ = try seal.open([], name: "none")
            } catch {
                if error == .notRun(errno: ETXTBSY) {
                    usleep(10_000)
                    continue
                }
            }
            return seal
        }
    }

    private static func file(
        _ scratch: Scratch, _ policy: TokenSeal.Policy, _ seal: TokenSeal
    ) -> TokenFile {
        TokenFile(path: scratch.path + "/tokens-1.json", policy: policy, seal: seal)
    }

    @Test func whatIsSealedHoldsNoSecretAndOpensAgain() throws {
        let scratch = try Scratch()
        let record = TokenRenewalTests.record(1)
        let file = Self.file(scratch, .always, try Self.program(in: scratch))
        try file.save(record)
        #expect(try file.isSealed())
        #expect(try file.load() == record)
        let text = try String(contentsOfFile: file.path, encoding: .utf8)
        #expect(!text.contains(record.pair.access.revealed))
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
        // A policy for writing only.
        let never = Self.file(scratch, .never, try Self.program(in: scratch))
        #expect(try never.load() == record)
        try never.save(record)
        #expect(try !never.isSealed())
    }

    @Test(
        "a seal that fails stores in clear, or not at all",
        arguments: [
            "exit 1", "cat >/dev/null; echo AAAA", "exec >&-; sleep 0", "cat; exit 0",
            "case $1 in encrypt) base64 ;; *) exit 3 ;; esac", "kill -9 $$",
        ])
    func failing(script: String) throws {
        let scratch = try Scratch()
        let seal = try Self.program(in: scratch, script)
        let old = TokenRenewalTests.record(1)
        let new = TokenRenewalTests.record(2)
        try Self.file(scratch, .never, seal).save(old)
        let always = Self.file(scratch, .always, seal)
        #expect(throws: TokenFile.Fault.self) { try always.save(new) }
        #expect(try always.load() == old, "the old pair is untouched")
        let auto = Self.file(scratch, .auto, seal)
        try auto.save(new)
        #expect(try !auto.isSealed())
        #expect(try auto.load() == new)
    }

    @Test func aMissingProgramIsSaid() throws {
        let scratch = try Scratch()
        let always = Self.file(scratch, .always, TokenSeal(program: "/nonexistent/creds"))
        #expect(throws: TokenFile.Fault.unsealed(.notRun(errno: ENOENT))) {
            try always.save(TokenRenewalTests.record(1))
        }
        try Data("QUJD".utf8).write(to: URL(filePath: always.path))
        #expect(throws: TokenFile.Fault.unopened(.notRun(errno: ENOENT))) { try always.load() }
    }

    @Test(
        "a failure at any step leaves the old sealed record or the new one whole",
        arguments: TokenFile.Step.allCases)
    func crash(step: TokenFile.Step) throws {
        let scratch = try Scratch()
        var file = Self.file(scratch, .always, try Self.program(in: scratch))
        try file.save(TokenRenewalTests.record(1))
        file.failing = { $0 == step ? ENOSPC : 0 }
        #expect(throws: TokenFile.Fault.unwritable(step, errno: ENOSPC)) {
            try file.save(TokenRenewalTests.record(2))
        }
        #expect(
            try file.load() == TokenRenewalTests.record(step == .syncDirectory ? 2 : 1))
    }

    /// What is on the disk when a step begins is what a `kill -9` then leaves.
    @Test(
        "a kill at any step leaves the old pair or the new one, and the next write works",
        arguments: [TokenSeal.Policy.never, .always])
    func killed(policy: TokenSeal.Policy) throws {
        let scratch = try Scratch()
        let seal = try Self.program(in: scratch)
        let state = scratch.path + "/state"
        try FileManager.default.createDirectory(
            atPath: state, withIntermediateDirectories: true)
        var file = TokenFile(path: state + "/tokens-1.json", policy: policy, seal: seal)
        try file.save(TokenRenewalTests.record(1))
        file.failing = { step in
            // A step may come more than once; the first time is as good as any.
            try? FileManager.default.copyItem(
                atPath: state, toPath: "\(scratch.path)/killed-\(step)")
            return 0
        }
        try file.save(TokenRenewalTests.record(2))
        for step in TokenFile.Step.allCases {
            let left = TokenFile(
                path: "\(scratch.path)/killed-\(step)/tokens-1.json", policy: policy, seal: seal)
            let isNew = step == .syncDirectory
            #expect(try left.load() == TokenRenewalTests.record(isNew ? 2 : 1), "\(step)")
            try left.save(TokenRenewalTests.record(3))
            #expect(try left.load() == TokenRenewalTests.record(3))
        }
    }

    @Test(
        "systemd-creds itself seals and opens, under its name only",
        .enabled(if: canSeal, "there is neither a host key nor a TPM that this user may use"))
    func real() throws {
        let scratch = try Scratch()
        let file = Self.file(scratch, .always, TokenSeal())
        let record = TokenRenewalTests.record(1)
        try file.save(record)
        #expect(try file.isSealed())
        #expect(try file.load() == record)
        let other = scratch.path + "/tokens-2.json"
        try FileManager.default.copyItem(atPath: file.path, toPath: other)
        #expect(throws: TokenFile.Fault.self) { try TokenFile(path: other).load() }
    }

    private static let canSeal: Bool = {
        let keys = ["/var/lib/systemd/credential.secret", "/dev/tpmrm0"]
        guard keys.contains(where: { access($0, R_OK) == 0 }), let scratch = try? Scratch() else {
            return false
        }
        return (try? file(scratch, .always, TokenSeal()).save(TokenRenewalTests.record(1))) != nil
    }()
}
