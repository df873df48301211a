"""Makes figures of the values on standard input."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import figure, read_values, write

MEGABYTE = 1e6

# 32 MB of it are Foundation's tables of every language. A dependency that brings more is to be noticed when it comes.
PROGRAM_MAX = 85
# A Raspberry Pi at the end of a mobile connection fetches it for each upgrade.
PACKAGE_MAX = 22
# What a start allocates stays.
IDLE_MAX = 9
# Memory that is lost minute by minute shows early.
RECORDING_MAX = 12
# A person waits for it.
STRAPS_STATUS_MAX = 1
# Some of its own, 64 for all HTTP servers, four for all files, and Swift's pool.
DESTINATIONS_THREADS_MAX = 96
DESTINATIONS_RESTART_MAX = 5

values = read_values()
figures = [
    figure(
        "size of the program, stripped", f"≤ {PROGRAM_MAX} MB", values["program_bytes"] / MEGABYTE,
        PROGRAM_MAX, "MB"),
    figure("anonymous memory, idle", f"≤ {IDLE_MAX} MiB", values["idle_kib"] / 1024, IDLE_MAX, "MiB"),
    figure(
        "anonymous memory, after 20 min", f"≤ {RECORDING_MAX} MiB", values["recording_kib"] / 1024,
        RECORDING_MAX, "MiB"),
    figure(
        "first status, 2,000 straps", f"≤ {STRAPS_STATUS_MAX} s", values["straps_status_ms"] / 1000,
        STRAPS_STATUS_MAX, "s"),
    figure(
        "threads, 300 destinations", f"≤ {DESTINATIONS_THREADS_MAX}",
        values["destinations_threads"], DESTINATIONS_THREADS_MAX, ""),
    figure(
        "restart, 300 destinations", f"≤ {DESTINATIONS_RESTART_MAX} s",
        values["destinations_restart_ms"] / 1000, DESTINATIONS_RESTART_MAX, "s"),
]
for name, value in [
    ("resident memory, after 20 min", "resident_kib"),
    ("anonymous memory, C with libcurl", "libcurl_kib"),
    ("resident memory, C with libcurl", "libcurl_resident_kib"),
]:
    figures.append(figure(name, "", values[value] / 1024, None, "MiB"))
if "package_bytes" in values:
    figures.insert(1, figure(
        "size of the Debian package", f"≤ {PACKAGE_MAX} MB", values["package_bytes"] / MEGABYTE,
        PACKAGE_MAX, "MB"))
write("limits", figures)
