"""Reads and judges all Observations of a FHIR server, with the R4B models of fhir.resources: of an Observation
they are those of R4.

    fhir_reader.py BASE TOKEN

Prints {"stored": heart rates, an average counted as the rates it is of; "repeated": Observations whose identifier
another one has; "gaps", "days"}. Exits with 1 at the first Observation that is not as docs/use/destinations.md has it.
"""

import datetime
import json
import sys
import urllib.request
import uuid

from fhir.resources.R4B.observation import Observation

LOINC = ("http://loinc.org", "8867-4")
UUIDS = "urn:ietf:rfc:3986"
CAUSES = "urn:x-edge-gateway:gap-cause"
PAGE = 1000


def pages(base, token):
    offset = 0
    while True:
        request = urllib.request.Request(
            f"{base}/Observation?_count={PAGE}&_offset={offset}&_sort=_id",
            headers={"Accept": "application/fhir+json", "Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            entries = [
                entry["resource"] for entry in json.load(answer).get("entry", [])
                if entry["resource"]["resourceType"] == "Observation"]
        yield from entries
        if not entries:
            return
        offset += PAGE


def codes(concept):
    return {(coding.get("system"), coding.get("code")) for coding in concept["coding"]}


def want(condition, what):
    if not condition:
        raise ValueError(what)


def quantity(value, code):
    want(value["system"] == "http://unitsofmeasure.org" and value["code"] == code, f"unit: {value}")
    return value["value"]


def judge(document):
    """Gives what it is, and how many heart rates it is of."""
    Observation.model_validate(document)
    want(document["status"] == "final", "status")
    identifiers = document["identifier"]
    want(len(identifiers) == 1 and identifiers[0]["system"] == UUIDS, "identifier")
    uuid.UUID(identifiers[0]["value"].removeprefix("urn:uuid:"))
    want(document["device"].get("reference") or document["device"]["identifier"]["value"], "device")
    parts = {next(iter(codes(part["code"]))): part for part in document.get("component", [])}
    if LOINC not in codes(document["code"]):
        want(codes(document["code"]) == {("urn:x-edge-gateway:code", "coverage")}, "code")
        covered = quantity(document["valueQuantity"], "s")
        expected = quantity(parts.pop(("urn:x-edge-gateway:code", "expected"))["valueQuantity"], "s")
        missing = [quantity(part["valueQuantity"], "s") for (system, _), part in parts.items() if system == CAUSES]
        want(abs(covered + sum(missing) - expected) < 1, f"a day's seconds: {document}")
        return "days", 0
    want(any("vital-signs" in pair for concept in document["category"] for pair in codes(concept)), "category")
    if "dataAbsentReason" in document:
        want("valueQuantity" not in document, "a value and none")
        want(any(system == CAUSES for system, _ in codes(document["dataAbsentReason"])), "cause")
        return "gaps", 0
    want(20 <= quantity(document["valueQuantity"], "/min") <= 250, "value")
    time = document.get("effectiveDateTime") or document["effectivePeriod"]["end"]
    want(datetime.datetime.fromisoformat(time).utcoffset() is not None, "time")
    count = parts.get(("http://terminology.hl7.org/CodeSystem/observation-statistics", "count"))
    want((count is None) == ("effectiveDateTime" in document), "an average says of how many")
    return "stored", count["valueInteger"] if count else 1


def main(base, token):
    seen = set()
    found = {"stored": 0, "repeated": 0, "gaps": 0, "days": 0}
    for document in pages(base, token):
        try:
            what, rates = judge(document)
        except (ValueError, KeyError, TypeError, StopIteration) as error:
            sys.exit(f"fhir_reader.py: {error!r} in {json.dumps(document)}")
        identity = document["identifier"][0]["value"]
        if identity in seen:
            found["repeated"] += 1
        elif what == "stored":
            found["stored"] += rates
        else:
            found[what] += 1
        seen.add(identity)
    print(json.dumps(found))


main(*sys.argv[1:])
