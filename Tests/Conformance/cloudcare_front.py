"""What CloudCare's wearables API does, its faults included, and nothing else. Only the standard library is used.

    cloudcare_front.py PATIENT...

Prints its port, then answers on 127.0.0.1 until it is ended.
GET /counts tells {"stored": different samples, "repeated": how many came again, "lost": how many were taken for a
repetition and were none}.
GET /pairings tells the devices and their patients.
"""

import json
import math
import signal
import sys
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENTS = set(sys.argv[1:])
API = "/api/v1/wearables"
HEART_RATE = "HKQuantityTypeIdentifierHeartRate"
pairings: list[tuple[str, str]] = []
metrics: dict[tuple, str] = {}
counts = {"stored": 0, "repeated": 0, "lost": 0}
lock = threading.Lock()


class Refusal(Exception):
    def __init__(self, status: int, detail: str, **more):
        self.status, self.body = status, {"detail": detail, **more}


def wrong(field: str, message: str) -> Refusal:
    return Refusal(422, "Validation error", errors=[{"field": field, "message": message, "type": "value_error"}])


def needed(body: dict, name: str, kind=str):
    if not isinstance(body.get(name), kind):
        raise wrong(name, "Field required")
    return body[name]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def pair(body: dict) -> dict:
    device, patient = needed(body, "deviceId"), needed(body, "androidUserId")
    for name in ("userId", "deviceName", "deviceType", "generatedAt", "expiresAt", "pairingCode"):
        needed(body, name)
    try:
        moment(body["generatedAt"])
        expires = moment(body["expiresAt"])
    except ValueError:
        raise Refusal(500, "An internal error occurred") from None
    if expires < datetime.now(timezone.utc):
        raise Refusal(400, "Pairing code has expired")
    isNew = (device, patient) not in pairings
    isTaken = any(known == device and other != patient for known, other in pairings)
    if isNew:
        pairings.append((device, patient))
        # The pairing stays, whatever the answer says.
        if patient not in PATIENTS or isTaken:
            raise Refusal(500, "An internal error occurred")
    return {
        "message": "Device paired successfully", "pairing_id": str(len(pairings)), "ios_user_id": body["userId"],
        "ios_device_id": device, "android_user_id": patient, "paired_at": body["generatedAt"],
        "device_name": body["deviceName"],
    }


def load(body: dict) -> dict:
    device = needed(body, "deviceId")
    needed(body, "userId")
    items = needed(body, "metrics", list)
    for index, item in enumerate(items):
        if isinstance(item.get("value"), bool) or not isinstance(item.get("value"), (int, float)):
            raise wrong(f"metrics.{index}.value", "Input should be a valid number")
        for name in ("type", "unit", "startDate", "endDate"):
            if not isinstance(item.get(name), str):
                raise wrong(f"metrics.{index}.{name}", "Field required")
    patients = [patient for known, patient in pairings if known == device]
    if not patients:
        raise Refusal(403, "Device not paired. Please pair the device first.")
    if patients[0] not in PATIENTS:
        raise Refusal(404, "Paired patient account not found")
    total = stored = duplicates = errors = 0
    for item in items:
        if item["type"] != HEART_RATE:
            continue
        total += 1
        if not isinstance(item.get("metadata"), dict):
            raise Refusal(500, "Failed to import health data")
        try:
            end = int(moment(item["endDate"]).timestamp() * 1000)
            moment(item["startDate"])
        except ValueError:
            errors += 1
            continue
        if math.isnan(item["value"]):
            raise Refusal(500, "An internal error occurred")  # in truth it is stored, and nothing can be read again
        key = (patients[0], device, item["type"], end)
        sample = json.dumps([item["value"], item["metadata"]], sort_keys=True)
        if key in metrics:
            duplicates += 1
            counts["repeated" if metrics[key] == sample else "lost"] += 1
        else:
            stored += 1
            counts["stored"] += 1
            metrics[key] = sample
    return {
        "message": "Import done", "device_id": device, "device_type": "ble_heart_rate", "total_metrics": total,
        "stored_count": stored, "duplicate_count": duplicates, "error_count": errors, "was_duplicate": stored == 0,
    }


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        documents = {"/health": {"status": "healthy"}, "/counts": counts, "/pairings": dict(pairings)}
        if self.path in documents:
            self.answer(200, documents[self.path])
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        calls = {f"{API}/devices/pair": pair, f"{API}/import/apple-health": load}
        try:
            call = calls.get(self.path)
            if call is None:
                raise Refusal(404, "Not Found")
            try:
                body = json.loads(content)
            except ValueError:
                raise wrong("body", "JSON decode error") from None
            with lock:
                document = call(body)
            self.answer(201, document)
        except Refusal as refusal:
            self.answer(refusal.status, refusal.body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.pause()
