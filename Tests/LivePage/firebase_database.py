"""A Realtime Database for tests of the page in deploy/firebase: Tests/Conformance/firebase_front.py, under the rules of
deploy/firebase/database.rules.json."""

import contextlib
import hashlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARE = "0123456789abcdef0123456789abcdef"


class Database:
    def __init__(self, port: int):
        self.host = f"127.0.0.1:{port}"
        user = self.ask("POST", "/identitytoolkit.googleapis.com/v1/accounts:signUp?key=AIza-test", {})
        self.token = user["idToken"]
        self.ask("PUT", f"/shares/{SHARE}.json?auth={self.token}", user["localId"])

    def ask(self, method: str, path: str, body: object = None) -> object:
        data = None if method == "DELETE" else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.host}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def rate(self, bpm: float, age: float = 0) -> None:
        self.ask("PUT", f"/publicStreams/{SHARE}/latest.json?auth={self.token}",
                 {"bpm": bpm, "us": int((time.time() - age) * 1e6)})

    def history(self, values: dict[float, float]) -> None:
        """Heart rates by how many seconds ago they were, written as a gateway writes them."""
        batch = {}
        for ago, bpm in values.items():
            at = time.time() - ago
            stamp = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            key = f"{int(at * 1000)}-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
            batch[f"publicStreams/{SHARE}/heartRate/{key}"] = {"bpm": bpm, "start": stamp, "end": stamp}
        self.ask("PATCH", f"/.json?auth={self.token}", batch)

    def end(self) -> None:
        self.ask("DELETE", f"/publicStreams/{SHARE}.json?auth={self.token}")

    def link(self, share: str = SHARE) -> str:
        return f"file://{ROOT}/deploy/firebase/public/index.html#{self.host}/{share}"


@contextlib.contextmanager
def running_database() -> Iterator[Database]:
    front = subprocess.Popen(
        [sys.executable, ROOT / "Tests/Conformance/firebase_front.py"], stdout=subprocess.PIPE, text=True)
    try:
        yield Database(int(front.stdout.readline()))
    finally:
        front.kill()
        front.wait()
