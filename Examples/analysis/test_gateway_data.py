"""The helpers of the notebook, with tables that are as bad as the real ones get."""

import base64
import json

import neurokit2
import pandas
import pytest
from jupyterhealth_client import tidy_observation

import gateway_data


def observation(uuid, body, header=None):
    """As an exchange lists it."""
    point = {"header": {"uuid": uuid, **(header or {})}, "body": body}
    return {
        "id": "1", "resourceType": "Observation", "subject": {"reference": "Patient/40001"},
        "code": {"coding": [{"code": "omh:heart-rate:2.0"}]},
        "valueAttachment": {
            "contentType": "application/json", "data": base64.b64encode(json.dumps(point).encode()).decode()}}


def rate(uuid, time, bpm):
    return observation(
        uuid, {"heart_rate": {"value": bpm, "unit": "beats/min"}, "effective_time_frame": {"date_time": time}})


def average(uuid, start, end, bpm, frames):
    return observation(
        uuid,
        {"heart_rate": {"value": bpm, "unit": "beats/min"}, "descriptive_statistic": "average",
         "effective_time_frame": {"time_interval": {"start_date_time": start, "end_date_time": end}}},
        {"acquisition_rate": {"number_of_times": frames, "time_window": {"value": 10, "unit": "sec"}}})


def test_a_data_point_that_is_there_twice_counts_once():
    first = rate("u1", "2026-11-21T18:25:48.585Z", 72)
    table = gateway_data.of_observations([
        tidy_observation(first), tidy_observation(first | {"id": "99"}),
        tidy_observation(rate("u2", "2026-11-21T18:25:49.585Z", 74))])
    assert list(table["bpm"]) == [72, 74]


def test_two_averages_of_one_window_are_weighed_by_their_frames():
    table = gateway_data.of_observations([
        tidy_observation(average("u1", "2026-11-21T18:25:40.000Z", "2026-11-21T18:25:50.000Z", 70, 8)),
        tidy_observation(average("u2", "2026-11-21T18:25:40.000Z", "2026-11-21T18:25:50.000Z", 80, 2)),
        tidy_observation(rate("u3", "2026-11-21T18:25:51.000Z", 90))])
    found = gateway_data.windows(table)
    assert list(found["bpm"]) == pytest.approx([72, 90])
    assert list(found["frames"]) == [10, 1]


def test_no_interval_crosses_a_gap(tmp_path):
    path = tmp_path / "beats.csv"
    # 60 bpm, a minute's gap, 120 bpm: across the gap there is a step of 500 ms that no heart made.
    lines = ["time,rr_ms,uncertainty_ms,strap,segment,lost_beats,flags"]
    clock = pandas.Timestamp("2026-11-21T18:00:00Z")
    for index in range(40):
        interval = 1000 + index % 2 if index < 20 else 500 + index % 2
        clock += pandas.Timedelta(milliseconds=interval) + pandas.Timedelta(minutes=1 if index == 20 else 0)
        flags = "break" if index in (0, 20) else ""
        lines.append(f"{clock.isoformat().replace('+00:00', 'Z')},{interval},5,C0:00:00:00:00:01,1,0,{flags}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = gateway_data.beats(path)
    assert table["run"].nunique() == 2
    figures = neurokit2.hrv_time(gateway_data.for_neurokit(table)).iloc[0]
    assert figures["HRV_RMSSD"] == pytest.approx(1)
    assert neurokit2.hrv_time({"RRI": table["rr_ms"].to_numpy()}).iloc[0]["HRV_RMSSD"] > 50


def test_a_report_without_gaps_is_an_empty_table(tmp_path):
    path = tmp_path / "gaps.json"
    path.write_text('{"gaps": [], "coverage": [], "more": false}', encoding="utf-8")
    gaps, coverage = gateway_data.gaps(path)
    assert gaps.empty and coverage.empty


def test_gaps_and_days_of_the_exchange_are_told_from_other_resources():
    code = {"coding": [{"system": "http://loinc.org", "code": "8867-4"}]}
    absent = {"coding": [
        {"system": "http://terminology.hl7.org/CodeSystem/data-absent-reason", "code": "unknown"},
        {"system": "urn:x-edge-gateway:gap-cause", "code": "out-of-range"}]}
    period = {"start": "2026-11-22T08:00:00.000Z", "end": "2026-11-22T08:01:12.500Z"}
    quantity = {"valueQuantity": {"value": 72.5, "code": "s"}}
    part = lambda name: {"code": {"coding": [{"code": name}]}, **quantity}  # noqa: E731
    gaps, days = gateway_data.of_reasons([
        rate("u1", "2026-11-21T18:25:48.585Z", 72), {"code": {"text": "of a hospital"}},
        {"code": code, "dataAbsentReason": absent, "effectivePeriod": period},
        # The clock was not known.
        {"code": code, "dataAbsentReason": absent},
        {"code": {"coding": [{"system": "urn:x-edge-gateway:code", "code": "coverage"}]},
         "effectivePeriod": {"start": "2026-11-22T00:00:00.000Z", "end": "2026-11-23T00:00:00.000Z"},
         **quantity, "component": [part("expected"), part("out-of-range")]}])
    assert list(gaps["cause"]) == ["out-of-range"] * 2 and gaps["until"].isna().sum() == 1
    assert (gaps["until"] - gaps["from"])[0].total_seconds() == 72.5
    assert days.iloc[0].to_dict() == {
        "day": pandas.Timestamp("2026-11-22T00:00:00Z"), "expected_seconds": 72.5, "covered_seconds": 72.5,
        "seconds_by_cause": {"out-of-range": 72.5}}
    assert [len(table) for table in gateway_data.of_reasons([])] == [0, 0]
