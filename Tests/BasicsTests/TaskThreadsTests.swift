import Basics
import Testing

@Suite("Threads that are shared")
struct TaskThreadsTests {
    /// 300 destinations that are files took 300 threads.
    @Test func anyNumberOfActorsTakesNoMoreThreadsThanThereMayBe() {
        let threads = TaskThreads(label: "test", most: 4)
        let given = (0..<300).map { _ in ObjectIdentifier(threads.next()) }
        #expect(Set(given).count == 4)
        #expect(Set(given.prefix(4)).count == 4, "none waits for another while there are so few")
    }
}
