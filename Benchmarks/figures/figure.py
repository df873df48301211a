"""What a benchmark leaves behind: .build-bench/NAME.json, a list of figures that table.py judges.

A figure is an object of `figure` (what was measured), `goal` (in words; empty for none), `ours` (null: it never
came), `limit` (the most that ours may be; null for no goal), `noise` (the part of the limit by which a busy
machine may move it), `peers` (the same of others, by name) and `unit`. The Swift benchmarks write the same
(Verdict.swift).
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(".build-bench")

# What other programs of the machine do to a time.
TIMING_NOISE = 0.1


def figure(name, goal, ours, limit, unit="", peers=None, noise=0.0):
    """One figure."""
    return {
        "figure": name, "goal": goal, "ours": ours, "limit": limit, "noise": noise, "unit": unit,
        "peers": peers or {},
    }


def read_values(lines=sys.stdin):
    """`name value` lines, as the measuring programs print them; of a name that comes again the least."""
    values = {}
    for line in lines:
        name, value = line.split()
        values[name] = min(float(value), values.get(name, float("inf")))
    return values


def write(name, figures):
    """Leaves them for table.py."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps({"figures": figures}, indent=2, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
