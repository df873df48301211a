import Foundation
import GRDB

extension SalvageSource {
    /// A segment as its row has it, and as lines of an export have it.
    struct Segment {
        let row: SegmentRow
        let exported: ExportedSegment
    }

    /// A segment of the store; nil if nobody knows whose its samples are. Of two stores in one file nothing but the
    /// sidecar tells which of them has a segment.
    func segment(_ id: Int64) -> Segment? {
        guard hasSidecar || isPure else { return nil }
        return segment(rows["segment"]?[id], id, hasSidecar ? known : rows)
    }

    /// The same of another store, whose file was written over this one's.
    func stranger(_ id: Int64) -> Segment? { segment(rows[Self.strangers]?[id], id, rows) }

    private func segment(
        _ values: Values?, _ id: Int64, _ registry: [String: [Int64: Values]]
    ) -> Segment? {
        guard let row = values.flatMap({ SegmentRow($0) }),
            let exported = exported(row, of: id, registry)
        else { return nil }
        return Segment(row: row, exported: exported)
    }

    private func exported(
        _ segment: SegmentRow, of id: Int64, _ registry: [String: [Int64: Values]]
    ) -> ExportedSegment? {
        func row(_ table: String, _ id: Int64?) -> Values? {
            id.flatMap { registry[table]?[$0] }
        }
        func text(_ row: Values?, _ name: String) -> String? { row?.value(name) }
        guard let run = row("run", segment.run), let nonce = run.number("nonce"),
            SampleIdentity.isNonce(nonce),
            let assignment = row("assignment", segment.assignment),
            let sensor = assignment.number("sensor")
        else { return nil }
        let address = text(row("sensor", sensor), "address") ?? "unknown-\(sensor)"
        let boot = row("boot", run.number("boot"))
        let enrollment = row("enrollment", assignment.number("enrollment"))
        // A destination without records here may not have received it.
        var settled: [Int64: Int64] = [:]
        for row in (registry["further_destination"] ?? [:]).values
        where row.number("assignment") == segment.assignment && text(row, "state") == "active" {
            guard let destination = row.number("destination") else { continue }
            settled[destination] = max(1, row.number("first_sample") ?? 0) - 1
        }
        for row in furtherDeliveries[id] ?? [] {
            guard let destination = row.number("destination") else { continue }
            settled[destination] = row.number("settled_through") ?? 0
        }
        let further = settled.compactMap {
            destination, through -> (id: Int64, delivery: ExportedSegment.Delivery)? in
            guard let name = text(row("enrollment", destination), "name") else { return nil }
            return (
                destination,
                ExportedSegment.Delivery(
                    name: name, settledThrough: through, isHeld: false,
                    dropped: dropped(id, destination))
            )
        }
        return ExportedSegment(
            own: ExportedSegment.Delivery(
                name: text(enrollment, "name"), settledThrough: segment.settledThrough,
                isHeld: enrollment == nil, dropped: dropped(id, 0)),
            further: further.sorted { $0.id < $1.id }, identityShift: segment.identityShift,
            assignmentID: segment.assignment, nonce: UInt64(bitPattern: nonce),
            bootID: text(boot, "boot_id") ?? "unknown",
            wallOffset: segment.wallOffset ?? offset(of: boot),
            sensor: address, patient: text(assignment, "patient") ?? text(enrollment, "patient"))
    }

    /// Of a boot whose clock jumped to another date the samples without an offset have no time.
    private func offset(of boot: Values?) -> WallOffset? {
        guard let boot, boot.number("jumped_after_us") == nil else { return nil }
        return boot.value("wall_offset_us")
    }

    /// The samples of a segment that a destination does not get, in order.
    private func dropped(_ segment: Int64, _ destination: Int64) -> [ClosedRange<Int64>] {
        (droppedRanges[segment] ?? []).compactMap { row in
            guard row.number("destination") == destination,
                let first = row.number("first_sample"), let last = row.number("last_sample"),
                first <= last
            else { return nil }
            return first...last
        }.sorted { $0.lowerBound < $1.lowerBound }
    }
}
