"""What the gateway under test lives among: straps, adapter, bluetoothd."""
import json
import re
import sqlite3
import subprocess
import threading
import time

EXCHANGE = "/exchange"
CONTROL = "/run/ports/control"
FRAMES = EXCHANGE + "/frames.jsonl"
BLUETOOTHD_LOG = EXCHANGE + "/bluetoothd.log"
BLUETOOTHD = "/usr/libexec/bluetooth/bluetoothd"
ADAPTER = "/org/bluez/hci0"


def until(seconds, condition, pause=0.2):
    """The first true value of `condition` within `seconds`, else its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(pause)


class Straps:
    """The emulated straps on the host, by index."""

    def __init__(self):
        self.port = open(CONTROL, "r+b", buffering=0)
        self.lock = threading.Lock()
        self.addresses = [strap["address"] for strap in self.status()]
        # The trace as far as it has been read.
        self.read_bytes, self.known_frames = 0, [[] for _ in self.addresses]

    def ask(self, do, straps=None, **arguments):
        request = {"do": do, **arguments}
        if straps is not None:
            request["straps"] = [straps] if isinstance(straps, int) else list(straps)
        with self.lock:
            self.port.write(json.dumps(request).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                line += self.port.read(4096) or b""
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"straps: {request}: {reply['error']}")
        return reply

    def status(self):
        return self.ask("status")

    def sent(self):
        """How many frames each strap has sent so far."""
        return [strap["sent"] for strap in self.status()]

    def frames(self):
        """The frames sent so far, in order, by strap."""
        with open(FRAMES, "rb") as file:
            file.seek(self.read_bytes)
            # The last line may be half written.
            lines = file.read().rpartition(b"\n")
        self.read_bytes += len(lines[0]) + len(lines[1])
        for line in lines[0].splitlines():
            entry = json.loads(line)
            self.known_frames[entry["strap"]].append(entry["hex"])
        return self.known_frames


class Bluetoothd:
    """bluetoothd and the adapter."""

    def __init__(self):
        self.process = self.adapter = None

    def start(self):
        log = open(BLUETOOTHD_LOG, "a")
        self.process = subprocess.Popen([BLUETOOTHD, "-n"], stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def plug(self):
        self.adapter = subprocess.Popen(
            ["btattach", "-B", "/dev/hvc0", "-P", "h4"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def unplug(self):
        self.adapter.terminate()
        self.adapter.wait()

    def call(self, path, method, *arguments):
        """Calls org.bluez and returns what dbus-send prints, or None when it fails."""
        done = subprocess.run(
            ["dbus-send", "--system", "--print-reply", "--dest=org.bluez", path, method,
             *arguments], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def is_powered(self):
        answer = self.call(
            ADAPTER, "org.freedesktop.DBus.Properties.Get", "string:org.bluez.Adapter1",
            "string:Powered")
        return answer is not None and "boolean true" in answer

    def power(self, is_on):
        return self.call(
            ADAPTER, "org.freedesktop.DBus.Properties.Set", "string:org.bluez.Adapter1",
            "string:Powered", f"variant:boolean:{'true' if is_on else 'false'}")

    @staticmethod
    def device(address):
        return f"{ADAPTER}/dev_{address.replace(':', '_')}"

    def knows(self, address):
        answer = self.call("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects") or ""
        return f'"{self.device(address)}"' in answer

    def is_connected(self, address):
        answer = self.call(
            self.device(address), "org.freedesktop.DBus.Properties.Get",
            "string:org.bluez.Device1", "string:Connected")
        return answer is not None and "boolean true" in answer

    def remove(self, address):
        return self.call(
            ADAPTER, "org.bluez.Adapter1.RemoveDevice", "objpath:" + self.device(address))

    def unsignalled_connects(self):
        """How often a device turned out to be connected before bluetoothd was told: it then never
        signals Connected."""
        with open(BLUETOOTHD_LOG) as log:
            return len(re.findall("already connected", log.read()))


class Store:
    """The gateway's store, read while the gateway writes it."""

    FRAMES = """
        SELECT n.address, f.frame, f.fault FROM (
            SELECT s.segment, s.uptime_us, s.id, s.frame, NULL AS fault FROM sample s
            UNION ALL SELECT u.segment, u.uptime_us, u.id, u.frame, u.fault FROM undecodable u) f
        JOIN segment g ON g.id = f.segment
        JOIN assignment a ON a.id = g.assignment
        JOIN sensor n ON n.id = a.sensor
        ORDER BY g.run, f.uptime_us, f.id"""

    def __init__(self, path):
        self.path = path

    def rows(self, sql, *arguments):
        with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=5) as database:
            rows = database.execute(sql, arguments).fetchall()
        database.close()
        return rows

    def frames(self):
        """(frame, fault or None) in the order of arrival, by address."""
        frames = {}
        for address, frame, fault in self.rows(self.FRAMES):
            frames.setdefault(address, []).append((bytes(frame).hex(), fault))
        return frames

    def counts(self):
        """received, stored and undecodable as the segments count them."""
        sums = "sum(received), sum(stored), sum(undecodable)"
        return self.rows(f"SELECT {sums} FROM segment")[0]
