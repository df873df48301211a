import Basics
import Glibc

/// The person at the terminal wants no more: they typed `q`, or ended the input.
struct Left: Error {}

/// A line that a person types at standard input.
enum TypedLine {
    /// A terminal takes no longer line.
    private static let bytesMax = 4096
    /// Between two looks at the terminal: soon enough for a person.
    private static let pause = Duration.milliseconds(50)

    /// The answer to a question, without its end; nil at the end of input.
    ///
    /// Nothing reads until a line is there, so that the line typed after an abandoned question goes to the next one.
    ///
    /// - Throws: `CancellationError`; what was typed so far is forgotten, because it answers no other question.
    static func answer(to question: String) async throws -> String? {
        Terminal.write(question)
        return try await bytes().map(text)
    }

    /// The same unseen. Ctrl-C ends the command, as it does everywhere.
    static func hiddenAnswer(to question: String) async throws -> String? {
        var before = termios()
        guard tcgetattr(STDIN_FILENO, &before) == 0 else { return try await answer(to: question) }
        var hidden = before
        // Ctrl-C ends the line first (VEOL): a command that it ends would leave the terminal without echo.
        let interrupt = before.c_cc.0
        hidden.c_cc.11 = interrupt
        hidden.c_lflag &= ~tcflag_t(ECHO | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        let line: [UInt8]?
        do {
            defer { tcsetattr(STDIN_FILENO, TCSAFLUSH, &before) }
            Terminal.write(question)
            line = try await bytes()
        }
        Terminal.write("\n")
        if let last = line?.last, last == interrupt {
            endByInterrupt()
            return nil
        }
        return line.map(text)
    }

    /// Ends the command by SIGINT, unless its parent has the signal ignored.
    private static func endByInterrupt() {
        // The threads of tasks block signals.
        var interrupt = sigset_t()
        sigemptyset(&interrupt)
        sigaddset(&interrupt, SIGINT)
        pthread_sigmask(SIG_UNBLOCK, &interrupt, nil)
        raise(SIGINT)
    }

    private static func bytes() async throws -> [UInt8]? {
        while !isReady {
            guard !Task.isCancelled else {
                tcflush(STDIN_FILENO, TCIFLUSH)
                throw CancellationError()
            }
            await UptimeClock.system.sleep(pause)
        }
        let line = [UInt8](unsafeUninitializedCapacity: bytesMax) { buffer, count in
            count = max(0, Glibc.read(STDIN_FILENO, buffer.baseAddress, buffer.count))
        }
        return line.isEmpty ? nil : line
    }

    private static var isReady: Bool {
        var waiting = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, 0) > 0
    }

    private static func text(_ line: [UInt8]) -> String {
        let line = line.last == UInt8(ascii: "\n") ? line.dropLast() : line[...]
        return String(decoding: line, as: UTF8.self)
    }
}
