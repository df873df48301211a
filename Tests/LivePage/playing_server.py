"""Plays the gateway's side of the live page: the real files, made-up straps, faults on demand."""

import json
import math
import re
import secrets
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = Path(__file__).resolve().parents[2] / "Sources/EdgeGateway/Live/Page"
# As the gateway does: a rate older than this is none, seconds.
RATE_AGE_MAX = 10
REPEAT_SECONDS = 2
LOOK_SECONDS = 0.03


def stamp(seconds):
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def document(name):
    """A page as the gateway puts it together: a line {{chart.js}} stands for that file."""
    return re.sub(r"^\{\{([a-z-]+\.(?:css|js))\}\}\n", lambda part: (PAGES / part[1]).read_text(),
                  (PAGES / name).read_text(), flags=re.MULTILINE)


class Strap:
    """One strap; it sends once a second until `stop`."""

    def __init__(self, sensor, bpm=72, **more):
        self.sensor, self.bpm, self.more = sensor, bpm, more
        self.assignment, self.began = sensor, 0
        self.last_frame = None  # while it sends
        self.phase = 0  # of its second

    def stop(self, age=0.0):
        self.last_frame = time.time() - age

    def go_to_another(self, assignment):
        self.assignment, self.began = assignment, time.time()

    def report(self, scope):
        age = (time.time() + self.phase) % 1 if self.last_frame is None else time.time() - self.last_frame
        report = {"sensor": self.sensor, "assignment": self.assignment, "name": f"Strap {self.sensor}"}
        if scope == "full" and "name" in self.more:
            report["name"] = self.more["name"]
        if self.bpm is None:
            return report
        report["seconds_since_frame"] = round(age, 3)
        if age <= RATE_AGE_MAX:
            report["bpm"] = self.bpm
        if scope == "full":
            report |= {"contact": True, "battery_percent": 80, "link": "streaming",
                       "link_seconds": 3700.2, "rr_ms": [812, 799]} | self.more
        return report


