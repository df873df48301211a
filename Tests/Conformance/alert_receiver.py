"""A receiver of alerts: what Standard Webhooks, ntfy and healthchecks are sent.

    alert_receiver.py DIRECTORY [SECRET]

Prints its port as the only line, then answers on 127.0.0.1 until it is ended. Each request is appended to
DIRECTORY/requests.jsonl with its method, path, headers and body; a POST to /in is verified by the standardwebhooks
library with SECRET and refused with 401 if that fails. While DIRECTORY/answer holds a status, that is answered.
"""

import email.header
import json
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

directory = pathlib.Path(sys.argv[1])
webhook = Webhook(sys.argv[2]) if len(sys.argv) > 2 else None


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def take(self):
        answer = directory / "answer"
        status = int(answer.read_text()) if answer.exists() else 200
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if status == 200 and self.path == "/in":
            try:
                webhook.verify(body, dict(self.headers))
            except WebhookVerificationError:
                status = 401
        title = self.headers.get("Title", "")
        with open(directory / "requests.jsonl", "a") as file:
            file.write(json.dumps({
                "method": self.command, "path": self.path, "status": status, "body": body,
                # As a server of ntfy reads it: RFC 2047.
                "title": str(email.header.make_header(email.header.decode_header(title))),
                "headers": {name.lower(): value for name, value in self.headers.items()}}) + "\n")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = take

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
