"""Times the commands of the program that is named, and those of others, in turns; leaves the figures."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import TIMING_NOISE, figure, write

COMMANDS = ("--help", "status", "straps")
# The one without a runtime worth the name, and the one with it.
PEERS = {"bluetoothctl --version": ("bluetoothctl", "--version"), "python3 -c pass": ("python3", "-c", "pass")}
WARM_ROUNDS = 60
COLD_ROUNDS = 12
WARM_MAX_MS = 50
COLD_MAX_MS = 60
# A gateway without a radio is not well, and says so.
EXIT_CODES = (0, 1)


def files(program):
    """The program and the libraries that it loads at its start."""
    lines = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines()
    return [program] + [word for line in lines for word in line.split() if word.startswith("/")]


def drop(paths):
    """Takes files out of memory, but for pages that a running program has mapped."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(words):
    """Milliseconds until it has ended."""
    nothing = [(os.POSIX_SPAWN_OPEN, to, "/dev/null", os.O_RDWR, 0) for to in (1, 2)]
    began = time.perf_counter()
    process = os.posix_spawn(words[0], words, os.environ, file_actions=nothing)
    _, status, _ = os.wait4(process, 0)
    took = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) not in EXIT_CODES:
        sys.exit(f"{' '.join(words)}: exit code {os.waitstatus_to_exitcode(status)}")
    return took * 1000


def usual(times):
    """The lower quartile: what else the machine does makes a run longer, never shorter."""
    return statistics.quantiles(times, n=4)[0]


program = sys.argv[1]
# Debian's Python, if it is there: that of a person may be a script that looks for one.
paths = {"python3": "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else shutil.which("python3")}
runs = {command: (program, command) for command in COMMANDS}
for peer, (name, *words) in PEERS.items():
    if path := paths.get(name) or shutil.which(name):
        runs[peer] = (os.path.realpath(path), *words)
needs = {name: files(words[0]) for name, words in runs.items()}

warm = {name: [] for name in runs}
cold = {name: [] for name in runs}
for name, words in runs.items():
    run(words)
for _ in range(WARM_ROUNDS):
    for name, words in runs.items():
        warm[name].append(run(words))
for _ in range(COLD_ROUNDS):
    for name, words in runs.items():
        drop(needs[name])
        cold[name].append(run(words))

figures = []
for state, times, limit in (("warm", warm, WARM_MAX_MS), ("cold", cold, COLD_MAX_MS)):
    peers = {name: usual(times[name]) for name in runs if name in PEERS}
    figures += [
        figure(f"edge-gateway {command}, {state}", f"≤ {limit} ms", usual(times[command]), limit, "ms", peers,
               TIMING_NOISE)
        for command in COMMANDS]
figures.append(figure("libraries loaded by a command", "", len(needs["--help"]) - 1, None, "",
                      {name: len(needs[name]) - 1 for name in runs if name in PEERS}))
write("commands", figures)
