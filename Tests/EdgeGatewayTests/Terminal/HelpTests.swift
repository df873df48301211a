import ArgumentParser
import Foundation
import Testing

@testable import EdgeGateway

/// What a person reads of a command before it does anything.
@Suite struct HelpTests {
    /// A command with its path from `edge-gateway` on.
    private struct Entry {
        let type: any ParsableCommand.Type
        let path: [String]
    }

    private static func tree(
        _ type: any ParsableCommand.Type = EdgeGatewayCommand.self, _ path: [String] = []
    ) -> [Entry] {
        [Entry(type: type, path: path)]
            + type.configuration.subcommands.flatMap {
                tree($0, path + [$0.configuration.commandName ?? ""])
            }
    }

    /// The lines of a help text that can be pasted, as the words after `edge-gateway`.
    private static func examples(_ discussion: String) -> [[String]] {
        let lines = discussion.replacing(#/\\\n\s*/#, with: "")
        return lines.split(separator: "\n").compactMap { line in
            let words = shellWords(line.replacing(#/^\s*(Examples?:)?\s*/#, with: ""))
            let command = words.drop { $0 == "sudo" || $0 == "-u" }
            guard let start = command.firstIndex(of: "edge-gateway") else { return nil }
            // `sudo -u edge-gateway edge-gateway …`
            let rest = command[(start + 1)...]
            return Array(rest.first == "edge-gateway" ? rest.dropFirst() : rest)
        }
    }

    /// The words of a line as a shell takes them, up to a redirection or a pipe.
    private static func shellWords(_ line: Substring) -> [String] {
        var words: [String] = []
        var word: String?
        var quote: Character?
        for character in line {
            if let open = quote {
                if character == open { quote = nil } else { word = (word ?? "") + "\(character)" }
            } else if character == "\"" || character == "'" {
                quote = character
                word = word ?? ""
            } else if character == " " {
                if let done = word { words.append(done) }
                word = nil
            } else if "|<>".contains(character) {
                break
            } else {
                word = (word ?? "") + "\(character)"
            }
        }
        return words + [word].compactMap(\.self)
    }

    /// `confirm` and `config` had none, and others named options that were gone.
    @Test func everyHelpTextHasAnExampleThatIsUnderstood() throws {
        let commands = Self.tree()
        #expect(commands.count > 50)
        for command in commands {
            let examples = Self.examples(command.type.configuration.discussion)
            #expect(!examples.isEmpty, "\(command.path): no example")
            for words in examples {
                #expect(words.starts(with: command.path), "\(command.path): \(words)")
                #expect(throws: Never.self, "\(words)") {
                    _ = try EdgeGatewayCommand.parseAsRoot(words)
                }
            }
        }
    }

    /// A terminal broke them, and what was pasted ran as two commands.
    @Test func examplesFitIntoATerminal() {
        for command in Self.tree() {
            let lines = command.type.configuration.discussion.split(separator: "\n")
            for line in lines where line.contains("edge-gateway ") && line.hasPrefix(" ") {
                #expect(line.count <= 80, "\(line)")
            }
        }
    }

    /// What a person reads says strap, and not sensor or device.
    @Test func helpSaysStrap() {
        for command in Self.tree() {
            let help = EdgeGatewayCommand.helpMessage(for: command.type)
            #expect(!help.lowercased().contains("sensor"), "\(command.path): \(help)")
        }
    }

    @Test(arguments: [
        ("statsu", "did you mean \"edge-gateway status\"?"),
        ("queue lst", "did you mean \"edge-gateway queue list\"?"),
        ("queue dead shwo 1", "did you mean \"edge-gateway queue dead show\"?"),
        ("fly", "there are: run, "), ("alert mail", "there are: kinds, "),
        ("help statsu", "did you mean \"edge-gateway status\"?"),
        ("statsu --help", "edge-gateway status"),
    ])
    func aMistypingIsMetWithTheNearestOne(line: String, says: String) throws {
        let slip = try #require(
            Mistyping.find(in: line.split(separator: " ").map(String.init)))
        #expect(slip.message.contains(says), "\(slip.message)")
    }

    @Test(arguments: ["status --jsn", "gaps x", "queue list", "help status", "--version"])
    func whatNamesACommandIsNoMistypedOne(line: String) {
        #expect(Mistyping.find(in: line.split(separator: " ").map(String.init)) == nil)
    }

    @Test(arguments: [
        ("status --jsn", "--json"), ("gaps --strp x", "--strap"), ("gaps --sinse today", "--since"),
    ])
    func aMistypedOptionIsMetWithTheNearestOne(line: String, meant: String) throws {
        let error = try #require(throws: (any Error).self) {
            try EdgeGatewayCommand.parseAsRoot(line.split(separator: " ").map(String.init))
        }
        let message = EdgeGatewayCommand.message(for: error)
        #expect(message.contains("Did you mean '\(meant)'"), "\(message)")
    }
}