class PlayingServer:
    """State that a test sets, and the server that shows it. `port` stays over a restart."""

    def __init__(self):
        self.scope = "full"
        self.straps = [Strap(1, 72), Strap(2, 88, contact=False, battery_percent=9)]
        self.token = None  # when set, needed
        self.full = False  # too many viewers
        self.look = LOOK_SECONDS  # between two looks whether something changed
        self.silent = False  # streams stay open and say nothing
        self.gaps = []  # (seconds ago from, until or None, cause)
        self.missing = []  # (seconds ago from, until): no samples and no gap either
        self.gateway = {
            "well": True, "health": [], "pending": 12, "held": 0, "dead": 0, "delivered": 3400,
            "oldest_unsent": stamp(time.time() - 30), "last_delivery": stamp(time.time() - 4),
            "clock_trusted": True, "destinations": []}
        self.uploads = 12
        self.enrolled = []
        self.fleet = []  # gateways of `edge-gateway fleet`; None: it is away
        self.is_fleet_old = False  # it should have asked them again
        self.asked = []  # paths
        self.port = 0
        self.start()

    def start(self):
        self.life = object()  # streams end with the one they began in
        handler = type("Handler", (Handler,), {"playing": self})
        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.life = None
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def live(self):
        return {"at": stamp(time.time()), "scope": self.scope,
                "straps": [strap.report(self.scope) for strap in self.straps]}

    def state(self):
        """What the gateway says of itself; of batteries what the straps report."""
        low = [{"name": "battery-low", "severity": "warning", "since": self.gateway["oldest_unsent"], "sensor": strap.sensor,
                "message": f"{report['name']} has {report['battery_percent']} % of its battery left",
                "advice": "change the strap's battery; recording goes on until it is empty"}
               for strap in self.straps for report in [strap.report("full")] if report.get("battery_percent", 80) < 15]
        return self.gateway | {"well": self.gateway["well"] and not low, "health": self.gateway["health"] + low}

    def history(self, worn, minutes):
        bucket = {10: 5, 1440: 120}[minutes]
        now = time.time()
        without = [(now - a, now if b is None else now - b) for a, b, *_ in self.gaps]
        without += [(now - a, now - b) for a, b in self.missing]
        points = []
        at = math.floor((now - minutes * 60) / bucket) * bucket
        while at + bucket <= now:
            # A column with any of its seconds outside of a silence has samples.
            if at + bucket > worn.began and not any(a <= at + 0.5 and at + bucket - 0.5 <= b for a, b in without):
                mean = 72 + 9 * math.sin(at / (bucket * 9)) + 3 * math.sin(at / (bucket * 2.3))
                points.append({"at": stamp(at), "low": round(mean - 3), "mean": round(mean, 1),
                               "high": round(mean + 4), "count": bucket})
            at += bucket
        gaps = []
        for since, until, cause in self.gaps:
            gap = {"from": stamp(now - since)}
            if until is not None:
                gap["until"] = stamp(now - until)
            if self.scope == "full":
                gap["cause"] = cause
            gaps.append(gap)
        return {"sensor": worn.sensor, "from": stamp(now - minutes * 60), "until": stamp(now),
                "bucket_seconds": bucket, "points": points, "gaps": gaps}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    playing = None

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page went away

    def json(self, value, status=200):
        self.send(status, json.dumps(value).encode())

    def problem(self, status, code, message, advice):
        self.json({"code": code, "message": message, "advice": advice}, status)

    def page(self, name):
        nonce = secrets.token_urlsafe(16)
        policy = (f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
                  "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                  "frame-ancestors 'none'")
        body = document(name).replace("{{NONCE}}", nonce).encode()
        self.send(200, body, "text/html; charset=utf-8",
                  Content_Security_Policy=policy, Cache_Control="no-store")

    def do_GET(self):
        playing, (path, _, query) = self.playing, self.path.partition("?")
        if playing.life is None:  # stopped: on a connection from before there is no server either
            self.close_connection = True
            return
        playing.asked.append(path)
        pages = {"/": "page.html", "/enroll": "enroll.html", "/fleet": "fleet.html"}
        if path in pages:
            return self.page(pages[path])
        if path == "/v1/fleet/hosts" and playing.fleet is not None:
            return self.json({"time": stamp(time.time()), "old": playing.is_fleet_old, "gateways": playing.fleet})
        if playing.token and f"edge-gateway={playing.token}" not in self.headers.get("Cookie", ""):
            return self.problem(401, "token-needed", "this link is no longer valid", "ask again")
        if playing.full and path == "/v1/live":
            return self.problem(503, "too-many-viewers", "32 viewers are watching", "close one")
        if path == "/v1/live":
            return self.stream()
        if path == "/v1/live/now":
            return self.json(playing.live())
        if path == "/v1/live/history":
            words = dict(pair.split("=") for pair in query.split("&"))
            worn = next((strap for strap in playing.straps if str(strap.assignment) == words["assignment"]), None)
            if not worn:
                return self.problem(400, "unknown-sensor", "no such strap", "look at those that can be seen")
            return self.json(playing.history(worn, int(words["minutes"])))
        if path == "/v1/live/uploads" and playing.scope == "full":
            now = time.time()
            return self.json({"more": True, "uploads": [
                {"at": stamp(now - 10 * n), "enrollment": "peter", "samples": 100 - n,
                 "first": stamp(now - 10 * n - 9), "last": stamp(now - 10 * n),
                 "outcome": "delivered" if n != 1 else "refused"}
                for n in range(playing.uploads)]})
        self.problem(404, "not-found", "there is nothing here", "look elsewhere")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        playing = self.playing
        if self.path == "/v1/session":
            if body["token"] == playing.token:
                return self.send(204, Set_Cookie=f"edge-gateway={playing.token}; Path=/; HttpOnly; "
                                 "SameSite=Strict")
            return self.problem(401, "bad-token", "this link is wrong or no longer valid",
                                "ask for a new one: edge-gateway share")
        if self.path == "/v1/enroll-once":
            playing.enrolled.append(body)
            if body["link"].startswith("https://"):
                return self.json({"name": "peter", "exchange": "https://exchange.example"})
            return self.problem(400, "bad-link", "this is no invitation link",
                                "paste the whole link from the exchange")
        self.problem(404, "not-found", "there is nothing here", "look elsewhere")

    def stream(self):
        playing = self.playing
        life = playing.life
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        sent = {}
        try:
            self.wfile.write(b"retry: 1000\n\n")
            while playing.life is life:
                reports = {"straps": playing.live()}
                if playing.scope == "full":
                    reports["gateway"] = playing.state()
                for name, report in reports.items():
                    still = [(s["sensor"], s.get("bpm"), round(time.time() - s.get("seconds_since_frame", 0), 1))
                             for s in report["straps"]] if name == "straps" else dict(report)
                    known, at = sent.get(name, (None, 0))
                    if not playing.silent and (known != still or time.time() - at > REPEAT_SECONDS):
                        sent[name] = (still, time.time())
                        self.wfile.write(f"event: {name}\ndata: {json.dumps(report)}\n\n".encode())
                time.sleep(playing.look)
        except (BrokenPipeError, ConnectionResetError):
            pass
