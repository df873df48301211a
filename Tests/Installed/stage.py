"""The parts of the story of an installed gateway: the box, the straps' and the exchange's accounts."""
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time

from box import Box, Failure, GoalMissed, until

HERE = os.path.dirname(os.path.abspath(__file__))
STRAPS = os.path.join(HERE, "../RealBlueZ/straps.json")
# Straps by index, and the stand-in's patients who wear them.
WORN = {0: ("first", 40001), 1: ("second", 40001), 2: ("third", 40002)}
PATIENTS = sorted({patient for _, patient in WORN.values()})
# The default: what a power cut may cost.
COMMIT_SECONDS = 5


def check(is_so, message):
    if not is_so:
        raise Failure(message)


class Exchange:
    """The stand-in, on the host's loopback."""

    def __init__(self, program, children):
        self.process = subprocess.Popen(
            [program, *map(str, PATIENTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(self.process)
        opening = json.loads(self.process.stdout.readline())
        self.port, self.links = opening["port"], opening["links"]

    def ask(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def books(self):
        return self.ask("books")


class Stage:
    worn = WORN

    def __init__(self, package, exchange_program, prepared, folder):
        self.package, self.folder = package, folder
        self.out = os.path.join(folder, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        self.work = tempfile.mkdtemp(prefix="installed.")
        disk = os.path.join(self.work, "disk")
        # Sparse, as the original is.
        original = os.path.join(folder, "disk.ext4")
        subprocess.run(["cp", "--sparse=always", original, disk], check=True)
        self.box = Box(prepared, disk, self.out, self.work, STRAPS)
        self.exchange = Exchange(exchange_program, self.box.children)
        # Frames by strap that have to be in the end: [from, to) of those sent.
        self.must_be = []
        self.figures = {}

    def end(self):
        try:
            # The journal is all that says what happened in there.
            self.box.attempt("journalctl --no-pager -o short-precise > /exchange/journal.log")
        except (Failure, OSError):
            pass
        self.box.end()
        shutil.rmtree(self.work, ignore_errors=True)

    # MARK: Looking

    def status(self):
        return self.box.json("edge-gateway status") or {}

    def sent(self):
        return [strap["sent"] for strap in self.box.straps("status")]

    def silent(self):
        """The worn straps that have sent nothing for 3 s, as the gateway sees it."""
        sensors = {s["address"]: s for s in self.status().get("sensors", [])}
        return [
            name for index, (name, _) in self.worn.items()
            if (s := sensors.get(self.address(index), {})).get("link") != "streaming"
            or s.get("seconds_since_frame", 99) > 3]

    @staticmethod
    def address(index):
        return f"C0:00:00:00:00:{index + 1:02X}"

    def wait_for_streams(self, seconds):
        began = time.monotonic()
        until(seconds, lambda: not self.silent(), "every strap streams")
        return time.monotonic() - began

    def wait_for_delivery(self, seconds):
        """Until the exchange has more than it had."""
        had = len(self.exchange.books()["stored"])
        until(seconds, lambda: len(self.exchange.books()["stored"]) > had, "a sample at the exchange")

    def record(self, seconds=6):
        """Lets straps send; what they send now has to be there in the end."""
        before = self.sent()
        time.sleep(seconds)
        after = self.sent()
        for index in self.worn:
            check(after[index] > before[index], f"strap {index} sends nothing")
            self.must_be.append((index, before[index], after[index]))

    def commit(self):
        """Until what was recorded is on the disk."""
        time.sleep(COMMIT_SECONDS + 2)

    def starts(self):
        """How often systemd has started the gateway again by itself."""
        return int(self.box.run("systemctl show -P NRestarts edge-gateway"))

    def drain(self, seconds_max):
        """Ends the frames, waits until all of them are delivered, and gives the books."""
        for index in self.worn:
            self.box.straps("off", straps=[index])
        self.commit()
        until(seconds_max,
              lambda: (b := self.status()["balance"])["pending"] == 0 and b["buffered"] == 0,
              "everything is delivered")
        return self.status()["balance"]

    def agree(self, balance):
        """The books add up, and straps, store and exchange agree. What the exchange has."""
        check(balance["balanced"] and balance["delivered"] == balance["stored"], f"books: {balance}")
        books = self.exchange.books()
        check(books["twice"] == 0 and books["orphans"] == 0,
              f"{books['twice']} twice, {books['orphans']} orphans")
        self.compare(books["stored"])
        return books

    def compare(self, rows):
        sent = {index: [] for index in self.worn}
        with open(os.path.join(self.out, "frames.jsonl")) as file:
            for entry in map(json.loads, file):
                sent.setdefault(entry["strap"], []).append(entry["hex"])
        stored = {index: [] for index in self.worn}
        database = sqlite3.connect(os.path.join(self.out, "queue.sqlite"))
        for address, frame in database.execute("""
                SELECT n.address, s.frame FROM sample s JOIN segment g ON g.id = s.segment
                JOIN assignment a ON a.id = g.assignment JOIN sensor n ON n.id = a.sensor
                ORDER BY g.run, s.uptime_us, s.id"""):
            stored[int(address[-2:], 16) - 1].append(bytes(frame).hex())
        for index in self.worn:
            kept = set(stored[index])
            check(len(kept) == len(stored[index]), f"strap {index}: a frame is there twice")
            for first, last in [(a, b) for i, a, b in self.must_be if i == index]:
                missing = [f for f in sent[index][first:last] if f not in kept]
                check(not missing, f"strap {index}: {len(missing)} of frames {first} to {last} are missing")
        for patient in PATIENTS:
            worn = sum(len(stored[i]) for i, (_, who) in self.worn.items() if who == patient)
            there = sum(row["patient"] == patient for row in rows)
            check(worn == there, f"patient {patient} wore {worn} samples and has {there}")

    # MARK: The end

    def tell(self):
        """Does the steps of STORY in order, a line each, until one fails, and keeps the figures. The exit status.

        A missed goal fails the story too, but does not end it.
        """
        passed = 0
        try:
            for step in self.STORY:
                began, verdict = time.monotonic(), "ok    "
                try:
                    detail = step(self)
                except GoalMissed as missed:
                    verdict, detail = "MISSED", missed
                except (Failure, subprocess.SubprocessError) as failure:
                    verdict, detail = "FAILED", failure
                name = step.__doc__.strip().splitlines()[0].rstrip(".")
                took = f"{time.monotonic() - began:5.1f} s"
                print(f"{verdict} {took}  {name}" + (f" ({detail})" if detail else ""), flush=True)
                if verdict == "FAILED":
                    # What follows needs what came before.
                    return 1
                passed += verdict != "MISSED"
        finally:
            self.end()
            print(f"{passed} of {len(self.STORY)} passed", flush=True)
            with open(os.path.join(self.out, "figures.json"), "w") as file:
                json.dump(self.figures, file, indent=1)
        return 0 if passed == len(self.STORY) else 1
