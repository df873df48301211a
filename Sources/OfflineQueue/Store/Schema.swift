import GRDB

/// The tables of a store.
///
/// Until the first release `v1` is edited in place, and its golden store is made anew; afterwards steps are only ever
/// added.
enum Schema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            let parts = [registry, samples, deliveries, furtherDestinations, gaps, findings]
            for part in parts + [changeCount] {
                try db.execute(sql: part)
                FaultPoint.migrate.reach()
            }
            try stamp(db, after: "v1")
        }
        return migrator
    }

    // The checks are the second half of the assertions in the code: a transaction that would break
    // the books is undone by SQLite itself.
    //
    // Salvage finds the rows of tables with a row number by their shape in the pages of a broken store: no two such
    // tables may have the same (`TableShape.fits`). A table that must not be taken for another one has no row number.

    /// Boots and runs; sensors, enrollments and assignments; what was erased.
    ///
    /// - `boot`: what its trusted clock readings come to (``BootClock``). `wall_offset_us`: how far UTC was ahead of
    ///   the uptime at the newest one. `trusted_from_us`, `trusted_until_us`: uptimes of the first and the newest one.
    ///   `jumped_after_us`: the clock then jumped to another date, and what came later has no time.
    /// - `clock_step`: two trusted readings that disagree, the newest 1,000 of all boots.
    /// - `run.is_imported`: its samples came from another store.
    /// - `assignment.is_imported`: its samples came from a file. Only the store that recorded them knows their gaps.
    /// - `enrollment.patient_fingerprints`: which person each number at the exchange means, as a JSON object.
    ///   `.device_is_chosen`: by a person.
    /// - `enrollment.system`, `.settings`: of what kind it is and what a person set, for what is no exchange.
    ///   `.takes_every_strap`: it is a further destination of every assignment that begins. `.keep_us`: how long samples
    ///   wait for it as a further destination.
    /// - `board`: hashes of what the hardware carries that the store belongs to.
    /// - `erased_number`: enrollments and assignments that were erased. Older states of pages, in the log or in a broken
    ///   store, may still name them, and a salvage that finds such a row must neither keep it nor take it for
    ///   somebody else's.
    /// - `erased_until`: the highest numbers at an erasure, or of the store before this one; new ones are higher. Pages
    ///   that an earlier pruning freed keep rows of the erased, and under numbers that are given again a salvage would
    ///   take those rows for somebody else's.
    private static let registry = """
        CREATE TABLE boot (
            id INTEGER PRIMARY KEY,
            boot_id TEXT NOT NULL UNIQUE,
            wall_offset_us INTEGER,
            offset_source TEXT,
            trusted_from_us INTEGER,
            trusted_until_us INTEGER,
            clock_error_us INTEGER,
            jumped_after_us INTEGER,
            CHECK ((wall_offset_us IS NULL) = (offset_source IS NULL))
        ) STRICT;

        CREATE TABLE clock_step (
            boot INTEGER NOT NULL REFERENCES boot(id),
            at_uptime_us INTEGER NOT NULL,
            after_uptime_us INTEGER NOT NULL,
            before_us INTEGER NOT NULL,
            offset_us INTEGER NOT NULL,
            PRIMARY KEY (boot, at_uptime_us)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boot(id),
            nonce INTEGER NOT NULL UNIQUE,
            is_imported INTEGER NOT NULL DEFAULT 0,
            started_uptime_us INTEGER NOT NULL,
            started_wall_us INTEGER,
            alive_uptime_us INTEGER,
            ended_uptime_us INTEGER
        ) STRICT;

        CREATE TABLE sensor (
            id INTEGER PRIMARY KEY,
            address TEXT NOT NULL UNIQUE,
            name TEXT,
            adapter TEXT,
            body_location INTEGER,
            manufacturer TEXT,
            model TEXT,
            firmware TEXT,
            serial TEXT,
            is_forgotten INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE enrollment (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            system TEXT,
            settings TEXT,
            origin TEXT NOT NULL,
            fhir_base TEXT NOT NULL,
            client_id TEXT,
            patient TEXT,
            patient_fingerprints TEXT,
            device TEXT,
            device_is_chosen INTEGER NOT NULL DEFAULT 0,
            code_system TEXT,
            code TEXT,
            identifier_system TEXT NOT NULL,
            resolution TEXT NOT NULL,
            takes_every_strap INTEGER NOT NULL DEFAULT 0,
            keep_us INTEGER,
            state TEXT NOT NULL,
            hold_reason TEXT
        ) STRICT;

        CREATE TABLE assignment (
            id INTEGER PRIMARY KEY,
            sensor INTEGER NOT NULL REFERENCES sensor(id),
            enrollment INTEGER REFERENCES enrollment(id),
            patient TEXT,
            began_boot INTEGER NOT NULL REFERENCES boot(id),
            began_uptime_us INTEGER NOT NULL,
            began_wall_us INTEGER,
            ended_boot INTEGER REFERENCES boot(id),
            ended_uptime_us INTEGER,
            ended_wall_us INTEGER,
            is_imported INTEGER NOT NULL DEFAULT 0 CHECK (is_imported IN (0, 1)),
            CHECK ((ended_boot IS NULL) = (ended_uptime_us IS NULL))
        ) STRICT;
        CREATE INDEX assignment_sensor ON assignment(sensor);
        CREATE UNIQUE INDEX assignment_open ON assignment(sensor) WHERE ended_boot IS NULL;
        CREATE TRIGGER assignment_is_never_edited BEFORE UPDATE ON assignment
        WHEN old.sensor IS NOT new.sensor
            OR (old.enrollment IS NOT NULL AND old.enrollment IS NOT new.enrollment)
            OR (old.enrollment IS NOT NULL AND old.patient IS NOT new.patient)
            OR (old.patient IS NOT NULL AND old.patient IS NOT new.patient)
            OR old.began_boot IS NOT new.began_boot
            OR old.began_uptime_us IS NOT new.began_uptime_us
            OR old.began_wall_us IS NOT new.began_wall_us
            OR (old.ended_boot IS NOT NULL AND old.ended_boot IS NOT new.ended_boot)
            OR (old.ended_boot IS NOT NULL AND old.ended_uptime_us IS NOT new.ended_uptime_us)
        BEGIN SELECT RAISE(ABORT, 'an assignment is never edited, only ended'); END;
        CREATE TRIGGER assignment_is_never_deleted BEFORE DELETE ON assignment
        BEGIN SELECT RAISE(ABORT, 'an assignment is never deleted'); END;

        CREATE TABLE board (
            trait TEXT NOT NULL PRIMARY KEY
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE erased_number (
            kind TEXT NOT NULL CHECK (kind IN ('enrollment', 'assignment')),
            number INTEGER NOT NULL,
            PRIMARY KEY (kind, number)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE erased_until (
            kind TEXT NOT NULL PRIMARY KEY
                CHECK (kind IN ('segment', 'sample', 'enrollment', 'assignment')),
            number INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    /// Segments with their books, samples, and frames that are not kept as samples.
    ///
    /// - `segment.identity_shift`: a sample from another store has another number here than there. Its identity is made
    ///   of `id - identity_shift` and the nonce of its own run.
    /// - `segment.wall_offset_us`: how far UTC was ahead of the uptime, for all its samples; NULL: not known yet. Once
    ///   set it stays, so that a sample has the same time in every attempt to deliver it.
    /// - `sample.time_uncertainty_ms`: how far its time may be wrong, as far as that was known when it arrived.
    /// - `segment.last_sample_uptime_us`: of the last decodable frame; NULL: there is none.
    /// - `segment.doubled`: frames that arrived once more because other programs listen to the strap as well. They are
    ///   not among `received`, which counts the frames that are in the store or were refused.
    /// - `loss.destination`: 0 for the assignment's own destination, and for frames that were never stored.
    /// - `dropped_range`: which samples of a segment, between these two, a destination does not get, and why; gone
    ///   with the last of their rows. `destination` as in `loss`.
    /// - `loss.acknowledged`: how many of them a person has seen.
    /// - `imported`: the numbers that were taken over of an imported run, for ever: that is what makes a second import
    ///   add nothing.
    /// - `erased_range`: the numbers between which a run gave a sensor those of an erased patient, for the same reason.
    private static let samples = """
        CREATE TABLE segment (
            id INTEGER PRIMARY KEY,
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            run INTEGER NOT NULL REFERENCES run(id),
            identity_shift INTEGER NOT NULL DEFAULT 0,
            wall_offset_us INTEGER,
            first_sample INTEGER NOT NULL,
            last_sample INTEGER NOT NULL,
            settled_through INTEGER NOT NULL,
            pruned_through INTEGER NOT NULL,
            first_uptime_us INTEGER NOT NULL,
            last_uptime_us INTEGER NOT NULL,
            last_sample_uptime_us INTEGER,
            received INTEGER NOT NULL DEFAULT 0,
            stored INTEGER NOT NULL DEFAULT 0,
            undecodable INTEGER NOT NULL DEFAULT 0,
            refused INTEGER NOT NULL DEFAULT 0,
            doubled INTEGER NOT NULL DEFAULT 0,
            delivered INTEGER NOT NULL DEFAULT 0,
            dead INTEGER NOT NULL DEFAULT 0,
            dropped INTEGER NOT NULL DEFAULT 0,
            pruned INTEGER NOT NULL DEFAULT 0,
            undecodable_pruned INTEGER NOT NULL DEFAULT 0,
            CHECK (first_sample - 1 <= pruned_through),
            CHECK (pruned_through <= settled_through AND settled_through <= last_sample),
            CHECK (received = stored + undecodable + refused),
            CHECK (stored >= delivered + dead + dropped AND pruned <= delivered + dropped),
            CHECK (min(received, stored, undecodable, refused, delivered, dead, dropped) >= 0),
            CHECK (doubled >= 0)
        ) STRICT;

        CREATE INDEX segment_assignment ON segment(assignment);

        CREATE TABLE sample (
            id INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            uptime_us INTEGER NOT NULL,
            time_uncertainty_ms INTEGER,
            flags INTEGER NOT NULL,
            crc INTEGER NOT NULL,
            frame BLOB NOT NULL
        ) STRICT;

        CREATE TABLE undecodable (
            id INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            uptime_us INTEGER NOT NULL,
            fault TEXT NOT NULL,
            frame BLOB NOT NULL
        ) STRICT;

        CREATE TABLE loss (
            segment INTEGER NOT NULL REFERENCES segment(id),
            destination INTEGER NOT NULL DEFAULT 0,
            kind TEXT NOT NULL CHECK (kind IN ('refused', 'dropped')),
            reason TEXT NOT NULL,
            count INTEGER NOT NULL,
            acknowledged INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (segment, destination, kind, reason),
            CHECK (acknowledged BETWEEN 0 AND count)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE dropped_range (
            segment INTEGER NOT NULL REFERENCES segment(id),
            destination INTEGER NOT NULL DEFAULT 0,
            first_sample INTEGER NOT NULL,
            last_sample INTEGER NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (segment, destination, first_sample),
            CHECK (first_sample <= last_sample)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE imported (
            run INTEGER NOT NULL REFERENCES run(id),
            first_number INTEGER NOT NULL,
            last_number INTEGER NOT NULL,
            PRIMARY KEY (run, first_number),
            CHECK (first_number <= last_number)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE erased_range (
            run INTEGER NOT NULL REFERENCES run(id),
            sensor INTEGER NOT NULL REFERENCES sensor(id),
            first_number INTEGER NOT NULL,
            last_number INTEGER NOT NULL,
            PRIMARY KEY (run, sensor, first_number),
            CHECK (first_number <= last_number)
        ) STRICT, WITHOUT ROWID;
        """

    /// Deliveries to the assignments' own destinations, whose books are columns of `segment`.
    ///
    /// `dead_letter.sent_as`: the identity of the data point that the destination refused, which may be the average of a
    /// window or an RR interval; all samples of that data point have the same one. NULL: the sample was never sent;
    /// then it is its own.
    private static let deliveries = """
        CREATE TABLE dead_letter (
            sample INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            reason TEXT NOT NULL,
            diagnostics TEXT NOT NULL,
            died_wall_us INTEGER,
            is_requeued INTEGER NOT NULL DEFAULT 0,
            sent_as TEXT
        ) STRICT;
        CREATE INDEX dead_letter_requeued ON dead_letter(sample) WHERE is_requeued = 1;
        CREATE INDEX dead_letter_requeued_segment ON dead_letter(segment, sample)
            WHERE is_requeued = 1;
        CREATE INDEX dead_letter_sent_as ON dead_letter(sent_as) WHERE sent_as IS NOT NULL;

        CREATE TABLE request (
            enrollment INTEGER NOT NULL PRIMARY KEY REFERENCES enrollment(id)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE upload (
            id INTEGER PRIMARY KEY,
            enrollment INTEGER NOT NULL REFERENCES enrollment(id),
            at_wall_us INTEGER,
            first_sample INTEGER,
            last_sample INTEGER,
            first_time_us INTEGER,
            last_time_us INTEGER,
            count INTEGER NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT;
        """

    /// Further destinations of the samples of an assignment.
    ///
    /// - `further_destination`: what else gets its samples, from `first_sample` on. `added_wall_us`: samples wait for it
    ///   from then on, not from before it was there; NULL: it was there when the assignment began.
    /// - `further_delivery`: its books, a row a segment. `before`: the segment's samples that were gone when the
    ///   destination was added.
    /// - `ledger_delivery`: the begin of the last gap, and the last day, that the destination has been told of; no row:
    ///   nothing yet.
    private static let furtherDestinations = """
        CREATE TABLE further_destination (
            id INTEGER PRIMARY KEY,
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            destination INTEGER NOT NULL REFERENCES enrollment(id),
            first_sample INTEGER NOT NULL,
            added_wall_us INTEGER,
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
        CREATE INDEX further_dead_letter_requeued ON further_dead_letter(sample)
            WHERE is_requeued = 1;
        CREATE INDEX further_dead_letter_requeued_segment
            ON further_dead_letter(destination, segment, sample) WHERE is_requeued = 1;
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
        """

    /// Gaps. One that began in another boot than it ended in: the gateway was off meanwhile.
    private static let gaps = """
        CREATE TABLE gap (
            id INTEGER PRIMARY KEY,
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            cause TEXT NOT NULL,
            from_boot INTEGER NOT NULL REFERENCES boot(id),
            from_uptime_us INTEGER NOT NULL,
            until_boot INTEGER REFERENCES boot(id),
            until_uptime_us INTEGER,
            CHECK ((until_boot IS NULL) = (until_uptime_us IS NULL)),
            CHECK (until_boot IS NOT from_boot OR from_uptime_us < until_uptime_us)
        ) STRICT;
        CREATE INDEX gap_assignment ON gap(assignment);
        CREATE UNIQUE INDEX gap_open ON gap(assignment) WHERE until_boot IS NULL;
        CREATE INDEX gap_end ON gap(until_boot, until_uptime_us);
        CREATE INDEX gap_between_boots ON gap(assignment) WHERE from_boot <> until_boot;
        """

    /// The facts about the store itself that a person has to see.
    ///
    /// - `salvage`: a broken store. `stored`: the samples that it had at `stored_wall_us`, when the
    ///   highest number was `stored_through`; NULL: nobody knows. `is_exact`: it got none afterwards.
    ///   `is_done`: all that can be read of it is here, or `fault` says why it is not.
    /// - `damaged_row`: samples whose row fails its checksum.
    /// - `missing_store`: when the files of a store that had been here were gone.
    /// - `walk`: the last sample whose checksum was looked at.
    private static let findings = """
        CREATE TABLE salvage (
            id INTEGER PRIMARY KEY,
            at_wall_us INTEGER NOT NULL,
            broken_file TEXT NOT NULL UNIQUE,
            cause TEXT NOT NULL,
            stored INTEGER,
            stored_through INTEGER,
            stored_wall_us INTEGER,
            is_exact INTEGER NOT NULL DEFAULT 0,
            carried INTEGER NOT NULL DEFAULT 0,
            damaged INTEGER NOT NULL DEFAULT 0,
            orphaned INTEGER NOT NULL DEFAULT 0,
            is_done INTEGER NOT NULL DEFAULT 0,
            fault TEXT,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE damaged_row (
            sample INTEGER NOT NULL PRIMARY KEY,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE missing_store (
            at_wall_us INTEGER NOT NULL PRIMARY KEY,
            detail TEXT NOT NULL,
            is_carried INTEGER NOT NULL,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE walk (
            id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
            through INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    /// Counts the changes of what the sidecar holds, and holds its seal (``Sidecar``); NULL: it has none yet.
    private static var changeCount: String {
        let triggers = [
            ("boot", ["INSERT", "UPDATE"]), ("run", ["INSERT"]), ("board", ["INSERT", "DELETE"]),
            ("sensor", ["INSERT", "UPDATE", "DELETE"]),
            ("enrollment", ["INSERT", "UPDATE", "DELETE"]),
            ("assignment", ["INSERT", "UPDATE", "DELETE"]),
            ("further_destination", ["INSERT", "UPDATE", "DELETE"]),
            ("ledger_delivery", ["INSERT", "UPDATE", "DELETE"]), ("erased_number", ["INSERT"]),
            ("salvage", ["INSERT", "UPDATE", "DELETE"]),
        ].flatMap { table, changes in
            changes.map { change in
                """
                CREATE TRIGGER \(table)_counts_\(change) AFTER \(change) ON \(table)
                BEGIN UPDATE registry_change SET number = number + 1; END;
                """
            }
        }
        return """
            CREATE TABLE registry_change (
                id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
                number INTEGER NOT NULL,
                seal INTEGER
            ) STRICT, WITHOUT ROWID;
            INSERT INTO registry_change VALUES (1, 0, NULL);
            """ + triggers.joined(separator: "\n")
    }
}
