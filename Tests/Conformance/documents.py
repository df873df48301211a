#!/usr/bin/env python3
"""Judges what the gateway writes with other people's validators.

    documents.py FILE.jsonl             prints "N documents accepted"; exit 1 at the first refusal
    documents.py --verdicts FILE.jsonl  prints one verdict a line: "accepted" or "refused: reason"

Each line of the file is {"kind": "datapoint" | "observation" | "bundle", "document": {...}}; a
data point may name its "code" beside the document. Data points are judged by omh-shim, which
carries the schemas a JupyterHealth Exchange validates with; observations and bundles by
fhir.resources (R5), which that exchange parses them with; and the data point inside each value
attachment is judged too. Run it with the Python that Tests/Conformance/setup prints.

Plain runs also ask what no server asks: that identifiers are UUIDs and times are RFC 3339 with an
offset. The exchange would store anything there, and the data would be lost to every search.
"""

import base64
import binascii
import copy
import datetime
import json
import sys
import uuid

# The validator is a private module of omh-shim; requirements.txt pins the version it is from.
from fhir.resources.bundle import Bundle
from fhir.resources.observation import Observation
from omh_shim import HEADER_SCHEMA_ID, ValidationError
from omh_shim._validate import validate_output

OPEN_MHEALTH = "https://w3id.org/openmhealth"


class Refusal(Exception):
    """Why a document is not good."""


def judge_datapoint(document, code=None, strict=True):
    if not isinstance(document, dict):
        raise Refusal("the data point is no object")
    header, body = document.get("header"), document.get("body")
    schema(header, HEADER_SCHEMA_ID)
    if code is None:
        parts = header["schema_id"]
        code = f"{parts['namespace']}:{parts['name']}:{parts['version']}"
    schema(body, code)
    if strict:
        name = ":".join(header["schema_id"][part] for part in ("namespace", "name", "version"))
        if name != code:
            raise Refusal(f"the header says {name}, the code says {code}")
        judge_uuid(header["uuid"])
        for time in times(document):
            judge_time(time)


def schema(instance, schema_id):
    try:
        validate_output(instance, schema_id)
    except (ValidationError, KeyError) as error:
        raise Refusal(str(error)) from error


def judge_uuid(text):
    try:
        if str(uuid.UUID(text)) != text.lower():
            raise ValueError("not in its usual form")
    except ValueError as error:
        raise Refusal(f"header.uuid: {error}") from error


