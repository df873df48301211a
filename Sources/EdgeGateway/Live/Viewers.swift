import Foundation
import Glibc
import NIOCore
import Synchronization

/// A viewer, and what it may see.
struct Viewer: Sendable {
    /// The holder of a link or token; all places of a holder count together.
    enum Holder: Hashable, Sendable {
        /// A user of this machine at the control socket; nil if the kernel does not say who.
        case user(uid_t?)
        /// Users of this machine, by the page.
        case machine
        /// The operator's token.
        case operatorToken
        /// One share, by its token.
        case share(String)
    }

    var scope: ViewerScope
    var holder: Holder
    /// Where the viewer is, if that is another machine; nil for this one, where a proxy may stand for many.
    var address: String?

    init(scope: ViewerScope, holder: Holder, address: String? = nil) {
        self.scope = scope
        self.holder = holder
        self.address = address
    }

    /// A viewer of the page.
    init(scope: ViewerScope, token: String?, channel: any Channel) {
        self.scope = scope
        switch scope {
        case .share: holder = .share(token ?? "")
        case .full: holder = token == nil ? .machine : .operatorToken
        }
        let ip = channel.remoteAddress?.ipAddress
        address = ip.flatMap { $0.hasPrefix("127.") || $0 == "::1" ? nil : $0 }
    }
}

/// The places of those who watch.
///
/// Each screen costs an encoding five times a second; so they are bounded. Shares never have all of them, and
/// no visitor keeps the operator out: a viewer of the whole page takes the place of one who has more.
final class Viewers: Sendable {
    /// Screens at a time: a ward's, and some phones.
    static let countMax = 32
    /// The most screens that use a share's link, of all shares together.
    static let sharesMax = 24
    /// The most screens of one share's link, and of one other machine.
    static let perShareMax = 16
    /// The most screens of one holder of the whole page.
    static let perHolderMax = 24

    private struct Seat {
        let viewer: Viewer
        let end: @Sendable () -> Void
    }

    private struct State {
        var next = 0
        var seats: [Int: Seat] = [:]

        func count(_ holds: (Viewer) -> Bool) -> Int { seats.values.count { holds($0.viewer) } }

        /// Whether a viewer is below the bounds of its holder and machine.
        func mayHaveMore(_ viewer: Viewer) -> Bool {
            let own = count { $0.holder == viewer.holder }
            guard viewer.scope != .full else { return own < Viewers.perHolderMax }
            let here = viewer.address.map { address in count { $0.address == address } } ?? 0
            return own < Viewers.perShareMax && here < Viewers.perShareMax
                && count { $0.scope != .full } < Viewers.sharesMax
        }

        /// The place that a viewer of the whole page takes over: the oldest place of the visitor who has the most, if
        /// that is more than this viewer would have.
        func victim(of viewer: Viewer) -> Int? {
            let own = count { $0.holder == viewer.holder }
            let others = Set(seats.values.map(\.viewer.holder)).subtracting([viewer.holder])
            let counts = others.map { holder in (holder, count { $0.holder == holder }) }
            guard let most = counts.max(by: { $0.1 < $1.1 }), most.1 > own + 1 else { return nil }
            return seats.filter { $0.value.viewer.holder == most.0 }.keys.min()
        }
    }

    private let state = Mutex(State())

    /// A place; nil if the viewer has its share of them, or all are taken.
    ///
    /// - Parameter end: called when another viewer gets the place.
    func take(_ viewer: Viewer, end: @escaping @Sendable () -> Void) -> Place? {
        let (place, displaced) = state.withLock { state -> (Place?, (@Sendable () -> Void)?) in
            guard state.mayHaveMore(viewer) else { return (nil, nil) }
            var displaced: (@Sendable () -> Void)?
            if state.seats.count >= Self.countMax {
                guard viewer.scope == .full, let victim = state.victim(of: viewer) else {
                    return (nil, nil)
                }
                displaced = state.seats.removeValue(forKey: victim)?.end
            }
            state.next += 1
            state.seats[state.next] = Seat(viewer: viewer, end: end)
            return (Place(viewers: self, number: state.next), displaced)
        }
        displaced?()
        return place
    }

    /// A viewer's place, while it is held.
    final class Place: Sendable {
        private let viewers: Viewers
        private let number: Int

        fileprivate init(viewers: Viewers, number: Int) {
            self.viewers = viewers
            self.number = number
        }

        deinit { viewers.state.withLock { _ = $0.seats.removeValue(forKey: number) } }
    }
}
