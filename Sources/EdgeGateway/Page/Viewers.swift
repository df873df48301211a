import Foundation
import Synchronization

/// The places of those who watch.
final class Viewers: Sendable {
    /// Screens at a time: a ward's, and some phones. Each costs an encoding five times a second.
    static let countMax = 32

    private struct State {
        var next = 0
        var places: Set<Int> = []
    }

    private let state = Mutex(State())

    /// A place; nil if all are taken.
    func take() -> Place? {
        state.withLock { state in
            guard state.places.count < Self.countMax else { return nil }
            state.next += 1
            state.places.insert(state.next)
            return Place(viewers: self, number: state.next)
        }
    }

    /// How many are watching.
    var count: Int { state.withLock { $0.places.count } }

    /// A place, as long as somebody holds it.
    final class Place: Sendable {
        private let viewers: Viewers
        private let number: Int

        fileprivate init(viewers: Viewers, number: Int) {
            self.viewers = viewers
            self.number = number
        }

        deinit { viewers.state.withLock { _ = $0.places.remove(number) } }
    }
}
