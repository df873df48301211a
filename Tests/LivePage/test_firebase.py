"""deploy/firebase/public/index.html against what a Realtime Database does under deploy/firebase/database.rules.json."""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from waiting import until

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


@pytest.fixture
def database():
    front = subprocess.Popen(
        [sys.executable, ROOT / "Tests/Conformance/firebase_front.py"], stdout=subprocess.PIPE, text=True)
    try:
        yield Database(int(front.stdout.readline()))
    finally:
        front.kill()
        front.wait()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_shared_heart_rate_is_seen_as_it_comes_and_no_longer_when_it_is_old(database, visit, scheme):
    page = visit(database.link(), "phone", scheme)
    until(page, "words.textContent === 'Nothing has been shared yet.'")
    database.rate(72)
    until(page, "rate.textContent === '72' && words.textContent === 'Now'")
    assert not Axe().run(page).response["violations"]
    database.rate(80.6)
    until(page, "rate.textContent === '81'")
    page.evaluate("{ const now = Date.now.bind(Date); Date.now = () => now() + 600000; }")
    until(page, "rate.textContent === '–' && words.textContent === 'No heart rate for 10 min'")


def test_who_has_the_link_sees_that_sharing_has_ended(database, visit):
    database.rate(72)
    page = visit(database.link())
    until(page, "rate.textContent === '72'")
    database.end()
    until(page, "rate.textContent === '–' && words.textContent === 'This heart rate is no longer shared.'")


def test_a_heart_rate_from_before_an_outage_is_not_shown_as_the_present_one(database, visit):
    database.rate(72, age=3600 * 5)
    page = visit(database.link())
    until(page, "words.textContent.startsWith('No heart rate since')")
    assert page.locator("#rate").text_content() == "–"


@pytest.mark.parametrize("fragment", ["", "#", "#evil.example", "#a/../b", f"#x y/{SHARE}", "#127.0.0.1:1/short"])
def test_a_link_that_is_cut_short_says_so(visit, fragment):
    page = visit(f"file://{ROOT}/deploy/firebase/public/index.html{fragment}")
    assert "not complete" in page.locator("#words").text_content()
