"""The systems that the benchmark delivers to: real ones on loopback, or the stand-ins of Tests/Conformance.

Each has `settings`, the words of `edge-gateway destination add`; `peer`, the words for peer.py; and `stop()`.
"""

import hashlib
import hmac
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

CONFORMANCE = pathlib.Path("Tests/Conformance")
POSTGRES = "/usr/lib/postgresql/15/bin/"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DEVICE_KEY = "0123456789abcdef0123456789abcdef"
SECONDS_MAX = 30


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fetch(address, body=None):
    request = urllib.request.Request(
        address, body, {"Content-Type": "application/json"} if body else {})
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        return answer.read()


class System:
    """Its processes and its directory, which end with it."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="destinations-"))
        self.log = open(self.directory / "log", "ab")
        self.processes = []

    def launch(self, *words, **options):
        process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stderr=self.log, **options)
        self.processes.append(process)
        return process

    def script(self, name, *words):
        """Starts a stand-in that prints its port."""
        process = self.launch(sys.executable, CONFORMANCE / name, *words, stdout=subprocess.PIPE, text=True)
        return f"http://127.0.0.1:{int(process.stdout.readline())}"

    def wait(self, address):
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                return fetch(address)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT if "postgres" in str(process.args) else signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class File(System):
    def __init__(self):
        super().__init__()
        self.settings = [f"path={self.directory}/gateway.ndjson"]
        self.peer = [f"{self.directory}/peer.ndjson"]


class Webhook(System):
    def __init__(self):
        super().__init__()
        address = self.script("webhook_receiver.py", SECRET, "ndjson")
        self.settings = [f"url={address}/in", f"secret={SECRET}", "format=ndjson"]
        self.peer = [f"{address}/in", SECRET]


class Influx(System):
    def __init__(self):
        super().__init__()
        port = free_port()
        (self.directory / "influx.conf").write_text(f"""
            bind-address = "127.0.0.1:0"
            reporting-disabled = true
            [meta]
              dir = "{self.directory}/meta"
            [data]
              dir = "{self.directory}/data"
              wal-dir = "{self.directory}/wal"
            [http]
              bind-address = "127.0.0.1:{port}"
              log-enabled = false
            """)
        self.launch(
            "/usr/bin/influxd", "-config", self.directory / "influx.conf", stdout=self.log,
            env={"HOME": str(self.directory), "PATH": "/usr/bin:/bin"})
        self.wait(f"http://127.0.0.1:{port}/ping")
        for database in ("ward", "peer"):
            fetch(f"http://127.0.0.1:{port}/query?q=CREATE%20DATABASE%20{database}", b"")
        self.settings = [f"url=http://127.0.0.1:{port}", "database=ward"]
        self.peer = [str(port)]


class Victoria(System):
    def __init__(self):
        super().__init__()
        port = free_port()
        self.launch(
            "/usr/bin/victoria-metrics", f"-storageDataPath={self.directory}/data",
            f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y", stdout=self.log)
        self.wait(f"http://127.0.0.1:{port}/health")
        self.settings = [f"url=http://127.0.0.1:{port}", "database=ward"]
        self.peer = [str(port)]


class Mosquitto(System):
    def __init__(self):
        super().__init__()
        port = free_port()
        (self.directory / "mosquitto.conf").write_text(
            f"user root\npersistence false\nmax_queued_messages 0\nlistener {port} 127.0.0.1\nallow_anonymous true\n")
        self.launch("/usr/sbin/mosquitto", "-c", self.directory / "mosquitto.conf", stdout=self.log)
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self.settings = [f"url=mqtt://127.0.0.1:{port}", "gateway=ward"]
        self.peer = [str(port)]


class PostgREST(System):
    def __init__(self):
        super().__init__()
        # PostgreSQL does not run as root.
        itself = ["/usr/bin/setpriv"] + (
            ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []) + ["--"]
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres")
        data = self.directory / "data"
        subprocess.run(
            itself + [POSTGRES + "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N"],
            check=True, stdout=self.log, stderr=self.log, cwd="/")
        self.launch(
            *itself, POSTGRES + "postgres", "-D", data, "-k", self.directory, "-c", "listen_addresses=",
            stdout=self.log, cwd="/", env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        psql = ["psql", "-h", self.directory, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtX"]
        deadline = time.monotonic() + SECONDS_MAX
        while subprocess.run(psql + ["-c", "select 1"], capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not answer")
            time.sleep(0.1)
        subprocess.run(psql + ["-c", "create role authenticated nologin"], check=True)
        subprocess.run(psql + ["-f", "deploy/supabase.sql"], check=True, stdout=self.log, stderr=self.log)
        address = self.script("postgrest_front.py", f"host={self.directory} user=postgres dbname=postgres")
        self.settings = [
            f"url={address}/rest/v1", "key=sb_publishable_test", "email=gateway@clinic.example",
            "password=correct horse"]
        self.peer = [address]


class Firebase(System):
    def __init__(self):
        super().__init__()
        address = self.script("firebase_front.py")
        self.settings = [
            f"url={address}", f"emulator={address}", "key=AIza-test", "email=gateway@clinic.example",
            "password=correct horse", "share=no"]
        self.peer = [address]


class Firestore(System):
    def __init__(self):
        super().__init__()
        address = self.script("firebase_front.py")
        self.settings = [
            f"url={address}/v1/projects/p/databases/(default)", "store=firestore", f"emulator={address}",
            "key=AIza-test", "email=gateway@clinic.example", "password=correct horse", "--resolution", "raw"]
        self.peer = [address]


class FHIR(System):
    def __init__(self):
        super().__init__()
        port = free_port()
        address = f"http://127.0.0.1:{port}/fhir"
        settings = self.directory / "settings.json"
        settings.write_text(json.dumps({
            "base_url": address, "host": "127.0.0.1", "port": port, "data_dir": str(self.directory / "data"),
            "log_inbound": False, "simulator": {"enabled": False}}))
        self.launch(
            pathlib.Path(".build-fhir/bin/python").absolute(), "-m", "sekmet.cli", "serve", "--config", settings,
            "--host", "127.0.0.1", "--port", port, stdout=self.log, cwd=self.directory)
        self.wait(f"{address}/metadata")
        self.settings = [f"url={address}", "gateway=ward", "--resolution", "raw"]
        self.peer = [address]


class CloudCare(System):
    def __init__(self):
        super().__init__()
        address = self.script("cloudcare_front.py", "patient-1")
        # The device of the store's first strap without a named patient (CloudCareKind.deviceID), and the peer's.
        digest = bytearray(hmac.digest(DEVICE_KEY.encode(), b"1\n", hashlib.sha256)[:16])
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        for device in (str(uuid.UUID(bytes=bytes(digest))), "peer"):
            fetch(f"{address}/api/v1/wearables/devices/pair", json.dumps({
                "userId": "gw-1", "deviceId": device, "deviceName": "Strap", "deviceType": "ble_heart_rate",
                "generatedAt": "2026-01-01T00:00:00Z", "expiresAt": "2126-01-01T00:00:00Z", "pairingCode": "AAAA-AAAA",
                "androidUserId": "patient-1"}).encode())
        self.settings = [f"url={address}/api/v1", "gateway=gw-1", f"device-key={DEVICE_KEY}"]
        self.peer = [address]


class Stuck(System):
    """A server that takes connections and requests, and never answers."""

    def __init__(self):
        super().__init__()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.settings = [
            f"url=http://127.0.0.1:{self.listener.getsockname()[1]}", "database=ward"]

    def stop(self):
        self.listener.close()
        super().stop()


KINDS = {
    "file": File, "webhook": Webhook, "influx": Influx, "victoria": Victoria, "mqtt": Mosquitto,
    "postgrest": PostgREST, "firebase": Firebase, "firestore": Firestore, "fhir": FHIR, "cloudcare": CloudCare,
}
# Where a name is not the kind's.
GATEWAY_KIND = {"victoria": "influx", "firestore": "firebase"}
