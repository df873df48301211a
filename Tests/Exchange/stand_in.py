"""One server of an exchange with a limited number of workers: stand_in.py PORT WORKERS LEDGER NAME COST

What of docs/develop/exchange.md a proxy can break: workers that take one request after the other and go on when the client
has gone; entries that are committed one by one; an identifier that is looked for before it is written, so that a
request that is worked on twice at once leaves an orphan, a row without identifier. COST is the seconds an entry
takes. Several servers share LEDGER, an SQLite database, as real ones share their PostgreSQL.
"""
import json
import queue
import socket
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

SCHEMA = """
CREATE TABLE IF NOT EXISTS observation (id INTEGER PRIMARY KEY, identifier TEXT UNIQUE, wanted TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS arrival (request TEXT NOT NULL, server TEXT NOT NULL, proto TEXT, sender TEXT);
CREATE TABLE IF NOT EXISTS crowd (server TEXT PRIMARY KEY, most INTEGER NOT NULL);
"""
BUSY_SECONDS_MAX = 30


class Ledger:
    """The database: a connection a thread."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=BUSY_SECONDS_MAX, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=OFF")
        self.connection.executescript(SCHEMA)

    def do(self, statement, *values):
        return self.connection.execute(statement, values)

    def has(self, identifier):
        return self.do("SELECT 1 FROM observation WHERE identifier = ?", identifier).fetchone() is not None

    def store(self, identifier):
        row = self.do("INSERT INTO observation (wanted) VALUES (?)", identifier).lastrowid
        try:
            self.do("UPDATE observation SET identifier = ? WHERE id = ?", identifier, row)
        except sqlite3.IntegrityError:
            pass  # The loser's row stays.


class Crowd:
    """How many requests are at this server at once, waiting for a worker or not."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.lock = threading.Lock()
        self.now = self.most = 0

    def change(self, by, ledger):
        with self.lock:
            self.now += by
            if self.now > self.most:
                self.most = self.now
                ledger.do(
                    "INSERT INTO crowd VALUES (?, ?) ON CONFLICT (server) DO UPDATE SET most = max(most, excluded.most)",
                    self.name, self.most)


class Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    protocol_version = "HTTP/1.1"
    ledger = name = cost = leave = None

    def log_message(self, *_):
        pass

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {"status": "ok"})

    def do_POST(self):
        self.ledger.do(
            "INSERT INTO arrival VALUES (?, ?, ?, ?)", self.headers["X-Test-Request"], self.name,
            self.headers["X-Forwarded-Proto"], self.headers["X-Forwarded-For"])
        bundle = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = []
        for identifier in bundle["identifiers"]:
            known = self.ledger.has(identifier)
            time.sleep(bundle.get("cost", self.cost))
            if not known:
                self.ledger.store(identifier)
            answers.append(409 if known else 201)
        # Not later: the answer tells the proxy that there is a place.
        self.leave()
        self.answer(200, answers)


def work(waiting, crowd, path, name, cost):
    """A worker."""
    ledger = Ledger(path)
    while True:
        connection, address, counts = waiting.get()
        left = [] if counts else [True]

        def leave():
            if not left:
                left.append(True)
                crowd.change(-1, ledger)

        try:
            type("Handler", (Handler,), {
                "ledger": ledger, "name": name, "cost": cost, "leave": staticmethod(leave)})(
                    connection, address, None)  # fmt: skip
        except OSError:
            pass  # The client has gone.
        finally:
            leave()
            connection.close()


def main():
    port, workers, path, name, cost = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5])
    ledger = Ledger(path)
    crowd = Crowd(path, name)
    waiting = queue.Queue()
    for _ in range(workers):
        threading.Thread(target=work, args=(waiting, crowd, path, name, cost), daemon=True).start()
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    print("ready", flush=True)
    while True:
        connection, address = listener.accept()
        connection.settimeout(BUSY_SECONDS_MAX)
        # A health check needs a worker, and HAProxy does not count it among the server's requests.
        try:
            counts = connection.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL) == b"POST"
        except OSError:
            connection.close()
            continue
        if counts:
            crowd.change(1, ledger)
        waiting.put((connection, address, counts))


if __name__ == "__main__":
    main()
