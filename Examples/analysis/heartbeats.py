# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From an export to heart rate variability, and what arrived at the exchange
#
# On the gateway, three files are made and copied here:
#
#     sudo edge-gateway queue export samples.csv --format csv --all --last 1d
#     sudo edge-gateway queue export beats.csv --beats --last 1d
#     edge-gateway gaps --last 1d --json > gaps.json

# %%
import os
from pathlib import Path

import neurokit2
import numpy
import pandas
from jupyterhealth_client import JupyterHealthClient

import gateway_data

data = Path(os.environ.get("GATEWAY_DATA", "."))
samples = gateway_data.samples(data / "samples.csv")
gaps, coverage = gateway_data.gaps(data / "gaps.json")
beats = gateway_data.beats(data / "beats.csv")
samples[["time", "sensor", "bpm", "state"]].head()

# %% [markdown]
# ## How complete is it?
#
# Each moment is covered by a sample that has a rate, or by a gap that has one cause. Do not fill gaps in: a mean over
# them is the mean of another person's day.

# %%
print(coverage[["name", "day", "percent", "longest_gap_seconds"]])
print(gaps[["name", "cause", "from", "until", "seconds"]])

# %% [markdown]
# ## Parquet
#
# Types and time zones survive; CSV has neither.

# %%
samples.to_parquet(data / "samples.parquet", index=False)
gaps.to_parquet(data / "gaps.parquet", index=False)
again = pandas.read_parquet(data / "samples.parquet")
pandas.testing.assert_frame_equal(again, samples)

# %% [markdown]
# ## Heart rate by the minute
#
# A minute with less than half of its time covered has no mean.

# %%
minutes = (
    samples.dropna(subset=["time", "bpm"])
    .groupby(["sensor", pandas.Grouper(key="time", freq="1min")])["bpm"]
    .agg(["mean", "min", "max", "count"])
)
minutes.loc[minutes["count"] < 30, ["mean", "min", "max"]] = numpy.nan
minutes

# %% [markdown]
# ## Heart rate variability
#
# RMSSD is made of differences between one interval and the next. Across a gap there is no next one: such a difference
# says nothing about a heart. NeuroKit2 leaves it out when it gets the times of the intervals.


# %%
def rmssd(table):
    """By hand, run by run: to compare with."""
    steps = numpy.concatenate([numpy.diff(run["rr_ms"]) for _, run in table.groupby("run")])
    return float(numpy.sqrt(numpy.mean(steps**2)))


rows = []
for strap, table in beats.groupby("strap"):
    figures = neurokit2.hrv_time(gateway_data.for_neurokit(table)).iloc[0]
    naive = neurokit2.hrv_time({"RRI": table["rr_ms"].to_numpy()}).iloc[0]
    rows.append({
        "strap": strap, "intervals": len(table), "runs": table["run"].nunique(), "MeanNN": figures["HRV_MeanNN"],
        "SDNN": figures["HRV_SDNN"], "RMSSD": figures["HRV_RMSSD"], "RMSSD across gaps (wrong)": naive["HRV_RMSSD"],
    })
    assert abs(figures["HRV_RMSSD"] - rmssd(table)) < 0.001
variability = pandas.DataFrame(rows)
variability

# %% [markdown]
# No run has a gap in it: a run's beats all lie before a gap or all after it. (The clock of a beat is good to
# `uncertainty_ms`.)

# %%
for _, run in beats.dropna(subset=["time"]).groupby("run"):
    own = gaps[gaps["address"] == run["strap"].iloc[0]].dropna(subset=["until"])
    slack = pandas.Timedelta(milliseconds=float(run["uncertainty_ms"].max()))
    inside = own[(own["from"] > run["time"].min() + slack) & (own["until"] < run["time"].max() - slack)]
    assert inside.empty, inside

# %% [markdown]
# ## What arrived at the exchange
#
# The client takes the address and the token from `JHE_URL` and `JHE_TOKEN`. `gateway_data.observations` keeps one of
# each data point that is there twice, and gives averages of windows their weight.

# %%
client = JupyterHealthClient()
arrived = {patient: gateway_data.observations(client, patient) for patient in os.environ["PATIENTS"].split(",")}
for patient, table in arrived.items():
    sent = samples[(samples["patient"] == patient) & (samples["state"] == "delivered")]
    print(f"patient {patient}: {len(table)} data points of {table['weight'].sum()} frames; delivered: {len(sent)}")
    assert table["weight"].sum() == len(sent)

# %% [markdown]
# Raw rates and averages side by side: the same windows of ten seconds from both.

# %%
for patient, table in arrived.items():
    sent = samples[(samples["patient"] == patient) & (samples["state"] == "delivered")]
    own = sent.assign(window=sent["time"].dt.floor("10s")).groupby("window")["bpm"].mean()
    there = gateway_data.windows(table)["bpm"]
    difference = (own - there).abs().max()
    print(f"patient {patient}: {len(there)} windows, {difference:.2f} bpm apart at the most")
    # An average is delivered with one decimal.
    assert list(own.index) == list(there.index) and difference <= 0.051

# %% [markdown]
# ## Why something is missing there
#
# An exchange that takes resources of other sources has the gaps too, and how complete each day is: whoever has no file
# of the gateway sees there why there is no heart rate. An older exchange has none of it, and the tables are empty.

# %%
for patient in arrived:
    why, days = gateway_data.reasons(client, patient)
    print(f"patient {patient}: {len(why)} gaps and {len(days)} days are explained at the exchange")
    print(why.assign(seconds=(why["until"] - why["from"]).dt.total_seconds()))
