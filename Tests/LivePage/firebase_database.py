"""A Realtime Database for tests of the page in deploy/firebase: Tests/Conformance/firebase_front.py, under the rules of
deploy/firebase/database.rules.json."""

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
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
