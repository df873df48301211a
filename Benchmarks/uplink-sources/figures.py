"""Makes figures of the values on standard input: figures.py NOISE-IN-PERCENT."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "figures"))
from figure import figure, read_values, write

values = read_values()
noise = float(sys.argv[1]) / 100
ours, json, orjson = values["swift_ns"], values["json"], values["orjson"]
write("uplink", [
    figure("write a data point", "≤ peer/10", ours, json / 10, "ns", {"json": json}, noise),
    figure("write a data point", "≤ peer/4", ours, orjson / 4, "ns", {"orjson": orjson}, noise),
])
