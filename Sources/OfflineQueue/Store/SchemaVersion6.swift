extension Schema {
    /// Several destinations for one sample.
    ///
    /// An assignment's own destination is its enrollment, and its books are the columns of `segment`.
    /// `further_destination` names the others, with the first sample that goes there; `further_delivery` has
    /// their books and `further_dead_letter` what they refused. `before`: the segment's samples that were
    /// gone when the destination was added. `loss.destination`: 0 for the own destination, and for frames
    /// that were never stored. `enrollment.keep_us`: how long samples wait for it as a further destination;
    /// `takes_every_strap`: it is one of every assignment that begins; `system` and `settings`: of what kind
    /// it is and what a person set, for what is not an exchange. `ledger_delivery`: the begin of the last gap,
    /// and the last day, that a destination has been told of; no row: nothing yet.
    ///
    /// The books of the own destination stay in `segment`: the rows of a broken store are found by their
    /// shape in its pages, also those of an older version, so that the shape of a table may only grow at its
    /// end. The new tables have shapes like no other's (``TableShape/fits(_:)``).
    static let version6 = """
        ALTER TABLE enrollment ADD COLUMN keep_us INTEGER;
        ALTER TABLE enrollment ADD COLUMN takes_every_strap INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE enrollment ADD COLUMN system TEXT;
        ALTER TABLE enrollment ADD COLUMN settings TEXT;

        CREATE TABLE further_destination (
            id INTEGER PRIMARY KEY,
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            destination INTEGER NOT NULL REFERENCES enrollment(id),
            first_sample INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('active', 'removed')),
            UNIQUE (assignment, destination)
        ) STRICT;

        CREATE TABLE further_delivery (
            id INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            destination INTEGER NOT NULL REFERENCES enrollment(id),
            settled_through INTEGER NOT NULL,
            before INTEGER NOT NULL,
            delivered INTEGER NOT NULL,
            dead INTEGER NOT NULL,
            dropped INTEGER NOT NULL,
            UNIQUE (segment, destination),
            CHECK (min(settled_through, before, delivered, dead, dropped) >= 0)
        ) STRICT;
        CREATE INDEX further_delivery_destination ON further_delivery(destination);
        CREATE TRIGGER further_delivery_keeps_books AFTER UPDATE ON further_delivery
        WHEN EXISTS (SELECT 1 FROM segment s WHERE s.id = new.segment
            AND (new.settled_through > s.last_sample OR new.settled_through < s.pruned_through
                OR s.stored < new.before + new.delivered + new.dead + new.dropped))
        BEGIN SELECT RAISE(ABORT, 'the books of a further delivery do not balance'); END;
        CREATE TRIGGER segment_keeps_what_waits BEFORE UPDATE OF pruned_through, pruned ON segment
        WHEN EXISTS (SELECT 1 FROM further_delivery d WHERE d.segment = new.id
            AND (d.settled_through < new.pruned_through
                OR d.before + d.delivered + d.dropped < new.pruned))
        BEGIN SELECT RAISE(ABORT, 'a sample waits for a further destination'); END;

        CREATE TABLE further_dead_letter (
            id INTEGER PRIMARY KEY,
            sample INTEGER NOT NULL,
            destination INTEGER NOT NULL REFERENCES enrollment(id),
            segment INTEGER NOT NULL REFERENCES segment(id),
            reason TEXT NOT NULL,
            diagnostics TEXT NOT NULL,
            died_wall_us INTEGER,
            is_requeued INTEGER NOT NULL DEFAULT 0,
            sent_as TEXT,
            UNIQUE (sample, destination)
        ) STRICT;
        CREATE INDEX further_dead_letter_sent_as ON further_dead_letter(sent_as)
            WHERE sent_as IS NOT NULL;

        CREATE TABLE ledger_delivery (
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            destination INTEGER NOT NULL REFERENCES enrollment(id),
            gap_boot INTEGER NOT NULL,
            gap_uptime_us INTEGER NOT NULL,
            day INTEGER NOT NULL,
            PRIMARY KEY (assignment, destination)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE loss_by_destination (
            segment INTEGER NOT NULL REFERENCES segment(id),
            destination INTEGER NOT NULL DEFAULT 0,
            kind TEXT NOT NULL CHECK (kind IN ('refused', 'dropped')),
            reason TEXT NOT NULL,
            count INTEGER NOT NULL CHECK (count >= 0),
            PRIMARY KEY (segment, destination, kind, reason)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO loss_by_destination (segment, kind, reason, count)
            SELECT segment, kind, reason, count FROM loss;
        DROP TABLE loss;
        ALTER TABLE loss_by_destination RENAME TO loss;
        """
}
