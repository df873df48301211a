"""Starts real daemons, asks all of them with `edge-gateway fleet`, and says what that took.

    poll.py GATEWAY NUMBER
"""

import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "figures"))
import figure

# A first round reads the programs' pages from the disk; of the others the least counts.
ROUNDS = 6
# So many are started at once: the start of a daemon computes, and two cores have other work.
AT_ONCE = 10
START_SECONDS_MAX = 600


def free_ports(count):
    """Ports of loopback that nobody has. They are bound together, so that each is another one."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def serves(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


class Fleet:
    def __init__(self, gateway, count, folder):
        self.gateway, self.folder = gateway, folder
        self.token = folder / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(secrets.token_urlsafe(32))
        self.ports = free_ports(count)
        self.daemons = []
        self.hosts = folder / "hosts.yaml"
        self.hosts.write_text("token_file: token\ngateways:\n" + "".join(
            f"  - address: http://127.0.0.1:{port}\n" for port in self.ports))

    def start(self):
        end = time.monotonic() + START_SECONDS_MAX
        for first in range(0, len(self.ports), AT_ONCE):
            lot = self.ports[first:first + AT_ONCE]
            self.daemons += [self.daemon(port) for port in lot]
            while not all(serves(port) for port in lot):
                if time.monotonic() > end:
                    sys.exit("poll.py: the daemons do not serve; see their logs")
                time.sleep(0.1)

    def daemon(self, port):
        place = self.folder / str(port)
        (place / "state").mkdir(parents=True, mode=0o700)
        (place / "config.yaml").write_text(
            f"state: {place}/state\nsocket: {place}/control.sock\nclock:\n  trust: always\n"
            f"gateway:\n  name: gateway-{port}\n  site: Ward {port % 10}\n"
            f"page:\n  listen: 127.0.0.1:{port}\nfleet:\n  token_file: {self.token}\n")
        environment = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=f"unix:path={place}/no-bus")
        with open(place / "log", "wb") as log:
            return subprocess.Popen(
                [self.gateway, "run", "--config", place / "config.yaml"], stderr=log,
                stdout=log, env=environment)

    def poll(self, *words):
        """The report, and the command's time, CPU time (s) and peak memory (MiB)."""
        begin = time.monotonic()
        with tempfile.TemporaryFile() as output:
            asking = subprocess.Popen(
                [self.gateway, "fleet", *words, "--hosts", self.hosts, "--json", "--state",
                 self.folder / "memory.json"], stdout=output)
            _, status, used = os.wait4(asking.pid, 0)
            took = time.monotonic() - begin
            asking.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            report = json.load(output)
        return report, took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024

    def memory(self):
        """Of the daemons, in MiB: their shares of what they have in common included."""
        total = 0
        for one in self.daemons:
            text = pathlib.Path(f"/proc/{one.pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
        return total / 1024

    def end(self):
        for one in self.daemons:
            one.terminate()
        for one in self.daemons:
            one.wait()


def main():
    gateway, count = sys.argv[1], int(sys.argv[2])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fleet-poll-"))
    fleet = Fleet(gateway, count, folder)
    try:
        fleet.start()
        print(f"{count} daemons serve, {fleet.memory():.0f} MiB together", file=sys.stderr)
        rounds = []
        for _ in range(ROUNDS):
            report, *figures = fleet.poll()
            states = [one["state"] for one in report["gateways"]]
            # Without a bus none is well; all answer.
            if states != ["not-well"] * count:
                sys.exit(f"poll.py: {count} answers were expected, and came {states}")
            rounds.append(figures)
        table, coverage_took, *_ = fleet.poll("coverage")
        # No daemon has a strap, and each has eight days.
        if len(table["rows"]) != 8 * count or {row["state"] for row in table["rows"]} != {"no-strap"}:
            sys.exit(f"poll.py: eight days of {count} gateways were expected")
        stopped = fleet.daemons[0]
        stopped.send_signal(signal.SIGKILL)
        stopped.wait()
        first = fleet.poll()[0]["gateways"][0]
        if first["state"] != "gone" or first["name"] != f"gateway-{fleet.ports[0]}":
            sys.exit(f"poll.py: the daemon that was killed is not gone: {first}")
    finally:
        fleet.end()
        shutil.rmtree(folder, ignore_errors=True)
    for took, cpu, peak in rounds:
        print(f"{took:.2f} s, {cpu:.2f} s of CPU time, {peak:.0f} MiB", file=sys.stderr)
    took, cpu, peak = (min(column) for column in zip(*rounds))
    what = f"{count} gateways asked"
    figure.write("fleet-poll", [
        figure.figure(f"{what}: time", "at most 2 s", took, 2, "s", noise=figure.TIMING_NOISE),
        figure.figure(f"{what} for their coverage: time", "at most 4 s", coverage_took, 4, "s",
                      noise=figure.TIMING_NOISE),
        figure.figure(f"{what}: CPU time", "at most 1 s", cpu, 1, "s", noise=figure.TIMING_NOISE),
        figure.figure(f"{what}: memory of the command", "", peak, None, "MiB"),
    ])


main()
