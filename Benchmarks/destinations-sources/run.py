"""Runs the measurements of Benchmarks/destinations and leaves their figures: run.py GATEWAY [--samples N] [KIND…]"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import systems
from figure import TIMING_NOISE, figure, write

HERE = pathlib.Path(__file__).parent
# A watch's month, as CloudSync's own figure has it.
SAMPLES = 30_186
SPACING = timedelta(seconds=97)
# Of a system that stores some hundred a second, however it gets them.
SAMPLES_MAX = {"fhir": 3_000}
# The gateway's part of a client's processor time, at most.
CPU_RATIO_MAX = 1 / 2
CLOUDCARE_SECONDS_MAX = 1.0
MEMORY_MIB_MAX = 4.0
STUCK_MAX = 1.05
# The last one is the slowest system of all, and is still at it when the others are done.
FIVE = ["influx", "postgrest", "mqtt", "webhook", "fhir"]
RUNS = 3
SECONDS_MAX = 300
# What was read last counts as delivered with a commit, some seconds later: the time of all samples is reckoned from the
# others'.
READ_MAX = 1_500
# Each answer costs the gateway some milliseconds, which are measured afterwards and taken off, as far as that can be
# done: the longer it takes, the less often it is asked, and not at all for most of the time that the run before took.
POLL_SECONDS = 0.05
POLL_PART = 1 / 50
UNASKED_PART = 4 / 5
MEMORY_SECONDS = 0.01


ALLOCATOR = os.environ.pop("GLIBC_TUNABLES")


class Control(http.client.HTTPConnection):
    """The gateway's control socket: a command of its own for each look would take the processor from it."""

    def __init__(self, path):
        super().__init__("localhost", timeout=SECONDS_MAX)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Gateway:
    """A daemon without a radio, in a directory of its own."""

    def __init__(self, program):
        self.program = program
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="gateway-"))
        (self.directory / "state").mkdir(mode=0o700)
        (self.directory / "config.yaml").write_text("clock:\n  trust: always\n")
        self.environment = {
            "PATH": os.environ["PATH"], "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.directory}/no-bus",
            "EDGE_GATEWAY_CONFIG": f"{self.directory}/config.yaml",
            "EDGE_GATEWAY_STATE": f"{self.directory}/state",
            "EDGE_GATEWAY_SOCKET": f"{self.directory}/control.sock", "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
            "GLIBC_TUNABLES": ALLOCATOR,
        }
        self.log = open(self.directory / "log", "ab")
        self.polls = 0
        self.start()

    def start(self):
        self.daemon = subprocess.Popen([self.program, "run"], env=self.environment, stderr=self.log)
        deadline = time.monotonic() + 30
        while self.run("status").returncode > 1:
            if time.monotonic() > deadline or self.daemon.poll() is not None:
                sys.exit("the daemon does not answer:\n" + (self.directory / "log").read_text()[-2000:])
            time.sleep(0.05)

    def end(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(60)

    def remove(self):
        self.end()
        self.log.close()
        shutil.rmtree(self.directory)

    def run(self, *words):
        return subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True)

    def command(self, *words):
        outcome = self.run(*words)
        if outcome.returncode != 0:
            sys.exit(f"edge-gateway {' '.join(words[:4])}: {outcome.stdout}{outcome.stderr}")
        return outcome.stdout

    def add(self, name, system):
        """Adds a destination, paused until all samples are there."""
        kind = systems.GATEWAY_KIND.get(name, name)
        self.command("destination", "add", kind, *system.settings, "--name", name, "--keep-days", "0")
        self.command("destination", "pause", name)

    def ask(self, method, path, document=None):
        control = Control(str(self.directory / "control.sock"))
        control.request(
            method, path, None if document is None else json.dumps(document), {"Content-Type": "application/json"})
        answer = control.getresponse()
        body = answer.read()
        control.close()
        if answer.status != 200:
            sys.exit(f"{method} {path}: {answer.status} {body.decode()}")
        return json.loads(body)

    def delivered(self, name):
        self.polls += 1
        return next(one["delivered"] for one in self.ask("GET", "/v1/destinations") if one["name"] == name)

    def deliver(self, names, samples, expected=0):
        """Resumes deliveries and waits until the first has nearly all samples; gives the seconds, and those of the
        processor, that all take. `expected` is how many seconds they took before."""
        began, used, self.polls = time.monotonic(), self.processor_seconds(), 0
        for name in reversed(names):
            self.ask("POST", "/v1/destinations/resume", {"name": name})
        time.sleep(expected * UNASKED_PART)
        delivered = self.wait(names[0], max(samples - READ_MAX, 1))
        seconds, used, polls = time.monotonic() - began, self.processor_seconds() - used, self.polls
        used -= polls * self.poll_seconds(names[0])
        return seconds * samples / delivered, used * samples / delivered

    def wait(self, name, samples):
        """Waits until so many are delivered; gives how many are."""
        began = time.monotonic()
        while (delivered := self.delivered(name)) < samples:
            waited = time.monotonic() - began
            if waited > SECONDS_MAX:
                sys.exit(self.command("destination", "show", name))
            time.sleep(max(POLL_SECONDS, waited * POLL_PART))
        return delivered

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def poll_seconds(self, name):
        """What one look at a destination costs the gateway."""
        used = self.processor_seconds()
        for _ in range(50):
            self.delivered(name)
        return (self.processor_seconds() - used) / 50

    def memory(self, field):
        for line in pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        return 0.0

    @contextlib.contextmanager
    def highest_memory(self):
        """The highest anonymous memory meanwhile, MiB, in a list: what it takes beside its program's pages."""
        highest, ended = [0.0], threading.Event()

        def look():
            while not ended.wait(MEMORY_SECONDS):
                highest[0] = max(highest[0], self.memory("RssAnon"))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield highest
        finally:
            ended.set()
            thread.join()


