#!/usr/bin/env python3
"""Judges what the benchmarks left in .build-bench and prints it as one table.

    Benchmarks/figures/table.py NAME…    these benchmarks' figures
    Benchmarks/figures/table.py          all of docs/develop/testing.md's, and the machine and versions they were
                                         measured with; also as .build-bench/figures.json and figures.md

Leaves with 1 when a goal is missed by more than the figure's noise.
"""

import datetime
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

from figure import FOLDER

COLUMNS = [
    ("figure", 31), ("goal", 9), ("ours", 9), ("peers", 17), ("theirs", 9), ("ratio", 6),
]  # the last one, the verdict, takes what is left of 100

# What every guest of Tests/RealBlueZ measures, and the goal.
IN_THE_VM = [
    ("power-on to first sample", "≤ 5 s"),
    ("bluetoothd restart to sample", "≤ 15 s"),
    ("memory of its own, idle", "≤ 8 MiB"),
    ("memory of its own, loaded", "≤ 12 MiB"),
]

# Where the figures come from, in the order of the table; of those that `make bench` does not run: what they
# measure, its goal, and who measures it.
SOURCES = {
    "decode": (FOLDER / "decode.json", [], ""),
    "uplink": (FOLDER / "uplink.json", [], ""),
    "record": (FOLDER / "record.json", [], ""),
    "queue": (FOLDER / "queue.json", [], ""),
    "power-cut": (
        FOLDER / "power-cut.json", [("acked lost, power cuts", "0")],
        "Benchmarks/power-cut, as root",
    ),
    "drain": (FOLDER / "drain.json", [], ""),
    "latency": (FOLDER / "latency.json", [], ""),
    "destinations": (FOLDER / "destinations.json", [], ""),
    "limits": (FOLDER / "limits.json", [], ""),
    "commands": (FOLDER / "commands.json", [], ""),
    "fleet-poll": (
        FOLDER / "fleet-poll.json",
        [("200 gateways asked: time", "at most 2 s"), ("200 gateways asked: CPU time", "at most 1 s")],
        "Benchmarks/fleet-poll",
    ),
    "soak": (
        FOLDER / "soak.json",
        [("anonymous memory, 24 h, highest", "≤ 8 MiB"), ("growth in the last 12 h", "≤ 5 %")],
        "Benchmarks/soak",
    ),
    **{
        f"real BlueZ, {machine}": (
            pathlib.Path(f"{folder}/figures.json"),
            [(f"{name}, {machine}", goal) for name, goal in IN_THE_VM],
            command,
        ) for machine, folder, command in (
            ("VM", ".build-vm", "Tests/RealBlueZ/run"),
            ("ARM 4K", ".build-vm-arm64", "make test-all RINGS=arm64-machines"),
            ("ARM 16K", ".build-vm-arm64-16k", "make test-all RINGS=arm64-machines"),
        )
    },
    "instructions": (
        pathlib.Path(".build-vm/instructions.json"),
        [("instructions, all, VM", "≤ 120,000"), ("instructions, VM", "≤ 45,000")],
        "Tests/RealBlueZ/run --icount",
    ),
}


# MARK: Judging


def number(value, unit=""):
    """A value with three digits and its unit."""
    if value is None:
        return "never"
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def ratio(ours, theirs):
    """Ours to theirs: 1/4.5 when ours is the smaller one."""
    if ours is None or not theirs or ours <= 0 or theirs < 0:
        return ""
    return f"1/{theirs / ours:.3g}" if theirs > ours else f"{ours / theirs:.2f}"


def judge(figure):
    """Whether the goal is reached (None without one), whether it is missed by more than noise, and in words."""
    ours, limit = figure.get("ours"), figure.get("limit")
    if figure.get("not_measured"):
        return None, False, f"not measured here: {figure['not_measured']}"
    if limit is None:
        return None, False, ""
    if ours is None:
        return False, True, "missed: never"
    if ours <= limit:
        return True, False, "reached"
    by = f"{100 * (ours / limit - 1):.0f} %" if limit else number(ours, figure["unit"])
    is_noise = ours <= limit * (1 + figure.get("noise", 0))
    return False, not is_noise, f"noise, by {by}" if is_noise else f"missed by {by}"


def load(name):
    """The figures of a benchmark, with their verdicts."""
    path, elsewhere, command = SOURCES[name]
    if path.exists():
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        day = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    elif elsewhere:
        figures = [{"figure": f, "goal": g, "not_measured": command} for f, g in elsewhere]
        day = None
    else:
        figures, day = [{"figure": name, "goal": "", "not_measured": "it failed"}], None
    for figure in figures:
        figure["source"], figure["measured_on"] = name, day
        figure["reached"], figure["fails"], figure["verdict"] = judge(figure)
        figure["ratios"] = {
            peer: ratio(figure.get("ours"), value) for peer, value in figure.get("peers", {}).items()
        }
        # A benchmark that left nothing is not one whose goal is reached.
        if day is None and not elsewhere:
            figure["fails"] = True
    return figures


# MARK: Printing


