"""A client as one writes it with a system's own library and sqlite3: what a destination is measured beside.

    peer.py KIND EXPORT DATABASE WORD…

Takes the samples of an export file into a database, stops itself (SIGSTOP), and delivers all of them once it is
told to go on (SIGCONT). Prints the seconds and the seconds of the processor that delivering took.

It is given every advantage: no checksums, no retries, no renewal of tokens, one connection for all requests, and
samples are marked as delivered with their batch's others in one transaction (WAL, synchronous=FULL). A batch is as
large as the gateway's.
"""

import json
import os
import signal
import sqlite3
import sys
import time

BATCH = {
    "file": 500, "influx": 500, "victoria": 500, "postgrest": 500, "cloudcare": 300, "webhook": 500,
    "firebase": 500, "firestore": 500, "fhir": 100,
}
BATCH_STANDARD = 100


def fill(path, export):
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute(
        "CREATE TABLE sample (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, time TEXT NOT NULL,"
        " bpm INTEGER NOT NULL, delivered INTEGER NOT NULL DEFAULT 0)")
    store.execute("CREATE INDEX waiting ON sample (id) WHERE delivered = 0")
    store.execute("BEGIN")
    with open(export, encoding="ascii") as file:
        for line in file:
            sample = json.loads(line)
            if "uuid" in sample:
                store.execute(
                    "INSERT INTO sample (uuid, time, bpm) VALUES (?, ?, ?)",
                    (sample["uuid"], sample["time"], bytes.fromhex(sample["frame"])[1]))
    store.execute("COMMIT")
    return store


def point(uuid, at, bpm):
    return {
        "header": {
            "uuid": uuid, "schema_id": {"namespace": "omh", "name": "heart-rate", "version": "2.0"},
            "source_creation_date_time": at, "modality": "sensed"},
        "body": {
            "heart_rate": {"value": bpm, "unit": "beats/min"}, "effective_time_frame": {"date_time": at}},
    }


def microseconds(at):
    from datetime import datetime
    return int(datetime.fromisoformat(at).timestamp() * 1_000_000)


# Each gives a function that delivers one batch of (id, uuid, time, bpm).

