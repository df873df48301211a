"""Reads a Realtime Database as the official Admin SDK sees it: firebase_reader.py PORT USER SHARE

Prints {"stored": samples of the user, "shared": those of the share, "latest": the newest heart rate's time or null}.
"""

import json
import os
import sys

port, user, share = sys.argv[1:]
os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{port}"

import firebase_admin  # noqa: E402
from firebase_admin import db  # noqa: E402

firebase_admin.initialize_app(options={"projectId": "p", "databaseURL": f"http://127.0.0.1:{port}?ns=p"})
history = db.reference(f"users/{user}/heartRate").get() or {}
shared = db.reference(f"publicStreams/{share}/heartRate").get(shallow=True) or {}
latest = db.reference(f"publicStreams/{share}/latest").get() or {}
times = [int(key.split("-")[0]) for key in sorted(history)]
if times != sorted(times):
    sys.exit("the keys do not sort by time")
for sample in history.values():
    if not (30 <= sample["bpm"] <= 250 and sample["start"].endswith("Z") and sample["us"] > 0):
        sys.exit(f"not a heart rate: {sample}")
for key in shared:
    if len(key.split("-")[1]) != 12:
        sys.exit("an identifier is public")
print(json.dumps({"stored": len(history), "shared": len(shared), "latest": latest.get("us")}))
