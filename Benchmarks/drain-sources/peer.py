"""A client as one writes it with requests and sqlite3: what the gateway's delivery is measured beside.

    peer.py DATABASE EXPORT EXCHANGE INVITATION DEVICE PATIENT

Takes the samples of an export file into a database, redeems the invitation, stops itself (SIGSTOP), delivers
all of them once it is told to go on (SIGCONT), and stops itself again, to be looked at.

It is given every advantage: one session for all requests, frames of two octets decoded by hand, no checksums,
no renewal of tokens, no retries, and a row is marked with its bundle's others in one transaction (WAL,
synchronous=FULL).
"""

import base64
import json
import os
import signal
import sqlite3
import sys

import requests

ENTRIES_MAX = 100
SECONDS_MAX = 60
SYSTEM = "urn:peer"


def fill(path: str, export: str) -> sqlite3.Connection:
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute(
        "CREATE TABLE sample (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, time TEXT NOT NULL,"
        " frame BLOB NOT NULL, delivered INTEGER NOT NULL DEFAULT 0)"
    )
    store.execute("CREATE INDEX waiting ON sample (id) WHERE delivered = 0")
    store.execute("BEGIN")
    with open(export, encoding="ascii") as file:
        for line in file:
            sample = json.loads(line)
            if "uuid" in sample:
                store.execute(
                    "INSERT INTO sample (uuid, time, frame) VALUES (?, ?, ?)",
                    (sample["uuid"], sample["time"], bytes.fromhex(sample["frame"])),
                )
    store.execute("COMMIT")
    return store


def redeem(session: requests.Session, exchange: str, token: str) -> str:
    answer = session.post(f"{exchange}/api/v1/invitation/{token}", timeout=SECONDS_MAX)
    answer.raise_for_status()
    grant = answer.json()["grant"]
    verifier = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    answer = session.post(
        f"{exchange}/o/token/", data=grant | {"code_verifier": verifier}, timeout=SECONDS_MAX
    )
    answer.raise_for_status()
    return answer.json()["access_token"]


def entry(uuid: str, at: str, bpm: int, device: str, patient: str) -> dict:
    point = {
        "header": {
            "uuid": uuid,
            "schema_id": {"namespace": "omh", "name": "heart-rate", "version": "2.0"},
            "source_creation_date_time": at,
            "modality": "sensed",
        },
        "body": {
            "heart_rate": {"value": bpm, "unit": "beats/min"},
            "effective_time_frame": {"date_time": at},
        },
    }
    return {
        "resource": {
            "resourceType": "Observation",
            "status": "final",
            "identifier": [{"system": SYSTEM, "value": uuid}],
            "code": {
                "coding": [{"system": "https://w3id.org/openmhealth", "code": "omh:heart-rate:2.0"}]
            },
            "subject": {"reference": f"Patient/{patient}"},
            "device": {"reference": f"Device/{device}"},
            "valueAttachment": {
                "contentType": "application/json",
                "data": base64.b64encode(json.dumps(point).encode()).decode(),
            },
        },
        "request": {"method": "POST", "url": "Observation"},
    }


def drain(
    store: sqlite3.Connection, session: requests.Session, exchange: str, device: str, patient: str
) -> None:
    while True:
        rows = store.execute(
            "SELECT id, uuid, time, frame FROM sample WHERE delivered = 0 ORDER BY id LIMIT ?",
            (ENTRIES_MAX,),
        ).fetchall()
        if not rows:
            return
        bundle = {
            "resourceType": "Bundle",
            "type": "batch",
            "entry": [entry(uuid, at, frame[1], device, patient) for _, uuid, at, frame in rows],
        }
        answer = session.post(f"{exchange}/FHIR/R5/", json=bundle, timeout=SECONDS_MAX)
        answer.raise_for_status()
        entries = answer.json()["entry"]
        if len(entries) != len(rows):
            sys.exit("miscounted")
        done = [
            (row[0],)
            for row, told in zip(rows, entries)
            if told["response"]["status"][:3] in ("201", "409")
        ]
        if not done:
            sys.exit("nothing was taken")
        store.execute("BEGIN")
        store.executemany("UPDATE sample SET delivered = 1 WHERE id = ?", done)
        store.execute("COMMIT")


def main(
    database: str, export: str, exchange: str, invitation: str, device: str, patient: str
) -> None:
    store = fill(database, export)
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {redeem(session, exchange, invitation)}"
    os.kill(os.getpid(), signal.SIGSTOP)
    drain(store, session, exchange, device, patient)
    os.kill(os.getpid(), signal.SIGSTOP)


main(*sys.argv[1:])
