"""HAProxy with deploy/exchange/haproxy.cfg, two servers with workers, and gateways that send to it."""
import contextlib
import http.client
import json
import pathlib
import random
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import uuid

import pytest

HERE = pathlib.Path(__file__).parent
CONFIGURATION = HERE.parent.parent / "deploy/exchange/haproxy.cfg"
WORKERS = 2
START_SECONDS_MAX = 30
# Below the ports from which the kernel chooses one for an outgoing connection: none of those takes a port between
# its choice here and its use by a server.
PORTS = range(10_240, 32_768)


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class Exchange:
    """Servers of one exchange, and their HAProxy. `change` is applied to its configuration, for tests of the tests."""

    def __init__(self, folder, cost, workers, change=lambda text: text):
        self.folder, self.cost, self.workers, self.change = folder, cost, workers, change
        self.ledger = folder / "ledger.sqlite"
        self.ports = {"a": free_port(), "b": free_port()}
        self.front, self.plain, self.metrics = free_port(), free_port(), free_port()
        self.children = {}

    def start_server(self, name):
        child = subprocess.Popen(
            [sys.executable, str(HERE / "stand_in.py"), str(self.ports[name]), str(self.workers), str(self.ledger),
             name, str(self.cost)], stdout=subprocess.PIPE)  # fmt: skip
        self.children[name] = child
        assert child.stdout.readline() == b"ready\n"

    def kill_server(self, name):
        self.children[name].kill()
        self.children.pop(name).wait()

    def configuration(self):
        """The one that is shipped, with this machine's addresses and the servers' workers in it."""
        text = CONFIGURATION.read_text()
        for old, new in {
            "    chroot /var/lib/haproxy\n    user haproxy\n    group haproxy\n": "",
            "log /dev/log local0": f"log {self.folder}/log local0",
            "/run/haproxy/admin.sock": f"{self.folder}/admin.sock",
            "bind :443 ssl crt /etc/haproxy/exchange.pem": f"bind 127.0.0.1:{self.front} ssl crt {certificate(self.folder)}",
            "bind :80\n": f"bind 127.0.0.1:{self.plain}\n",
            "bind 127.0.0.1:8405": f"bind 127.0.0.1:{self.metrics}",
            "server a 10.0.0.11:8000 maxconn 2": f"server a 127.0.0.1:{self.ports['a']} maxconn {self.workers}",
            "server b 10.0.0.12:8000 maxconn 2": f"server b 127.0.0.1:{self.ports['b']} maxconn {self.workers}",
        }.items():
            assert text.count(old) == 1, f"{CONFIGURATION.name} has {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        return self.change(text)

    def start_proxy(self):
        file = self.folder / "haproxy.cfg"
        file.write_text(self.configuration())
        subprocess.run(["haproxy", "-c", "-q", "-f", file], check=True)
        self.children["haproxy"] = subprocess.Popen(["haproxy", "-db", "-q", "-f", file], stdin=subprocess.DEVNULL)
        until(self.proxy_listens, "HAProxy listens")
        return self

    def proxy_listens(self):
        code = self.children["haproxy"].poll()
        assert code is None, f"HAProxy ended with {code}"
        # It listens at its ports before its socket has its name.
        return connects(self.front) and (self.folder / "admin.sock").exists()

    def until_up(self, *names):
        """Until HAProxy has these servers for well, and no others."""
        until(lambda: self.up() == set(names), f"{names} are up")

    def up(self):
        """The servers that HAProxy has for well, or None if it gave no whole answer: it ends a connection that took
        longer than its 10 s to ask, as a machine that stands still for a while makes one do."""
        try:
            with socket.socket(socket.AF_UNIX) as admin:
                admin.connect(str(self.folder / "admin.sock"))
                admin.sendall(b"show stat\n")
                rows = admin.makefile().read().splitlines()
        except ConnectionError:
            return None
        # "UP", or "UP 1/3" on the way to being down.
        return {
            fields[1] for row in rows if (fields := row.split(","))[0] == "servers"
            and fields[1] in self.ports and fields[17].startswith("UP")}  # fmt: skip

    def stop(self):
        for child in self.children.values():
            child.kill()
            child.wait()

    # MARK: The books

    def rows(self, statement, *values):
        with contextlib.closing(sqlite3.connect(self.ledger, timeout=30)) as ledger:
            return ledger.execute(statement, values).fetchall()

    def stored(self):
        return sorted(row[0] for row in self.rows("SELECT identifier FROM observation WHERE identifier IS NOT NULL"))

    def orphans(self):
        return self.rows("SELECT count(*) FROM observation WHERE identifier IS NULL")[0][0]

    def arrivals(self):
        """How often each request reached a server."""
        return dict(self.rows("SELECT request, count(*) FROM arrival GROUP BY request"))

    def arrived_at(self, name):
        return self.rows("SELECT count(*) FROM arrival WHERE server = ?", name)[0][0]

    def most_at_once(self):
        """The most requests there were at each server at once, waiting for a worker or not."""
        return dict(self.rows("SELECT server, most FROM crowd"))

    # MARK: Requests

    def post(self, identifiers, patience=60, **more):
        """One request as a gateway sends it. Returns the answer's status, or None if there was none, and its entries'."""
        request = uuid.uuid4().hex
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.front, timeout=patience,
            context=ssl.create_default_context(cafile=certificate(self.folder)))  # fmt: skip
        try:
            connection.request(
                "POST", "/FHIR/R5/", json.dumps({"identifiers": identifiers, **more}),
                {"Content-Type": "application/json", "X-Test-Request": request, "X-Forwarded-Proto": "http"})  # fmt: skip
            answer = connection.getresponse()
            body = answer.read()
            return request, answer.status, json.loads(body) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return request, None, None
        finally:
            connection.close()


