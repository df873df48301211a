import GRDB

/// The tables, and every step that ever changed them.
///
/// Steps are only ever added. A store that has a step this program does not know is refused.
enum Schema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try step($0, version1) }
        migrator.registerMigration("v2") { try step($0, version2) }
        migrator.registerMigration("v3") { try step($0, version3) }
        migrator.registerMigration("v4") { try step($0, version4) }
        migrator.registerMigration("v5") { try step($0, version5) }
        migrator.registerMigration("v6") { try step($0, version6) }
        migrator.registerMigration("v7") { try step($0, version7) }
        migrator.registerMigration("v8") { try step($0, version8) }
        migrator.registerMigration("v9") { try step($0, version9) }
        return migrator
    }

    private static func step(_ db: Database, _ sql: String) throws {
        try db.execute(sql: sql)
        FaultPoint.migrate.reach()
    }

    // The checks are the second half of the assertions in the code: a transaction that would break
    // the books is undone by SQLite itself.
    private static let version1 = """
        CREATE TABLE boot (
            id INTEGER PRIMARY KEY,
            boot_id TEXT NOT NULL UNIQUE,
            wall_offset_us INTEGER,
            offset_source TEXT,
            CHECK ((wall_offset_us IS NULL) = (offset_source IS NULL))
        ) STRICT;

        CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boot(id),
            nonce INTEGER NOT NULL UNIQUE,
            started_uptime_us INTEGER NOT NULL,
            started_wall_us INTEGER,
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
            paired_wall_us INTEGER,
            is_forgotten INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE enrollment (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            origin TEXT NOT NULL,
            fhir_base TEXT NOT NULL,
            client_id TEXT,
            patient TEXT,
            device TEXT,
            code_system TEXT,
            code TEXT,
            identifier_system TEXT NOT NULL,
            resolution TEXT NOT NULL,
            state TEXT NOT NULL,
            created_wall_us INTEGER,
            hold_reason TEXT,
            hold_since_wall_us INTEGER
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
            CHECK ((ended_boot IS NULL) = (ended_uptime_us IS NULL))
        ) STRICT;
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

        CREATE TABLE segment (
            id INTEGER PRIMARY KEY,
            assignment INTEGER NOT NULL REFERENCES assignment(id),
            run INTEGER NOT NULL REFERENCES run(id),
            first_sample INTEGER NOT NULL,
            last_sample INTEGER NOT NULL,
            settled_through INTEGER NOT NULL,
            pruned_through INTEGER NOT NULL,
            first_uptime_us INTEGER NOT NULL,
            last_uptime_us INTEGER NOT NULL,
            received INTEGER NOT NULL DEFAULT 0,
            stored INTEGER NOT NULL DEFAULT 0,
            undecodable INTEGER NOT NULL DEFAULT 0,
            refused INTEGER NOT NULL DEFAULT 0,
            delivered INTEGER NOT NULL DEFAULT 0,
            dead INTEGER NOT NULL DEFAULT 0,
            dropped INTEGER NOT NULL DEFAULT 0,
            pruned INTEGER NOT NULL DEFAULT 0,
            CHECK (first_sample - 1 <= pruned_through),
            CHECK (pruned_through <= settled_through AND settled_through <= last_sample),
            CHECK (received = stored + undecodable + refused),
            CHECK (stored >= delivered + dead + dropped AND pruned <= delivered + dropped),
            CHECK (min(received, stored, undecodable, refused, delivered, dead, dropped) >= 0)
        ) STRICT;

        CREATE TABLE sample (
            id INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            uptime_us INTEGER NOT NULL,
            wall_us INTEGER,
            flags INTEGER NOT NULL,
            crc INTEGER NOT NULL,
            frame BLOB NOT NULL
        ) STRICT;

        CREATE TABLE undecodable (
            id INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            uptime_us INTEGER NOT NULL,
            wall_us INTEGER,
            fault TEXT NOT NULL,
            frame BLOB NOT NULL
        ) STRICT;

        CREATE TABLE dead_letter (
            sample INTEGER PRIMARY KEY,
            segment INTEGER NOT NULL REFERENCES segment(id),
            reason TEXT NOT NULL,
            diagnostics TEXT NOT NULL,
            died_wall_us INTEGER,
            is_requeued INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX dead_letter_requeued ON dead_letter(sample) WHERE is_requeued = 1;

        CREATE TABLE loss (
            segment INTEGER NOT NULL REFERENCES segment(id),
            kind TEXT NOT NULL CHECK (kind IN ('refused', 'dropped')),
            reason TEXT NOT NULL,
            count INTEGER NOT NULL CHECK (count >= 0),
            PRIMARY KEY (segment, kind, reason)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE request (
            enrollment INTEGER PRIMARY KEY REFERENCES enrollment(id),
            boot INTEGER NOT NULL REFERENCES boot(id),
            sent_uptime_us INTEGER NOT NULL
        ) STRICT;

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

    // Gaps. A gap ends in another boot than it began in when the gateway was off meanwhile.
    private static let version2 = """
        ALTER TABLE segment ADD COLUMN last_sample_uptime_us INTEGER;
        ALTER TABLE run ADD COLUMN alive_uptime_us INTEGER;

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
        """
}
