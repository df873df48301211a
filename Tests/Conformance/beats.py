#!/usr/bin/env python3
"""Lets an HRV program read what `queue export --beats` wrote.

    beats.py BEATS.csv TICKS.txt     prints the figures; exit 1 if they are not those of the ticks

NeuroKit2 reads the file's rr_ms column as pandas gives it. Mean, SDNN and RMSSD must be those of the
intervals that were sent, one a line of TICKS.txt in 1/1024 s, to a thousandth of a millisecond: what
three decimals may cost. Run it with the Python that Tests/Conformance/setup prints.
"""

import math
import statistics
import sys

import neurokit2
import pandas

TOLERANCE_MS = 0.001


def of_ticks(path):
    with open(path) as lines:
        intervals = [int(line) * 1000 / 1024 for line in lines]
    steps = [(b - a) ** 2 for a, b in zip(intervals, intervals[1:])]
    return {"MeanNN": statistics.fmean(intervals), "SDNN": statistics.stdev(intervals),
            "RMSSD": math.sqrt(statistics.fmean(steps))}


def of_export(path):
    intervals = pandas.read_csv(path)["rr_ms"].to_numpy()
    figures = neurokit2.hrv_time({"RRI": intervals})
    return {name: float(figures["HRV_" + name].iloc[0]) for name in ("MeanNN", "SDNN", "RMSSD")}


def main():
    beats, ticks = sys.argv[1:]
    told, true = of_export(beats), of_ticks(ticks)
    for name, value in true.items():
        print(f"{name} {told[name]:.4f} ms, sent {value:.4f} ms")
    return 0 if all(abs(told[name] - true[name]) <= TOLERANCE_MS for name in true) else 1


if __name__ == "__main__":
    sys.exit(main())
