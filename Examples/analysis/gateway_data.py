"""Reads what a gateway exports and what arrived at an exchange, as pandas tables."""

import json

import pandas
from jupyterhealth_client import tidy_observation

CAUSES = "urn:x-edge-gateway:gap-cause"
COVERAGE = {"system": "urn:x-edge-gateway:code", "code": "coverage"}
GAP_COLUMNS = ["sensor", "address", "name", "cause", "from", "until", "seconds", "open"]
COVERAGE_COLUMNS = [
    "sensor", "address", "name", "day", "percent", "covered_seconds", "expected_seconds", "longest_gap_seconds",
    "seconds_by_cause",
]


def samples(path):
    """The samples of `queue export --format csv --all`: a row a frame, in the order of time.

    `bpm` is missing where the frame had no usable rate. `time` is missing while the clock of that start of the
    machine was not trusted: such rows come last.
    """
    table = pandas.read_csv(path, dtype={"patient": "string", "enrollment": "string", "rr_1024": "string"})
    table["time"] = pandas.to_datetime(table["time"], utc=True, format="ISO8601")
    return table.sort_values(["time", "uptime_us"], ignore_index=True)


def gaps(path):
    """The gaps of `gaps --json`, and each day's coverage: two tables. A gap that is still open has no `until`."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    gaps = pandas.DataFrame(report["gaps"], columns=GAP_COLUMNS)
    coverage = pandas.DataFrame(report["coverage"], columns=COVERAGE_COLUMNS)
    for table, column in (gaps, "from"), (gaps, "until"), (coverage, "day"):
        table[column] = pandas.to_datetime(table[column], utc=True, format="ISO8601")
    return gaps, coverage


def beats(path):
    """The beats of `queue export --beats`, with `run`: beats of one run follow each other without a loss.

    A run ends where the strap, the patient or the start of the gateway changes (`segment`), and where beats may be
    missing (`break`).
    """
    table = pandas.read_csv(path, dtype={"flags": "string"})
    table["time"] = pandas.to_datetime(table["time"], utc=True, format="ISO8601")
    begins = table["flags"].fillna("").str.split().map(lambda flags: "break" in flags)
    changes = table["segment"].ne(table["segment"].shift()) | table["strap"].ne(table["strap"].shift())
    table["run"] = (begins | changes).cumsum()
    return table


def for_neurokit(table):
    """RR intervals as NeuroKit2 takes them.

    It leaves out the differences between intervals that do not follow each other in time. The times here are those of
    one run after the other, with a minute between: whatever a gap cost, no difference crosses it.
    """
    elapsed = table["rr_ms"].cumsum() / 1000 + 60 * (table["run"] - table["run"].min())
    return {"RRI": table["rr_ms"].to_numpy(), "RRI_Time": elapsed.to_numpy()}


def observations(client, patient, code="omh:heart-rate:2.0", limit=None):
    """The data points of one patient at the exchange: a row each, with `start`, `end`, `bpm` and `weight`.

    A row is one frame's rate (`start` is `end`, weight 1), or the average of a window of 10 or 60 s; its weight is the
    number of frames in it. A data point may be there twice, after the exchange lost an answer or was restored from a
    copy: `uuid` is the same, and the first one stays.
    """
    rows = [
        tidy_observation(found)
        for found in client.list_observations(patient_id=patient, code=code, limit=limit)
        # Later pages of an exchange may have other patients and other codes than were asked for.
        if found["subject"]["reference"] == f"Patient/{patient}" and found["code"]["coding"][0]["code"] == code
    ]
    return of_observations(rows)


def of_observations(rows):
    """The table of `observations`, of rows of `tidy_observation`."""
    found = pandas.DataFrame(rows)
    wanted = (
        "effective_time_frame_date_time", "effective_time_frame_time_interval_start_date_time",
        "effective_time_frame_time_interval_end_date_time", "acquisition_rate_number_of_times",
    )
    for column in wanted:
        if column not in found:
            found[column] = pandas.NaT if column.endswith("time") else None
    instant, start, end, weight = (found[column] for column in wanted)
    table = pandas.DataFrame({
        "uuid": found["uuid"],
        "start": pandas.to_datetime(instant.fillna(start), utc=True),
        "end": pandas.to_datetime(instant.fillna(end), utc=True),
        "bpm": found["heart_rate_value"].astype(float),
        "weight": pandas.to_numeric(weight).fillna(1).astype(int),
    })
    return table.drop_duplicates("uuid").sort_values(["start", "uuid"], ignore_index=True)


def reasons(client, patient):
    """Why heart rates of one patient are missing, as the gateway told the exchange: gaps, and each day's coverage.

    Both tables are empty if the exchange is one that takes no resources but its own. Seconds without data are of all
    straps of that day together.
    """
    found = client.list_fhir("Observation", patient_id=patient, fhir_source="imported")
    return of_reasons(one for one in found if one.get("subject", {}).get("reference") == f"Patient/{patient}")


def of_reasons(resources):
    """The tables of `reasons`, of FHIR Observations."""
    gaps, days = [], []
    for one in resources:
        period = one.get("effectivePeriod", {})
        absent = one.get("dataAbsentReason", {}).get("coding", [])
        cause = next((coding["code"] for coding in absent if coding.get("system") == CAUSES), None)
        if cause:
            gaps.append({"cause": cause, "from": period.get("start"), "until": period.get("end")})
        elif COVERAGE in one["code"].get("coding", []):
            seconds = {
                part["code"]["coding"][0]["code"]: part["valueQuantity"]["value"] for part in one.get("component", [])}
            days.append({
                "day": period["start"], "expected_seconds": seconds.pop("expected"),
                "covered_seconds": one["valueQuantity"]["value"], "seconds_by_cause": seconds})
    gaps = pandas.DataFrame(gaps, columns=["cause", "from", "until"])
    days = pandas.DataFrame(days, columns=["day", "expected_seconds", "covered_seconds", "seconds_by_cause"])
    for table, column in (gaps, "from"), (gaps, "until"), (days, "day"):
        table[column] = pandas.to_datetime(table[column], utc=True, format="ISO8601")
    return gaps.sort_values("from", ignore_index=True), days.sort_values("day", ignore_index=True)


def windows(table, width="10s"):
    """One row a window: the mean rate of all data points in it, each by its weight.

    A window can have two averages, of different frames: the gateway was started anew within it, or samples came late.
    """
    weighted = table.assign(sum=table["bpm"] * table["weight"], window=table["start"].dt.floor(width))
    sums = weighted.groupby("window")[["sum", "weight"]].sum()
    return pandas.DataFrame({"bpm": sums["sum"] / sums["weight"], "frames": sums["weight"]})
