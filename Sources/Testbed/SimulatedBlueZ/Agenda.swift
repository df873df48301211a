import Basics

/// The work that is due and when: a heap ordered by time, then by the order of entry.
///
/// A value without a clock; its owner passes the time in.
struct Agenda<Action> {
    /// How much later what must not be at once is at least.
    static var step: Duration { .microseconds(1) }

    private struct Entry {
        var due: WorldTime
        var number: UInt64
        var action: Action

        func isBefore(_ other: Entry) -> Bool {
            due != other.due ? due < other.due : number < other.number
        }
    }

    private var heap: [Entry] = []
    private var numbers: UInt64 = 0

    /// When the next action is due; nil when there is none.
    var nextDue: WorldTime? { heap.first?.due }

    /// Enters an action.
    mutating func add(_ action: Action, due: WorldTime) {
        numbers += 1
        heap.append(Entry(due: due, number: numbers, action: action))
        var index = heap.count - 1
        while index > 0, heap[index].isBefore(heap[(index - 1) / 2]) {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Takes out the first action that is due at `time` or before.
    mutating func take(until time: WorldTime) -> (due: WorldTime, action: Action)? {
        guard let first = heap.first, first.due <= time else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        return (first.due, first.action)
    }

    /// Forgets what does not pass the test.
    mutating func keep(where isKept: (Action) -> Bool) {
        // An ordered array is a heap.
        heap = heap.filter { isKept($0.action) }.sorted { $0.isBefore($1) }
    }

    private mutating func sink() {
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < heap.count && heap[child].isBefore(heap[least]) {
                least = child
            }
            if least == index { return }
            heap.swapAt(index, least)
            index = least
        }
    }
}