class Gateways:
    """So many gateways that each send bundles, the next after the answer to the one before."""

    # After an answer that settles nothing the same samples rest, at a gateway 30 s: here longer than any request
    # is worked on, which is the same.
    REST_SECONDS = 1.5

    def __init__(self, exchange, count, bundles, entries=2):
        self.exchange, self.bundles = exchange, bundles
        self.names = [
            [[f"{gateway}-{bundle}-{entry}" for entry in range(entries)] for bundle in range(bundles)]
            for gateway in range(count)]  # fmt: skip
        self.failed = []
        self.seconds = None
        self.threads = [threading.Thread(target=self.send, args=(one,), daemon=True) for one in self.names]

    def send(self, bundles):
        for identifiers in bundles:
            while True:
                request, status, entries = self.exchange.post(identifiers)
                if status == 200 and all(entry in (201, 409) for entry in entries):
                    break
                self.failed.append((request, status))
                time.sleep(self.REST_SECONDS)

    def start(self):
        self.begin = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def finish(self, seconds_max=120):
        end = time.monotonic() + seconds_max
        for thread in self.threads:
            thread.join(max(0, end - time.monotonic()))
            assert not thread.is_alive(), f"a gateway is not done; failed: {self.failed}"
        self.seconds = time.monotonic() - self.begin
        return self

    def all_identifiers(self):
        return sorted(identifier for bundles in self.names for some in bundles for identifier in some)


def certificate(folder):
    file = folder / "exchange.pem"
    if not file.exists():
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
             "-out", folder / "certificate.pem"], check=True, capture_output=True)  # fmt: skip
        file.write_text((folder / "certificate.pem").read_text() + (folder / "key.pem").read_text())
    return file


def connects(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def until(condition, what, seconds_max=START_SECONDS_MAX):
    end = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < end, f"not within {seconds_max} s: {what}"
        time.sleep(0.02)


def seconds_of(name):
    """A time-out of the configuration that is shipped."""
    return int(re.search(rf"^ *timeout {re.escape(name)} (\d+)s$", CONFIGURATION.read_text(), re.MULTILINE)[1])


@pytest.fixture
def exchange(tmp_path):
    """Makes exchanges, and ends what they started."""
    made = []

    def make(servers="ab", cost=0.1, workers=WORKERS, change=lambda text: text):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        one = Exchange(folder, cost, workers, change)
        made.append(one)
        for name in servers:
            one.start_server(name)
        one.start_proxy().until_up(*servers)
        return one

    yield make
    for one in made:
        one.stop()
