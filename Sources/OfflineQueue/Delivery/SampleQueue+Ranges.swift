import GRDB

/// The oldest pending samples of one segment, in order of arrival, with none missing between them; or
/// some of its samples that were put back from the dead letters.
public struct PendingRange: Sendable, Hashable {
    /// The samples; never empty.
    public let samples: [PendingSample]
    /// Whether it is certain that no sample will ever follow the last one directly: the segment's run
    /// is over, or a damaged row comes next.
    public let isEnded: Bool
    /// Whether more may wait behind it that was not read: as many were as were asked for, or a
    /// damaged row comes next.
    public let isCut: Bool

    /// How long after its end a window is taken for complete, if no later sample says so: twice the longest time that a
    /// sample may wait for its commit.
    public static let grace = Duration.seconds(120)

    /// Samples that follow one another directly.
    public init(samples: [PendingSample], isEnded: Bool, isCut: Bool = false) {
        self.samples = samples
        self.isEnded = isEnded
        self.isCut = isCut
    }
}

extension SampleQueue {
    /// The oldest committed samples of each segment of a delivery that are to be sent, `perSegment` at
    /// most of each; those put back from the dead letters come first, then the segments, oldest
    /// first, until there are `limit` samples.
    ///
    /// Otherwise as ``nextPending(enrollment:limit:of:)``. It is for destinations that make one data point of many
    /// samples: a segment with few samples does not wait behind others with many.
    public func nextRanges(
        enrollment: Int64, perSegment: Int, limit: Int, of patients: PatientFilter = .all
    ) throws(QueueError) -> [PendingRange] {
        try settleUnwritten(enrollment)
        // As in nextPending: each turn settles one damaged row.
        for _ in 0..<Self.batchSamplesMax {
            let found = try read("read ranges") { [nonce = run.nonce] db in
                try Self.ranges(
                    db, enrollment: enrollment, perSegment: max(perSegment, 1), limit: limit,
                    patients, runNonce: nonce)
            }
            guard let damaged = found.damaged else {
                deliveries.lent.lend(found.ranges.flatMap(\.samples), to: enrollment)
                return found.ranges
            }
            try settle(enrollment: enrollment, [damaged], upload: nil)
        }
        return []
    }

    private static func ranges(
        _ db: Database, enrollment: Int64, perSegment: Int, limit: Int,
        _ patients: PatientFilter, runNonce: UInt64
    ) throws -> (ranges: [PendingRange], damaged: SettledSample?) {
        var ranges: [PendingRange] = []
        var count = 0
        func add(_ walk: Walk, isEnded: Bool, isCut: Bool = false) -> SettledSample? {
            guard !walk.samples.isEmpty else { return walk.damaged }
            ranges.append(
                PendingRange(
                    samples: walk.samples, isEnded: isEnded || walk.damaged != nil,
                    isCut: isCut || walk.damaged != nil))
            count += walk.samples.count
            return nil
        }

        var clocks = BootClocks(db)
        let key = try db.storeKey()
        func read(_ rows: RowCursor, of segment: PendingSegment) throws -> Walk {
            var walk = Walk(key: key)
            while walk.damaged == nil, let row = try rows.next() {
                walk.add(SampleRow(row), of: segment, try clocks.of(segment.boot))
            }
            return walk
        }

        for segment in try PendingSegment.putBack(db, enrollment: enrollment, of: patients)
        where count < limit {
            let rows = try segment.books(of: enrollment).putBack(db, limit: perSegment)
            let walk = try read(rows, of: segment)
            let isCut = walk.samples.count >= perSegment
            if let damaged = add(walk, isEnded: !isCut, isCut: isCut) { return ([], damaged) }
            // The others wait behind it, so that what is recorded now does not.
            if isCut || walk.damaged != nil { break }
        }

        let segments = try PendingSegment.all(db, enrollment: enrollment, of: patients)
            .sorted { $0.pending.lowerBound < $1.pending.lowerBound }
        for segment in segments where count < limit {
            let rows = try Row.fetchCursor(
                db.cachedStatement(sql: SampleColumn.rowsOfSegment),
                arguments: [
                    segment.pending.lowerBound &- 1, segment.pending.upperBound, segment.id,
                    perSegment,
                ])
            let walk = try read(rows, of: segment)
            let isCut = walk.samples.count >= perSegment
            let isOver = segment.runNonce != runNonce && !isCut
            if let damaged = add(walk, isEnded: isOver, isCut: isCut) { return ([], damaged) }
        }
        return (ranges, nil)
    }
}
