"""What the gateway under test lives among: straps, adapter, bluetoothd."""
import fcntl
import json
import os
import re
import sqlite3
import subprocess
import termios
import threading
import time
import tty

EXCHANGE = "/exchange"
CONTROL = "/run/ports/control"
FRAMES = EXCHANGE + "/frames.jsonl"
BLUETOOTHD_LOG = EXCHANGE + "/bluetoothd.log"
BLUETOOTHD = "/usr/libexec/bluetooth/bluetoothd"
ADAPTER = "/org/bluez/hci0"
# bluetoothd tries to connect for 42 s.
REPLY_SECONDS_MAX = 90


def until(seconds, condition, pause=0.2):
    """The first true value of `condition` within `seconds`, else its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(pause)


def process_named(name):
    """The process with this name; there is one."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read().strip() == name:
                    return int(pid)
        except FileNotFoundError:
            pass
    raise RuntimeError(f"no process {name}")


def cpu_seconds(pid):
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


class Adapter:
    """A controller behind a UART, plugged as btattach(1) plugs one.

    The port stays open: at its last close the kernel makes it echo again, and what the controller says
    between opening and attaching comes back to it in the middle of a packet. It then waits for the rest.
    """

    # <linux/tty.h> and the kernel's drivers/bluetooth/hci_uart.h.
    N_TTY, N_HCI = 0, 15
    HCIUARTSETPROTO, HCIUARTSETFLAGS = 0x400455C8, 0x400455CB
    HCI_UART_H4, HCI_UART_RESET_ON_INIT = 0, 1

    def __init__(self, number):
        self.port = os.open(f"/dev/hvc{number}", os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.port)
        self.is_plugged = False

    def plug(self):
        termios.tcflush(self.port, termios.TCIOFLUSH)
        self.discipline(self.N_HCI)
        fcntl.ioctl(self.port, self.HCIUARTSETFLAGS, 1 << self.HCI_UART_RESET_ON_INIT)
        fcntl.ioctl(self.port, self.HCIUARTSETPROTO, self.HCI_UART_H4)
        self.is_plugged = True

    def unplug(self):
        self.discipline(self.N_TTY)
        self.is_plugged = False

    def discipline(self, number):
        fcntl.ioctl(self.port, termios.TIOCSETD, number.to_bytes(4, "little"))


class Bluetoothd:
    """bluetoothd and the adapters."""

    def __init__(self):
        self.process, self.adapters = None, [Adapter(number) for number in (0, 1)]

    def start(self):
        log = open(BLUETOOTHD_LOG, "a")
        self.process = subprocess.Popen([BLUETOOTHD, "-n"], stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def plug(self, number=0):
        self.adapters[number].plug()

    def unplug(self, number=0):
        self.adapters[number].unplug()

    def ask(self, path, method, *arguments):
        """Calls org.bluez; returns what dbus-send prints, or None, and the error."""
        done = subprocess.run(
            ["dbus-send", "--system", "--print-reply", f"--reply-timeout={REPLY_SECONDS_MAX}000",
             "--dest=org.bluez", path, method, *arguments], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None, done.stderr.strip()

    def call(self, path, method, *arguments):
        return self.ask(path, method, *arguments)[0]

    def is_powered(self):
        return self.has("Powered")

    def is_discovering(self):
        return self.has("Discovering")

    def has(self, property):
        answer = self.call(
            ADAPTER, "org.freedesktop.DBus.Properties.Get", "string:org.bluez.Adapter1", f"string:{property}")
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

    def is_paired(self, address):
        return any(properties.get("Address") == address and properties.get("Paired") == "true"
                   for properties in self.objects().values())

    def objects(self):
        """The objects by path, with those of their properties that are strings or booleans."""
        answer = self.call("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects") or ""
        objects, properties, name = {}, {}, None
        for line in answer.splitlines():
            kind, _, value = line.strip().removeprefix("variant").strip().partition(" ")
            if kind == "object" and line.startswith(" " * 9 + "object path"):
                properties = objects.setdefault(value.removeprefix("path ").strip('"'), {})
            elif kind in ("string", "boolean") and "variant" in line and name:
                properties[name] = value.strip('"')
            elif kind == "string":
                name = value.strip('"')
        return objects

    def adapters_by_path(self):
        """The addresses of the adapters that are powered on."""
        return {path: properties["Address"] for path, properties in self.objects().items()
                if path.count("/") == 3 and properties.get("Powered") == "true"}

    def powered_adapters(self):
        return set(self.adapters_by_path().values())

    def places(self):
        """For each connected device the address of its adapter."""
        objects = self.objects()
        return {
            properties["Address"]: objects[path.rpartition("/")[0]]["Address"]
            for path, properties in objects.items()
            if path.count("/") == 4 and properties.get("Connected") == "true"}

    def where(self):
        """Which adapters discover, and the devices that it takes for connected."""
        objects = self.objects()
        discovering = [path[-4:] for path, properties in objects.items() if properties.get("Discovering") == "true"]
        connected = [path[-2:] for path, properties in objects.items() if properties.get("Connected") == "true"]
        return f"discovering {discovering}, connected {connected}"

    def connect(self, address):
        return self.ask(self.device(address), "org.bluez.Device1.Connect")

    def disconnect(self, address):
        return self.call(self.device(address), "org.bluez.Device1.Disconnect") is not None

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
