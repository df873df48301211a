"""A receiver of webhooks that believes nothing: each delivery is verified by the standardwebhooks library.

    webhook_receiver.py SECRET [ndjson|json]

Prints its port as the only line, then answers on 127.0.0.1 until it is ended.
GET /counts tells {"stored": distinct heart rates, "intervals": distinct RR intervals, "repeated": how many came
again, "refused": bad signatures, "gap" and "coverage": distinct entries of the gap ledger}.
"""

import json
import signal
import sys
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(sys.argv[1])
form = sys.argv[2] if len(sys.argv) > 2 else "ndjson"
seen: set[str] = set()
counts = {"stored": 0, "intervals": 0, "repeated": 0, "refused": 0, "verified": 0, "gap": 0, "coverage": 0}
lock = threading.Lock()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(200, json.dumps(counts).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode("ascii")
        try:
            sent = webhook_time(self.headers)
            # The library reads one JSON document, of a time near this clock's. The gateway's may be simulated, and
            # its body several documents; the signature is over the bytes all the same.
            if form == "json" and abs((datetime.now(timezone.utc) - sent).total_seconds()) < 240:
                points = webhook.verify(body, dict(self.headers))
                counts["verified"] += 1
            else:
                signed = webhook.sign(
                    self.headers["webhook-id"], sent, body)
                if signed not in self.headers["webhook-signature"].split():
                    raise WebhookVerificationError("no matching signature found")
                points = [json.loads(line) for line in body.splitlines()]
                if form == "json":
                    points = points[0]
        except WebhookVerificationError:
            with lock:
                counts["refused"] += 1
            return self.answer(401)
        with lock:
            for point in points:
                ledger = next((kind for kind in ("gap", "coverage") if kind in point), None)
                if ledger:
                    identity = point[ledger]["id"]
                    counts[ledger] += identity not in seen
                    seen.add(identity)
                    continue
                identity = point["data_point"]["header"]["uuid"]
                kind = "stored" if "heart_rate" in point["data_point"]["body"] else "intervals"
                counts["repeated" if identity in seen else kind] += 1
                seen.add(identity)
        self.answer(204)

    def log_message(self, *_: object) -> None:
        pass


def webhook_time(headers):
    return datetime.fromtimestamp(int(headers["webhook-timestamp"]), timezone.utc)


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.pause()