def cells(figure):
    """The lines of a figure, one a peer, without the verdict; and where that stands."""
    peers = list(figure.get("peers", {}).items()) or [("", None)]
    unit = figure.get("unit", "")
    for index, (peer, value) in enumerate(peers):
        first = index == 0
        yield [
            figure["figure"] if first else "",
            figure["goal"] if first else "",
            number(figure.get("ours"), unit) if first and not figure.get("not_measured") else "",
            peer,
            number(value, unit) if peer else "",
            figure["ratios"].get(peer, ""),
            figure["verdict"] if first else "",
        ]


def lines(figures):
    """The table for a terminal of 100 columns."""
    def line(texts):
        parts = [text.ljust(width) for text, (_, width) in zip(texts, COLUMNS)]
        return " ".join(parts + [texts[-1]]).rstrip()

    yield line([title for title, _ in COLUMNS] + ["verdict"])
    for figure in figures:
        for texts in cells(figure):
            if not figure.get("not_measured"):
                yield line(texts)
                continue
            yield f"{texts[0]:<32} {texts[1]:<9} {texts[-1]}"


def markdown(figures, machine, versions):
    """The same for a page."""
    titles = [title for title, _ in COLUMNS] + ["verdict"]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for figure in figures:
        for texts in cells(figure):
            yield "| " + " | ".join(texts) + " |"
    yield ""
    yield "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."
    yield ""
    yield "Versions: " + ", ".join(f"{name} {value}" for name, value in versions.items()) + "."


# MARK: What it was measured with


def first_match(pattern, text, otherwise="unknown"):
    """The first group of the first match."""
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else otherwise


def said_by(*words):
    """What a program prints; nothing when it is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout + done.stderr
    except OSError:
        return ""


def the_machine():
    """What it ran on."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    memory = pathlib.Path("/proc/meminfo").read_text(encoding="utf-8")
    system = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    total = int(first_match(r"^MemTotal:\s*(\d+)", memory, "0"))
    return {
        "CPU": first_match(r"^(?:model name|Model)\s*:\s*(.*)$", cpu, os.uname().machine),
        "cores": os.cpu_count(),
        "memory": f"{total / 2**20:.1f} GiB",
        "kernel": os.uname().release,
        "system": first_match(r'^PRETTY_NAME="?([^"\n]*)', system),
        "load": f"{os.getloadavg()[1]:.1f} over the last five minutes",
    }


def the_versions():
    """What it was made of, and the peers."""
    def package(*names):
        found = said_by("dpkg-query", "-W", "-f", "${Version} ", *names).split()
        return found[0] if found else "unknown"

    versions = {
        "swift": first_match(r"Swift version (\S+)", said_by("swift", "--version")),
        "sqlite": package("libsqlite3-0"),
        "curl": package("libcurl4"),
        "bluez": package("bluez") if os.path.exists("/usr/bin/bluetoothctl") else "simulated",
        "clang": first_match(r"clang version (\S+)", said_by("clang", "--version")),
        "python": first_match(r"Python (\S+)", said_by("python3", "--version")),
    }
    pins = pathlib.Path("Package.resolved")
    if pins.exists():
        for pin in json.loads(pins.read_text(encoding="utf-8"))["pins"]:
            if pin["identity"] == "grdb.swift":
                versions["GRDB"] = pin["state"].get("version", "unknown")
    peers = {
        ".build-oracles": ["bleak", "bluetooth_sig", "orjson", "requests"],
        ".build-bench/queue/venv": ["litequeue", "persist_queue"],
        ".build-bench/drain/venv": ["requests"],
    }
    for environment, names in peers.items():
        for name in names:
            pattern = f"{environment}/lib/python3*/site-packages/{name}-*.dist-info"
            for path in glob.glob(pattern):
                versions[name.replace("_", "-")] = first_match(r"-([^-]+)\.dist-info$", path)
    return versions


def main(names):
    """Prints the table; the status to leave with."""
    unknown = [name for name in names if name not in SOURCES]
    if unknown:
        print(f"table.py: no such benchmark: {unknown[0]}; there are {', '.join(SOURCES)}", file=sys.stderr)
        return 2
    figures = [figure for name in names or SOURCES for figure in load(name)]
    for line in lines(figures):
        print(line)
    if not names:
        machine, versions = the_machine(), the_versions()
        print()
        for name, value in machine.items():
            print(f"{name:<8} {value}")
        for name, day in {f["source"]: f["measured_on"] for f in figures}.items():
            if day and SOURCES[name][1]:
                print(f"{name:<8} measured on {day}")
        said = "versions " + ", ".join(f"{name} {value}" for name, value in versions.items())
        print(textwrap.fill(said, 100, subsequent_indent=" " * 9, break_on_hyphens=False))
        everything = {
            "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": machine, "versions": versions, "figures": figures,
        }
        text = json.dumps(everything, indent=2, ensure_ascii=False)
        (FOLDER / "figures.json").write_text(text + "\n", encoding="utf-8")
        page = "\n".join(markdown(figures, machine, versions))
        (FOLDER / "figures.md").write_text(page + "\n", encoding="utf-8")
    missed = [figure["figure"] for figure in figures if figure["fails"]]
    for name in missed:
        print(f"missed: {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
