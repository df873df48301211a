"""Makes figures of the values on standard input."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import TIMING_NOISE, figure, read_values, write

# Bytes written a sample: by the store, and with what ext4's journal adds and the log is filled with at the start.
BYTES_MAX = 230
DEVICE_BYTES_MAX = 300
# What a further destination may add to the bytes written for a sample that is recorded and delivered to one.
FURTHER_PART_MAX = 0.1
# A store with a long backlog, in milliseconds.
OPEN_MAX = 1000
NEXT_BATCH_MAX = 10
# Samples that a call brings, as from the radio, beside rows that a commit of sqlite3's has.
TOGETHER_TIMES_MAX = 1.5
# Memory with a long backlog beside memory with a short one.
MEMORY_TIMES_MAX = 1.2

# A row a transaction each, as safe as ours; then those that are beside it only to be seen: less is kept, or less
# safely.
SAFE = {"naive": "GRDB, row by row", "sqlite3_row": "sqlite3, by row", "persist_queue": "persist-queue"}
OTHERS = {"sqlite3_group": "sqlite3, by 50", "litequeue": "litequeue, NORMAL"}

values = read_values()


def beside(work):
    """What a peer takes for the work, by its name; and the fastest of those as safe as ours."""
    theirs = {
        name: values[f"{key}_{work}_us"]
        for key, name in (SAFE | OTHERS).items() if f"{key}_{work}_us" in values
    }
    limit = min(value for name, value in theirs.items() if name in SAFE.values())
    return limit, theirs


def timed(name, work):
    limit, theirs = beside(work)
    return figure(
        name, "≤ as safe", values[f"{work}_us"], limit, "µs", theirs, TIMING_NOISE)


rows = f"{values['backlog_rows']:,.0f} rows"
group = values.get("sqlite3_group_append_us")
figures = [
    figure(
        "bytes a sample, 8 at 1 Hz", f"≤ {BYTES_MAX}", values["bytes_per_sample"], BYTES_MAX, "B",
        {"GRDB, row by row": values["naive_bytes"]}),
    figure(
        "more for each further destination", "≤ 10 %",
        (values["delivered_bytes_4"] - values["delivered_bytes_0"]) / 4,
        values["delivered_bytes_0"] * FURTHER_PART_MAX, "B",
        {"delivered to one": values["delivered_bytes_0"]}),
    timed("append a sample", "append"),
    figure(
        "the same, 36 to a call", f"≤ {TOGETHER_TIMES_MAX}×", values["append_together_us"],
        group and group * TOGETHER_TIMES_MAX, "µs", {OTHERS["sqlite3_group"]: group} if group else {},
        TIMING_NOISE),
    timed("settle a sample", "settle"),
    figure(f"open a store of {rows}", "≤ 1 s", values["open_ms"], OPEN_MAX, "ms"),
    figure(f"its next batch of 100", "≤ 10 ms", values["next_batch_ms"], NEXT_BATCH_MAX, "ms"),
    figure(
        "its memory, resident", "≤ 1.2×", values["resident_kib"] / 1024,
        values["small_resident_kib"] / 1024 * MEMORY_TIMES_MAX, "MiB",
        {f"{values['small_backlog_rows']:,.0f} rows": values["small_resident_kib"] / 1024}),
]
if "device_bytes" in values:
    figures.insert(1, figure(
        "the same at the device, journal", f"≤ {DEVICE_BYTES_MAX}", values["device_bytes"],
        DEVICE_BYTES_MAX, "B"))
write("queue", figures)
