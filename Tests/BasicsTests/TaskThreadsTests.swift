import Basics
import Testing

@Suite("Threads that are shared")
struct TaskThreadsTests {
    /// 300 destinations took 300 threads.
    @Test func anyNumberOfActorsTakesNoMoreThreadsThanThereMayBe() {
        let threads = TaskThreads(label: "test", most: 4)
        let given = (0..<300).map { _ in threads.next() }
        #expect(Set(given.map(ObjectIdentifier.init)).count == 4)
        #expect(
            Set(given.prefix(4).map(ObjectIdentifier.init)).count == 4,
            "none waits for another while there are so few")
        #expect(Set(given.suffix(4).map(ObjectIdentifier.init)).count == 4)
    }

    @Test func aThreadEndsWithItsLastActorAndMakesRoomForAnother() {
        let threads = TaskThreads(label: "test", most: 2)
        let kept = threads.next()
        weak var ended: TaskThread?
        do {
            let other = threads.next()
            ended = other
            withExtendedLifetime(other) { #expect(ended != nil) }
        }
        #expect(ended == nil)
        #expect(threads.next() !== kept)
    }
}
