import ArgumentParser
import Basics

/// A word on the command line that is the name of no command.
struct Mistyping {
    /// The commands before it, from `edge-gateway` on.
    private let path: String
    private let word: String
    private let known: [String]

    /// Nil if the words name a command, and what is wrong with them is something else.
    static func find(in words: [String]) -> Mistyping? {
        var command: any ParsableCommand.Type = EdgeGatewayCommand.self
        var path = "edge-gateway"
        for word in words where word != "help" {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, !word.hasPrefix("-") else { return nil }
            guard let next = commands.first(where: { $0.configuration.commandName == word }) else {
                return Mistyping(
                    path: path, word: word,
                    known: commands.compactMap { $0.configuration.commandName })
            }
            command = next
            path += " " + word
        }
        return nil
    }

    /// Names the nearest command, or lists all of them.
    var message: String {
        let first = "there is no command \"\(Printable.line("\(path) \(word)"))\""
        guard let meant = Nearest.of(word, among: known) else {
            return first + "\n  there are: \(known.joined(separator: ", ")) (\(path) --help)"
        }
        return first + ", did you mean \"\(path) \(meant)\"?\n  \(path) --help lists the commands"
    }
}
