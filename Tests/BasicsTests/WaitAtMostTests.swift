import Basics
import Testing

@Suite struct WaitAtMostTests {
    @Test func whatEndsIsWaitedFor() async {
        #expect(await wait(atMost: .seconds(600), by: .system) {})
    }

    @Test(.timeLimit(.minutes(1))) func whatDoesNotEndIsNot() async {
        let (never, sink) = AsyncStream<Void>.makeStream()
        #expect(await !wait(atMost: .milliseconds(1), by: .system) { for await _ in never {} })
        sink.finish()
    }
}