def to_file(path):
    file = open(path, "a", encoding="ascii")

    def send(rows):
        for _, uuid, at, bpm in rows:
            file.write(json.dumps(point(uuid, at, bpm)) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return send


def to_webhook(url, secret):
    from datetime import datetime, timezone

    import requests
    from standardwebhooks.webhooks import Webhook
    session, webhook = requests.Session(), Webhook(secret)

    def send(rows):
        body = "\n".join(json.dumps({"sensor": "1", "data_point": point(*row[1:])}) for row in rows)
        now = datetime.now(timezone.utc)
        session.post(url, data=body, headers={
            "Content-Type": "application/x-ndjson", "webhook-id": rows[0][1],
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": webhook.sign(rows[0][1], now, body)}).raise_for_status()
    return send


def to_influx(port):
    from influxdb import InfluxDBClient
    client = InfluxDBClient("127.0.0.1", int(port), database="peer")

    def send(rows):
        client.write_points([
            {
                "measurement": "heart_rate", "tags": {"sensor": "1"}, "time": microseconds(at),
                "fields": {"bpm": float(bpm), "id": uuid},
            } for _, uuid, at, bpm in rows], time_precision="u")
    return send


def to_mqtt(port):
    import paho.mqtt.client as mqtt
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", int(port))
    client.loop_start()

    def send(rows):
        messages = [
            client.publish("peer/1/samples", json.dumps({"id": uuid, "time": at, "bpm": bpm}), qos=1)
            for _, uuid, at, bpm in rows]
        for message in messages:
            message.wait_for_publish(60)
    return send


def to_postgrest(address):
    import requests
    from postgrest import SyncPostgrestClient
    answer = requests.post(
        f"{address}/auth/v1/token?grant_type=password", headers={"apikey": "sb_publishable_test"},
        json={"email": "gateway@clinic.example", "password": "correct horse"}).json()
    client = SyncPostgrestClient(
        f"{address}/rest/v1", headers={
            "apikey": "sb_publishable_test", "Authorization": f"Bearer {answer['access_token']}"})

    def send(rows):
        client.from_("heart_rate").upsert(
            [{"id": uuid, "sensor": "1", "kind": "heart-rate", "measured_at": at, "bpm": bpm}
             for _, uuid, at, bpm in rows], ignore_duplicates=True, on_conflict="owner,id",
            returning="minimal").execute()
    return send


def to_firebase(address):
    os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = address.removeprefix("http://")
    import firebase_admin
    from firebase_admin import db
    # As a user, whom the rules judge as they judge the gateway.
    firebase_admin.initialize_app(options={
        "projectId": "p", "databaseURL": f"{address}?ns=p", "databaseAuthVariableOverride": {"uid": "peer"}})
    history = db.reference("users/peer/heartRate")

    def send(rows):
        history.update({
            f"{microseconds(at)}-{uuid}": {"bpm": bpm, "start": at, "us": microseconds(at)}
            for _, uuid, at, bpm in rows})
    return send


def to_firestore(address):
    from datetime import datetime

    from google.cloud.firestore_v1 import types
    from google.cloud.firestore_v1.services.firestore import FirestoreClient
    from google.cloud.firestore_v1.services.firestore.transports import FirestoreRestTransport
    from google.oauth2.credentials import Credentials
    client = FirestoreClient(transport=FirestoreRestTransport(
        host=address.removeprefix("http://"), url_scheme="http", credentials=Credentials(token="owner")))
    database = "projects/p/databases/(default)"

    def send(rows):
        writes = []
        for _, uuid, at, bpm in rows:
            time = types.Value(timestamp_value=datetime.fromisoformat(at))
            writes.append(types.Write(update=types.Document(
                name=f"{database}/documents/users/peer/heartRate/s1-{microseconds(at) // 1000}-{uuid}",
                fields={
                    "bpm": types.Value(double_value=bpm), "start": time, "end": time,
                    "sensor": types.Value(integer_value=1)})))
        client.commit(types.CommitRequest(database=database, writes=writes))
    return send


def to_fhir(address):
    import requests
    session = requests.Session()

    def send(rows):
        entries = []
        for _, uuid, at, bpm in rows:
            entries.append({
                "resource": {
                    "resourceType": "Observation", "status": "final",
                    "identifier": [{"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{uuid}"}],
                    "category": [{"coding": [{
                        "system": "http://terminology.hl7.org/CodeSystem/observation-category",
                        "code": "vital-signs"}]}],
                    "code": {"coding": [
                        {"system": "http://loinc.org", "code": "8867-4", "display": "Heart rate"},
                        {
                            "system": "urn:iso:std:iso:11073:10101", "code": "147842",
                            "display": "MDC_ECG_HEART_RATE"}]},
                    "effectiveDateTime": at,
                    "valueQuantity": {
                        "value": bpm, "unit": "beats/minute", "system": "http://unitsofmeasure.org", "code": "/min"},
                    "device": {
                        "type": "Device", "identifier": {"system": "urn:x-edge-gateway:strap", "value": "peer-1"}}},
                "request": {
                    "method": "POST", "url": "Observation",
                    "ifNoneExist": f"identifier=urn:ietf:rfc:3986|urn:uuid:{uuid}"}})
        answer = session.post(
            address, data=json.dumps({"resourceType": "Bundle", "type": "batch", "entry": entries}),
            headers={"Content-Type": "application/fhir+json", "Prefer": "return=minimal"})
        answer.raise_for_status()
        for entry in answer.json()["entry"]:
            if not entry["response"]["status"].startswith("20"):
                raise SystemExit("the FHIR server refused samples")
    return send


def to_cloudcare(address):
    import requests
    session = requests.Session()

    def send(rows):
        answer = session.post(f"{address}/api/v1/wearables/import/apple-health", json={
            "deviceId": "peer", "userId": "gw-1", "metrics": [
                {
                    "type": "HKQuantityTypeIdentifierHeartRate", "value": bpm, "unit": "count/min",
                    "startDate": at, "endDate": at, "metadata": {"uuid": uuid},
                } for _, uuid, at, bpm in rows]})
        answer.raise_for_status()
        if answer.json()["error_count"]:
            raise SystemExit("CloudCare refused samples")
    return send


KINDS = {
    "file": to_file, "webhook": to_webhook, "influx": to_influx, "victoria": to_influx, "mqtt": to_mqtt,
    "postgrest": to_postgrest, "firebase": to_firebase, "firestore": to_firestore, "fhir": to_fhir,
    "cloudcare": to_cloudcare,
}


def main(kind, export, database, *words):
    store = fill(database, export)
    send = KINDS[kind](*words)
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    began, used = time.monotonic(), time.process_time()
    while rows := store.execute(
            "SELECT id, uuid, time, bpm FROM sample WHERE delivered = 0 ORDER BY id LIMIT ?",
            (BATCH.get(kind, BATCH_STANDARD),)).fetchall():
        send(rows)
        store.execute("BEGIN")
        store.executemany("UPDATE sample SET delivered = 1 WHERE id = ?", [(row[0],) for row in rows])
        store.execute("COMMIT")
    print(time.monotonic() - began, time.process_time() - used, flush=True)
    # Threads of a library do not hold up the end.
    os._exit(0)


main(*sys.argv[1:])