def times(value, name=""):
    """Every value of a member whose name ends in date_time: readers parse them all."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from times(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from times(inner, name)
    elif name.endswith("date_time"):
        yield value


def judge_time(text):
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise Refusal(f"time: {error}") from error
    if time.utcoffset() is None or "T" not in text:
        raise Refusal(f"time without an offset or a T: {text}")


def judge_observation(document, strict=True):
    parse(Observation, document, strict)
    codings = (document.get("code") or {}).get("coding") or []
    if len(codings) != 1 or codings[0].get("system") != OPEN_MHEALTH:
        raise Refusal("code: exactly one Open mHealth coding is wanted")
    try:
        encoded = document["valueAttachment"]["data"]
        text = base64.b64decode(encoded, validate=True).decode("ascii")
        datapoint = json.loads(text)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise Refusal(f"valueAttachment.data: {error}") from error
    judge_datapoint(datapoint, codings[0].get("code"), strict)


def judge_bundle(document, strict=True):
    parse(Bundle, document, strict)
    for index, entry in enumerate(document.get("entry") or []):
        try:
            if (entry.get("request") or {}).get("method") != "POST":
                raise Refusal("request.method is not POST")
            judge_observation(entry["resource"], strict)
        except (Refusal, KeyError) as error:
            raise Refusal(f"entry {index}: {error}") from error


def parse(model, document, strict):
    if not isinstance(document, dict):
        raise Refusal(f"{model.__name__}: no object")
    # The library takes what it parses apart; give it a copy.
    try:
        model.parse_obj(copy.deepcopy(document))
    except (ValueError, LookupError, TypeError) as error:
        raise Refusal(f"{model.__name__}: {error}") from error
    if strict and document.get("resourceType") != model.__name__:
        raise Refusal(f"resourceType is not {model.__name__}")


def judge(line, strict=True):
    kind, document = line["kind"], line["document"]
    if kind == "datapoint":
        judge_datapoint(document, line.get("code"), strict)
    elif kind == "observation":
        judge_observation(document, strict)
    elif kind == "bundle":
        judge_bundle(document, strict)
    else:
        raise Refusal(f"unknown kind {kind!r}")


# --- The judge is judged first ---------------------------------------------------------------


def good_datapoint():
    time = "2026-11-21T18:25:48.585Z"
    return {
        "header": {
            "uuid": "4a8ba8cc-39a9-4a77-a93a-769dad24a760",
            "schema_id": {"namespace": "omh", "name": "heart-rate", "version": "2.0"},
            "source_creation_date_time": time,
            "modality": "sensed",
        },
        "body": {
            "heart_rate": {"value": 72, "unit": "beats/min"},
            "effective_time_frame": {"date_time": time},
        },
    }


def good_bundle(datapoint=None):
    text = json.dumps(datapoint or good_datapoint())
    data = base64.b64encode(text.encode()).decode()
    return {
        "resourceType": "Bundle",
        "type": "batch",
        "entry": [
            {
                "resource": {
                    "resourceType": "Observation",
                    "status": "final",
                    "identifier": [{"system": "https://gw.example/ids", "value": "1"}],
                    "code": {"coding": [{"system": OPEN_MHEALTH, "code": "omh:heart-rate:2.0"}]},
                    "subject": {"reference": "Patient/1"},
                    "device": {"reference": "Device/1"},
                    "valueAttachment": {"contentType": "application/json", "data": data},
                },
                "request": {"method": "POST", "url": "Observation"},
            }
        ],
    }


def known_bad():
    """Documents that must be refused, by what is wrong with them."""

    def datapoint(change):
        document = good_datapoint()
        change(document)
        return document

    def resource(change):
        document = good_bundle()
        change(document["entry"][0]["resource"])
        return document

    changes = {
        "unit bpm": lambda d: d["body"]["heart_rate"].update(unit="bpm"),
        "missing uuid": lambda d: d["header"].pop("uuid"),
        "value as text": lambda d: d["body"]["heart_rate"].update(value="72"),
        "version as number": lambda d: d["header"]["schema_id"].update(version=2.0),
        "no time frame": lambda d: d["body"].pop("effective_time_frame"),
        "time without offset": lambda d: d["body"]["effective_time_frame"].update(
            date_time="2026-11-21T18:25:48"
        ),
        "uuid that is none": lambda d: d["header"].update(uuid="1"),
    }
    for name, change in changes.items():
        bad = datapoint(change)
        yield name, {"kind": "datapoint", "document": bad}
        yield name + ", in a bundle", {"kind": "bundle", "document": good_bundle(bad)}
    changes = {
        "unknown element": lambda r: r.update(foo=1),
        "missing status": lambda r: r.pop("status"),
        "two codings": lambda r: r["code"]["coding"].append({"code": "8867-4"}),
        "base64 without padding": lambda r: r["valueAttachment"].update(data="e30"),
        "raw UTF-8": lambda r: r["valueAttachment"].update(
            data=base64.b64encode('{"ü":1}'.encode()).decode()
        ),
        "no data": lambda r: r["valueAttachment"].pop("data"),
    }
    for name, change in changes.items():
        yield name, {"kind": "bundle", "document": resource(change)}
    put = good_bundle()
    put["entry"][0]["request"]["method"] = "PUT"
    yield "PUT", {"kind": "bundle", "document": put}


def prove():
    """Stops the run unless this judge tells good from bad."""
    judge({"kind": "datapoint", "document": good_datapoint()})
    judge({"kind": "bundle", "document": good_bundle()})
    for name, line in known_bad():
        try:
            judge(line)
        except Refusal:
            continue
        sys.exit(f"documents.py: the judge accepts a document with: {name}")


def main(arguments):
    verdicts = arguments[:1] == ["--verdicts"]
    paths = arguments[1:] if verdicts else arguments
    if len(paths) != 1:
        sys.exit(__doc__)
    prove()
    accepted = 0
    with open(paths[0], encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            try:
                judge(json.loads(text), strict=not verdicts)
            except Refusal as error:
                if not verdicts:
                    sys.exit(f"documents.py: line {number} is refused: {error}")
                print("refused: " + " ".join(str(error).split())[:200])
                continue
            except (KeyError, ValueError) as error:
                sys.exit(f"documents.py: line {number} is no document: {error!r}")
            accepted += 1
            if verdicts:
                print("accepted")
    if not verdicts:
        # Nothing judged is nothing proved.
        if accepted == 0:
            sys.exit("documents.py: no documents")
        print(f"{accepted} documents accepted")


if __name__ == "__main__":
    main(sys.argv[1:])