def export_file(path, samples, further):
    """What `queue export` of a gateway would write whose samples wait for all these destinations."""
    nonce = 0x123456789ABCDEF
    begin = datetime.now(timezone.utc) - SPACING * (samples + 1)
    waiting = {name: "pending" for name in further}
    with open(path, "w", encoding="ascii") as file:
        file.write('{"format":"edge-gateway-samples","version":1}\n')
        for number in range(1, samples + 1):
            high = (nonce >> 12) << 16 | 0x8000 | nonce & 0xFFF
            digits = f"{high:016x}{1 << 63 | number << 8:016x}"
            line = {
                "uuid": f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
                "time": (begin + SPACING * number).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "boot": "bench",
                "uptime_us": number * SPACING // timedelta(microseconds=1), "sensor": "C0:00:00:00:00:01",
                "assignment": 1, "flags": 0, "frame": f"00{60 + number % 60:02x}", "state": "pending",
            }
            file.write(json.dumps(line | ({"further": waiting} if further else {})) + "\n")
        file.write(json.dumps({"samples": samples, "damaged": 0}) + "\n")
    return path


@contextlib.contextmanager
def filled(program, names, samples):
    """A gateway in which samples wait for all these destinations, which are paused, and the systems."""
    running = {}
    gateway = None
    try:
        for name in names:
            running[name] = Hanging() if name == "stuck" else systems.KINDS[name]()
        gateway = Gateway(program)
        for name in names:
            gateway.add(name if name != "stuck" else "stuck", running[name])
        file = export_file(gateway.directory / "samples.ndjson", samples, names[1:])
        gateway.command("queue", "import", str(file), "--enrollment", names[0])
        # The memory that the import took is not of what is measured.
        gateway.end()
        gateway.start()
        yield gateway, running
    finally:
        if gateway is not None:
            gateway.remove()
        for system in running.values():
            system.stop()


