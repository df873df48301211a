"""Makes figures of the values on standard input: figures.py LIMIT-IN-NANOSECONDS."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import figure, read_values, write

# Where C takes that much, the machine is to blame; 1.3 where both were measured alone.
C_TIMES_MAX = 1.6

values = read_values()
limit = float(sys.argv[1])
peers = {"C": values["c_ns"]}
if "peer_ns" in values:
    peers["bluetooth-sig"] = values["peer_ns"]
write("decode", [
    figure(
        "decode a frame", f"≤ {limit:g} ns", values["swift_ns"],
        max(limit, C_TIMES_MAX * values["c_ns"]), "ns", peers,
    ),
    figure(f"allocations, {values['frames']:,.0f} frames", "0", values["allocations"], 0),
])
