import BlueZ
import Foundation
import Logging
import OfflineQueue
import Uplink

/// The identity that this machine's hardware carries and a copy of its disk does not: the serial number and the network
/// cards' addresses. A Bluetooth adapter may be moved to the copy. All of it is hashed before anything is kept.
struct BoardTraits: Sendable {
    /// The first is there on every start, as far as one can tell.
    let hashes: [String]

    /// The hash that people and fleets see of it; nil if the hardware carries nothing.
    var id: String? { hashes.first.map { String($0.prefix(8)) } }
}

extension BoardTraits {
    /// Makers leave words ("to be filled by o.e.m."), zeros and one UUID where a number should be.
    private static func isOfOneBoard(_ text: String) -> Bool {
        let digits = text.filter { $0 != ":" && $0 != "-" }
        return digits.count >= 6 && !text.contains(" ") && digits.contains { $0 != "0" }
            && text != "03000200-0400-0500-0006-000700080009"
    }

    init(tree: SystemTree = SystemTree()) {
        let serials = [
            "/sys/firmware/devicetree/base/serial-number", "/sys/class/dmi/id/product_uuid",
            "/sys/class/dmi/id/board_serial",
        ].compactMap { tree.text($0) }
        let cards = tree.names("/sys/class/net").map { "/sys/class/net/" + $0 }
            // Burnt in, not made up by a driver, a bridge or a container.
            .filter { tree.text($0 + "/addr_assign_type") == "0" && tree.exists($0 + "/device") }
            .compactMap { tree.text($0 + "/address") }
        hashes = (serials + cards.sorted())
            .map { $0.trimmingCharacters(in: .controlCharacters).lowercased() }
            .filter(Self.isOfOneBoard)
            .map { Digests.fingerprint("board\n" + $0) }
    }
}

/// Notices that the store is on other hardware than before, as after a memory card was copied or moved.
///
/// Until a person has confirmed the new board, nothing is published under the gateway's name: the first gateway may
/// still do that. Recording goes on, and so do deliveries to exchanges, where the samples' identities tell them apart.
actor BoardWatch {
    private let queue: SampleQueue
    private let traits: @Sendable () -> BoardTraits
    private let logger: Logger
    /// Whether the store was on another board, and nobody has confirmed this one.
    private(set) var isOther = false
    private var isKnown = false

    init(
        queue: SampleQueue, logger: Logger,
        traits: @escaping @Sendable () -> BoardTraits = { BoardTraits() }
    ) {
        self.queue = queue
        self.traits = traits
        self.logger = logger
    }

    /// Looks once a start, as soon as the store can be read.
    func look() async {
        guard !isKnown else { return }
        do {
            let now = Set(traits().hashes)
            let known = try await queue.board()
            if let known, known.traits.isDisjoint(with: now) {
                // Without a trait nothing can be told.
                isOther = !now.isEmpty
                if isOther { logger.warning("the store is on another board than before") }
            } else if !now.isEmpty, known?.traits != now {
                try await queue.setBoard(KnownBoard(traits: now))
            }
            isKnown = true
        } catch {
            logger.error("look at the board: \(error)")
        }
    }

    /// A person says that the gateway is on this board now.
    func confirm() async throws {
        try await queue.setBoard(KnownBoard(traits: Set(traits().hashes)))
        isOther = false
        isKnown = true
        logger.notice("a person confirmed the board")
    }
}