class Hanging(systems.System):
    """Takes an empty batch, and answers no other request."""

    def __init__(self):
        super().__init__()
        hanging = threading.Event()
        self.hanging = hanging

        class Server(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                if length > 1:
                    hanging.wait()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.settings = [f"url=http://127.0.0.1:{self.server.server_address[1]}", "database=ward"]

    def stop(self):
        self.hanging.set()
        self.server.shutdown()
        self.server.server_close()
        super().stop()


systems.GATEWAY_KIND["stuck"] = "influx"


def measure_peer(name, system, file, directory):
    """Seconds, and seconds of the processor, of the Python client."""
    database = directory / f"{name}.sqlite"
    peer = subprocess.Popen(
        [sys.executable, HERE / "peer.py", name, file, database, *system.peer], stdout=subprocess.PIPE, text=True)
    if peer.stdout.readline() != "ready\n":
        sys.exit(f"the client for {name} does not begin")
    os.waitpid(peer.pid, os.WUNTRACED)
    peer.send_signal(signal.SIGCONT)
    line = peer.stdout.readline()
    peer.wait()
    if not line:
        sys.exit(f"the client for {name} fails")
    return [float(word) for word in line.split()]


def measure_gateway(name, gateway, samples, expected):
    """Seconds, and seconds of the processor, of the gateway."""
    taken = gateway.deliver([name], samples, expected)
    gateway.wait(name, samples)
    return taken


def compare(program, name, samples):
    """The medians of some runs, in which now the one, now the other is first."""
    ours, clients = [], []
    for run in range(RUNS):
        with filled(program, [name], samples) as (gateway, running):
            def deliver():
                ours.append(measure_gateway(name, gateway, samples, ours[-1][0] if ours else 0))

            def deliver_by_client():
                file = gateway.directory / "samples.ndjson"
                clients.append(measure_peer(name, running[name], file, gateway.directory))

            for step in [deliver, deliver_by_client][::-1 if run % 2 else 1]:
                step()
    seconds, used = (statistics.median(values) for values in zip(*ours))
    theirs, their_use = (statistics.median(values) for values in zip(*clients))
    print(f"{name:10} {seconds:7.1f} s, processor {used:5.2f} s   client {theirs:7.1f} s, processor {their_use:5.2f} s",
          flush=True)
    figures = [figure(
        f"CPU, {samples:,} samples: {name}", "1/2", round(used, 2), their_use * CPU_RATIO_MAX, "s",
        {"Python": round(their_use, 2)}, TIMING_NOISE), figure(
        f"time, {samples:,} samples: {name}", "Python's", round(seconds, 2), theirs, "s",
        {"Python": round(theirs, 2)}, TIMING_NOISE)]
    if name == "cloudcare":
        figures.append(figure(
            f"CPU, {samples:,} samples to CloudCare", "≤ 1 s", round(used, 2), CLOUDCARE_SECONDS_MAX, "s",
            {}, TIMING_NOISE))
    return figures


def memory(program, samples):
    """Anonymous memory while five destinations take all samples at once, above that before."""
    with filled(program, FIVE, samples) as (gateway, _):
        time.sleep(2)
        # What answering costs is not the destinations'.
        gateway.poll_seconds(FIVE[0])
        idle = gateway.memory("RssAnon")
        with gateway.highest_memory() as highest:
            gateway.deliver(FIVE, samples)
            for name in FIVE[1:-1]:
                gateway.wait(name, samples)
    highest = highest[0]
    print(f"memory     {idle:.1f} MiB idle, {highest:.1f} MiB with five destinations", flush=True)
    return [figure(
        "memory above idle, 5 destinations", "≤ 4 MiB", round(highest - idle, 1), MEMORY_MIB_MAX, "MiB")]


def stuck(program, samples):
    """What one destination costs that never answers: seconds of another, with it and without."""
    alone, beside = [], []
    for _ in range(5):
        for names, found in ((["influx"], alone), (["influx", "stuck"], beside)):
            with filled(program, names, samples) as (gateway, _):
                found.append(gateway.deliver(names, samples)[0])
    without, with_it = statistics.median(alone), statistics.median(beside)
    print(f"stuck      {with_it:.2f} s beside it, {without:.2f} s without", flush=True)
    return [figure(
        "time beside a stuck destination", "+5 %", round(with_it, 2), without * STUCK_MAX, "s",
        {"without": round(without, 2)}, TIMING_NOISE)]


def main():
    parser = argparse.ArgumentParser(prog="Benchmarks/destinations")
    parser.add_argument("gateway")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    words = parser.parse_intermixed_args()
    chosen = words.kinds or [*systems.KINDS, "memory", "stuck"]
    figures = []
    for name in chosen:
        if name == "memory":
            figures += memory(words.gateway, words.samples)
        elif name == "stuck":
            figures += stuck(words.gateway, words.samples)
        else:
            samples = min(words.samples, SAMPLES_MAX.get(name, words.samples))
            figures += compare(words.gateway, name, samples)
    write("destinations", figures)


main()
