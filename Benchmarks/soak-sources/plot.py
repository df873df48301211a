"""Draws what Benchmarks/soak wrote down, and makes figures of it: plot.py CSV FOLDER

A whole day's soak-memory.svg, soak-depth.svg and soak-lag.svg go to FOLDER; they are without a background, for pages
light and dark.
"""

import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import figure, write

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 40, 44
# One point each so many minutes is what can be seen at this width.
POINTS_MAX = 720

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 14px; font-weight: 600 }
.grid { stroke: #8885; } .line { fill: none; stroke: #0b62a8; stroke-width: 1.5; stroke-linejoin: round }
.goal { stroke: #b3261e; stroke-dasharray: 6 4 } .goal-text { fill: #b3261e } .cut { fill: #8883 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .line { stroke: #7cc4ff } .goal { stroke: #ff8a80 }
.goal-text { fill: #ff8a80 } }
"""

MEMORY_MIB_MAX = 8
# Flat: between the twelfth hour and the last of a day it grows by no more than this. A page here and there that the
# heap had not touched before comes late, and a delivery that is under way takes 7 %; a leak of 16 bytes a sample would
# be 5 MiB, nearly as much again, in half a day.
GROWTH_PERCENT_MAX = 5
# The same between the averages of the second and of the last of several days, which have as much under way.
DAYS_GROWTH_PERCENT_MAX = 2
HOUR = 60
HALF_DAY = 12 * HOUR
DAY = 24 * HOUR


def round_step(most):
    """The step of an axis of at most six: 1, 2 or 5 times a power of ten."""
    step = 1.0
    while True:
        for times in (1, 2, 5):
            if most / (step * times) <= 6:
                return step * times
        step *= 10


def draw(title, unit, hours, values, cuts, goal=None):
    """A curve over the hours, with the times without a network in grey."""
    most = max(values + ([goal] if goal else []))
    step = round_step(most)
    top = step * (int(most / step) + 1)
    span = max(hours[-1], 1e-9)

    def x(hour):
        return LEFT + (WIDTH - LEFT - RIGHT) * hour / span

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}, {unit}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{title} ({unit})</text>',
    ]
    for index, (begin, end) in enumerate(cuts):
        parts.append(
            f'<rect class="cut" x="{x(begin):.1f}" y="{TOP}" width="{x(end) - x(begin):.1f}"'
            f' height="{HEIGHT - TOP - BOTTOM}"/>')
        if index == 0:
            parts.append(f'<text x="{x(begin) + 4:.1f}" y="{TOP + 14}">no network</text>')
    level = 0.0
    while level <= top:
        parts.append(
            f'<path class="grid" d="M{LEFT} {y(level):.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:,.0f}</text>')
        level += step
    for hour in range(0, int(span) + 2, 24 if span > 48 else 3 if span > 6 else 1):
        if hour <= span + 0.1:
            parts.append(
                f'<text x="{x(min(hour, span)):.1f}" y="{HEIGHT - BOTTOM + 16}"'
                f' text-anchor="middle">{hour}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        "hours of the gateway</text>")
    if goal:
        parts.append(
            f'<path class="goal" d="M{LEFT} {y(goal):.1f}H{WIDTH - RIGHT}"/>'
            f'<text class="goal-text" x="{WIDTH - RIGHT}" y="{y(goal) - 5:.1f}"'
            f' text-anchor="end">goal: at most {goal} {unit}</text>')
    every = max(len(values) // POINTS_MAX, 1)
    # The highest of what one point stands for: a peak must not fall between two.
    points = " ".join(
        f"{x(hours[at]):.1f},{y(max(values[at : at + every])):.1f}"
        for at in range(0, len(values), every))
    parts.append(f'<polyline class="line" points="{points}"/></svg>')
    return "\n".join(parts) + "\n"


def cut_times(rows):
    """Begin and end of each network cut, in hours."""
    cuts = []
    for row in rows:
        hour = int(row["minute"]) / 60
        if row["network"] == "cut":
            if cuts and cuts[-1][1] is None:
                continue
            cuts.append([hour, None])
        elif cuts and cuts[-1][1] is None:
            cuts[-1][1] = hour
    return [(begin, end if end is not None else int(rows[-1]["minute"]) / 60) for begin, end in cuts]


def least_used(rows):
    """The lowest KiB in use: without what a delivery needs for a moment."""
    return min(int(row["heap_used_kib"]) for row in rows if row["heap_used_kib"])


def mean(values):
    return sum(values) / len(values)


def main(path, folder):
    with open(path, encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    hours = [int(row["minute"]) / 60 for row in rows]
    anonymous = [int(row["anonymous_kib"]) / 1024 for row in rows]
    resident = [int(row["resident_kib"]) / 1024 for row in rows]
    waiting = [int(row["waiting"]) for row in rows]
    lag = [float(row["behind_s"] or 0) / 60 for row in rows]
    cuts = cut_times(rows)

    # Minutes from one look to the next, and in all.
    pause = int(rows[1]["minute"]) - int(rows[0]["minute"])
    total = len(rows) * pause
    length = f"{total / HOUR:.0f} h"
    figures = [
        figure(
            f"anonymous memory, {length}, highest", f"≤ {MEMORY_MIB_MAX} MiB", max(anonymous),
            MEMORY_MIB_MAX, "MiB"),
        figure(f"resident memory, {length}, highest", "", max(resident), None, "MiB"),
        figure(f"samples waiting, {length}, highest", "", max(waiting), None),
        figure(f"samples waiting after {length}", "≤ 500", waiting[-1], 500),
        figure(f"delivery behind after {length}", "≤ 60 s", lag[-1] * 60, 60, "s"),
    ]
    # What is compared, in looks: an hour of a day, or a day of several.
    settled, span, most = (
        (2 * DAY, DAY, DAYS_GROWTH_PERCENT_MAX) if total >= 3 * DAY else (HALF_DAY, HOUR, GROWTH_PERCENT_MAX))
    if total >= settled + 2 * HOUR:
        end, looks = settled // pause, span // pause
        then, now = mean(anonymous[end - looks : end]), mean(anonymous[-looks:])
        last = f"in the last {(total - settled) // HOUR} h"
        figures.insert(1, figure(f"growth {last}", f"≤ {most} %", max(100 * (now / then - 1), 0), most, "%"))
        then, now = least_used(rows[end // 2 : end]), least_used(rows[-end // 2 :])
        figures.insert(2, figure(f"growth of what is in use {last}", "", 100 * (now / then - 1), None, "%"))
    write("soak", figures)

    if total != DAY:
        print(f"soak: {length} are not a day; docs/develop/soak-*.svg stay as they are", file=sys.stderr)
        return
    plots = {
        "memory": draw(
            "Anonymous memory of the gateway", "MiB", hours, anonymous, cuts, MEMORY_MIB_MAX),
        "depth": draw("Samples that wait for delivery", "samples", hours, waiting, cuts),
        "lag": draw("How far delivery is behind", "minutes", hours, lag, cuts),
    }
    for name, text in plots.items():
        (pathlib.Path(folder) / f"soak-{name}.svg").write_text(text, encoding="utf-8")


main(*sys.argv[1:3])
