"""The same work with Python's sqlite3, litequeue and persist-queue: microseconds a sample."""
import os
import sqlite3
import sys
import time

directory, count = sys.argv[1], int(sys.argv[2])
frame = bytes([0x10, 72, 0x40, 0x03])


def report(name, append, settle):
    for kind, work in (("append", append), ("settle", settle)):
        start = time.perf_counter()
        work()
        print(f"{name}_{kind}_us {(time.perf_counter() - start) / count * 1e6}")


def with_sqlite3(name, group):
    db = sqlite3.connect(os.path.join(directory, name + ".sqlite"), isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, sensor, time, frame, sent DEFAULT 0)")

    def append():
        for first in range(0, count, group):
            db.execute("BEGIN")
            for n in range(first, min(first + group, count)):
                db.execute("INSERT INTO sample (sensor, time, frame) VALUES (?, ?, ?)", (n % 8, n, frame))
            db.execute("COMMIT")

    def settle():
        while True:
            ids = [r[0] for r in db.execute("SELECT id FROM sample WHERE sent = 0 ORDER BY id LIMIT ?", (group,))]
            if not ids:
                return
            db.execute("BEGIN")
            db.executemany("UPDATE sample SET sent = 1 WHERE id = ?", [(i,) for i in ids])
            db.execute("COMMIT")

    # Without an index each search for what is not sent begins at the first row.
    db.execute("CREATE INDEX waiting ON sample (id) WHERE sent = 0")
    report(name, append, settle)


def with_litequeue():
    from litequeue import LiteQueue

    queue = LiteQueue(os.path.join(directory, "litequeue.sqlite"))

    def append():
        for _ in range(count):
            queue.put(frame.hex())

    def settle():
        while (message := queue.pop()) is not None:
            queue.done(message.message_id)

    report("litequeue", append, settle)


def with_persist_queue():
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(os.path.join(directory, "persist"), auto_commit=True)

    def append():
        for _ in range(count):
            queue.put(frame)

    def settle():
        for _ in range(count):
            queue.ack(queue.get())

    report("persist_queue", append, settle)


with_sqlite3("sqlite3_row", 1)
with_sqlite3("sqlite3_group", 50)
with_litequeue()
with_persist_queue()
