"""The box a clinic buys, with a disk of its own: QEMU, and its guest agent.

The adapter's other end is ../RealBlueZ's straps.py; the time server and the way to the exchange are the
host's.
"""
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../RealBlueZ/host"))
from machine import ADAPTERS, die_with_parent, hardware, start_straps

BOOT_SECONDS_MAX = 180
COMMAND_SECONDS_MAX = 120
# Where the host is for the guest: QEMU's user network. It leads to the host's loopback.
HOST = "10.0.2.2"
# From 1900, where NTP begins, to 1970.
NTP_EPOCH = 2_208_988_800


class Failure(Exception):
    """What the installed gateway did not do."""


class GoalMissed(Failure):
    """A figure that is not what it shall be, on which nothing that follows depends."""


def until(seconds, condition, what, pause=0.3):
    """The first true value of `condition`; a failure after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failure(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
    return value


class LineSocket:
    """A Unix socket of JSON lines."""

    def __init__(self, path, seconds_max):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds_max)
        end = time.monotonic() + seconds_max
        while True:
            try:
                self.socket.connect(path)
                break
            except ConnectionRefusedError:
                # A socket has its name a moment before it listens.
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self.reader = self.socket.makefile("rb")

    def send(self, message, prefix=b""):
        self.socket.sendall(prefix + json.dumps(message).encode() + b"\n")

    def receive(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("closed")
        # The agent puts this octet before the answer to a delimited sync.
        return json.loads(line.replace(b"\xff", b""))

    def close(self):
        self.reader.close()
        self.socket.close()


class TimeServer(threading.Thread):
    """SNTP with the host's time: RFC 4330, server mode."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.socket.bind(("127.0.0.1", 123))
            self.start()
        except OSError:
            # Then somebody else answers there, whose trade it is.
            self.socket.close()

    def run(self):
        leap_version_mode, stratum, poll, precision = 0x24, 1, 4, -20
        while True:
            request, client = self.socket.recvfrom(512)
            if len(request) < 48:
                continue
            now = struct.pack("!Q", int((time.time() + NTP_EPOCH) * 2**32))
            self.socket.sendto(
                struct.pack("!BBbb11s", leap_version_mode, stratum, poll, precision, b"")[:4]
                + bytes(8) + b"HOST" + now + request[40:48] + now + now, client)


class Box:
    """The machine; `boot` starts it."""

    def __init__(self, prepared, disk, out, work, straps):
        self.prepared, self.disk, self.out = prepared, disk, out
        self.sockets = {
            name: os.path.join(work, name) for name in (*ADAPTERS, "control", "agent", "monitor")}
        self.children = []
        self.process = self.agent = None
        start_straps(straps, out, self.sockets, self.children)
        self.straps_port = LineSocket(self.sockets["control"], 30)

    def start(self):
        self.process = subprocess.Popen(
            [*hardware(self.prepared, self.out, self.sockets, "root=/dev/vda"),
             "-drive", f"file={self.disk},format=raw,if=none,id=disk,cache=unsafe",
             "-device", "virtio-blk-pci,drive=disk",
             "-netdev", "user,id=net,restrict=off", "-device", "virtio-net-pci,netdev=net,id=card",
             "-chardev", f"socket,id=agent,path={self.sockets['agent']},server=on,wait=off",
             "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
             "-qmp", f"unix:{self.sockets['monitor']},server=on,wait=off"],
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)  # fmt: skip
        self.children.append(self.process)
        self.wait_for_agent()

    def end(self):
        for child in reversed(self.children):
            child.kill()
            child.wait()

    # MARK: Power

    def cut_power(self):
        """What was in the machine's memory only is gone; its adapter goes without a word."""
        monitor = LineSocket(self.sockets["monitor"], 10)
        for message in ({"execute": "qmp_capabilities"}, {"execute": "system_reset"}):
            monitor.send(message)
        while "error" not in (answer := monitor.receive()) and answer.get("event") != "RESET":
            pass
        monitor.close()
        self.straps("unplug", adapter=0)
        if "error" in answer:
            raise Failure(f"the machine is not reset: {answer}")

    # MARK: The straps

    def straps(self, do, **arguments):
        self.straps_port.send({"do": do, **arguments})
        reply = self.straps_port.receive()
        if "error" in reply:
            raise Failure(f"straps: {do}: {reply['error']}")
        return reply

    # MARK: Commands

    def wait_for_agent(self):
        def answers():
            if self.process.poll() is not None:
                raise Failure("the machine has ended: see console.log")
            if self.agent:
                self.agent.close()
            try:
                self.agent = LineSocket(self.sockets["agent"], 3)
                token = int(time.monotonic() * 1000)
                self.agent.send(
                    {"execute": "guest-sync-delimited", "arguments": {"id": token}}, b"\xff")
                while self.agent.receive().get("return") != token:
                    pass
                self.agent.socket.settimeout(30)
                return True
            except (OSError, ValueError):
                return False

        until(BOOT_SECONDS_MAX, answers, "the machine boots")

    def ask(self, command, **arguments):
        self.agent.send({"execute": command, "arguments": arguments})
        reply = self.agent.receive()
        if "error" in reply:
            raise Failure(f"{command}: {reply['error'].get('desc')}")
        return reply["return"]

    def begin(self, line, stdin=""):
        """Starts a line of shell; its process."""
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                       "LC_ALL=C.UTF-8", "HOME=/root"]  # fmt: skip
        return self.ask("guest-exec", **{
            "path": "/bin/bash", "arg": ["-c", line], "env": environment, "capture-output": True,
            "input-data": base64.b64encode(stdin.encode()).decode()})["pid"]

    def attempt(self, line, stdin="", seconds_max=COMMAND_SECONDS_MAX):
        """Runs a line of shell; its status, output and complaint."""
        pid = self.begin(line, stdin)
        done = until(
            seconds_max, lambda: (s := self.ask("guest-exec-status", pid=pid))["exited"] and s,
            line, pause=0.1)
        text = [base64.b64decode(done.get(key, "")).decode(errors="replace")
                for key in ("out-data", "err-data")]
        return done.get("exitcode", -1), *text

    def run(self, line, stdin="", seconds_max=COMMAND_SECONDS_MAX):
        """Runs a line of shell that has to succeed; its output."""
        status, output, complaint = self.attempt(line, stdin, seconds_max)
        if status != 0:
            raise Failure(f"{line}: status {status}: {(output + complaint).strip()[-600:]}")
        return output

    def json(self, line):
        """What a command prints with --json, whatever its status; None without an answer."""
        _, output, _ = self.attempt(line + " --json")
        try:
            return json.loads(output)
        except ValueError:
            return None
