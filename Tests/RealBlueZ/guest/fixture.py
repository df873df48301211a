"""The fixture of the tests: straps, bluetoothd and gateway together, and the check of frames."""
import math
import os
import platform
import resource
import time

from gateway import COMMIT_SECONDS, Gateway
from world import Bluetoothd, Straps, until

SECOND_PROCESSOR = "/sys/devices/system/cpu/cpu1/online"

# The straps by index, as straps.json has them.
WORN = range(8)
SPARE, LATE, BONDING, DISPLAY, KEYPAD, STRAY = range(8, 14)
# Those that want a bond.
BONDED = (BONDING, DISPLAY, KEYPAD)

# What the name of a figure says of the machine: that for ARM has the size of its pages too.
MACHINE = "VM" if platform.machine() == "x86_64" else f"ARM {resource.getpagesize() // 1024}K"

ADAPTER_SECONDS_MAX = 20
# From the arrival of a frame to its commit, and as much again for a busy machine.
COMMIT_SECONDS_MAX = COMMIT_SECONDS + 5
# Back on the stream after anything that a gateway is to survive by itself.
RESUME_SECONDS_MAX = 15
# `pair` answers within 45 s, whatever bluetoothd does; the rest is for starting the command under emulation.
PAIR_SECONDS_MAX = 55
# After a failed test, until all straps stream again.
RESTORE_SECONDS_MAX = 60
# From an event to its condition in `status`.
NOTICE_SECONDS_MAX = 5


class Failure(Exception):
    """What the gateway did not do."""


def ninth_of_ten(seconds):
    """What nine of ten do not exceed, by nearest rank."""
    return round(sorted(seconds)[math.ceil(0.9 * len(seconds)) - 1], 1)


def check(is_so, message):
    if not is_so:
        raise Failure(message)


class Fixture:
    def __init__(self, binary):
        self.straps, self.bluetoothd = Straps(), Bluetoothd()
        self.gateway = Gateway(binary)
        # What was seen by the way for a test that judges it later.
        self.notes = {}
        # What was measured, as Benchmarks/figures/figure.py has it.
        self.figures = []
        # The straps that are paired and meant to stream.
        self.paired = set()

    def set_up(self):
        self.bluetoothd.plug()
        self.bluetoothd.start()
        if not until(ADAPTER_SECONDS_MAX, self.bluetoothd.is_powered):
            raise RuntimeError("the adapter does not power on")
        self.gateway.start()

    def address(self, strap):
        return self.straps.addresses[strap]

    def addresses(self, straps):
        return [self.straps.addresses[strap] for strap in straps]

    def unplug(self, adapter):
        """Pulls an adapter out: the straps lose its links as well."""
        self.bluetoothd.unplug(adapter)
        self.straps.ask("unplug", adapter=adapter)

    def where(self):
        """The links that do not stream as the gateway and the straps see them, for the report of a
        failure."""
        straps = {strap["address"]: strap for strap in self.straps.status()}
        try:
            links = {s["address"]: f"{s['link']} {s.get('link_detail', '')}".strip()
                     for s in self.gateway.sensors().values()}
        except OSError:
            links = dict.fromkeys(self.addresses(self.paired), "unknown, the gateway does not answer")
        odd = []
        for address, link in links.items():
            strap = straps.get(address, {})
            is_so = [name for name in ("on_air", "connected", "subscribed") if strap.get(name)]
            if link != "streaming" or (len(is_so) < 3 and address in self.addresses(self.paired)):
                odd.append(f"{address[-2:]} {link}; the strap: {' '.join(is_so) or 'off'}")
        return f"links: {', '.join(odd) or 'all streaming'}; bluetoothd: {self.bluetoothd.where()}"

    def restore(self):
        """What a failed test may have left undone, so that the next one is judged by itself."""
        # A machine that counts instructions has one.
        if os.path.exists(SECOND_PROCESSOR):
            with open(SECOND_PROCESSOR, "w") as switch:
                switch.write("1")
        if self.bluetoothd.process.poll() is not None:
            self.bluetoothd.start()
        if not any(adapter.is_plugged for adapter in self.bluetoothd.adapters):
            self.bluetoothd.plug()
        self.straps.ask("set", WORN, hz=1)
        straps = self.straps.status()
        for strap in self.paired:
            if not straps[strap]["on_air"]:
                self.straps.ask("on", strap)
        if self.gateway.process.poll() is not None:
            self.gateway.start()
        addresses, began = self.addresses(self.paired), time.monotonic()
        until(RESTORE_SECONDS_MAX, lambda: not self.gateway.silent(addresses, began))

    def figure(self, name, ours, limit, unit, peers=None):
        """Leaves a figure for the table of `make bench`."""
        self.figures.append({
            "figure": f"{name}, {MACHINE}", "goal": f"≤ {limit:,} {unit}".strip(), "ours": ours, "limit": limit,
            "noise": 0, "unit": unit, "peers": peers or {}})

    def note(self, name):
        """What an earlier test has seen."""
        check(name in self.notes, "an earlier test did not run")
        return self.notes[name]

    # MARK: Judgement

    def expect_streaming(self, straps=None, since=None, seconds=RESUME_SECONDS_MAX):
        """Each strap's frames reach the gateway again, by `seconds` after `since`; returns after
        how many they all did."""
        straps = self.paired if straps is None else straps
        since = time.monotonic() if since is None else since
        addresses, silent = self.addresses(straps), []

        def all_heard():
            # Kept for the judgement: another look takes another time and may see otherwise.
            silent[:] = self.gateway.silent(addresses, since)
            return not silent

        until(since + seconds - time.monotonic(), all_heard)
        check(not silent, f"silent for {seconds} s: {', '.join(a[-2:] for a in silent)}")
        return round(time.monotonic() - since, 1)

    def expect_every_frame(self, straps, sent_before, sent_after):
        """The store has the frames that each strap sent between two counts: all, once, in order.
        Returns how many they are."""
        sent = self.straps.frames()
        sent = {strap: sent[strap][sent_before[strap]:sent_after[strap]] for strap in straps}
        for strap in straps:
            check(sent[strap], f"strap {strap} sent nothing")

        def stored():
            rows = self.gateway.store.frames()
            return {
                strap: [frame for frame, _ in rows.get(self.address(strap), [])]
                for strap in straps}

        def complete():
            kept = stored()
            return kept if all(sent[s][-1] in kept[s] for s in straps) else None

        kept = until(COMMIT_SECONDS_MAX, complete)
        for strap, frames in (kept or stored()).items():
            missing = sorted(set(sent[strap]) - set(frames), key=sent[strap].index)
            check(not missing, f"strap {strap}: {len(missing)} of {len(sent[strap])} frames are "
                               f"missing: {', '.join(missing[:5])}")
            first = frames.index(sent[strap][0])
            check(frames[first:first + len(sent[strap])] == sent[strap],
                  f"strap {strap}: frames are doubled or out of order")
        return sum(len(frames) for frames in sent.values())

    def stream(self, straps, seconds):
        """Lets straps send for a while and judges the frames."""
        before = self.straps.sent()
        time.sleep(seconds)
        after = self.straps.sent()
        return self.expect_every_frame(straps, before, after)

    def expect_condition(self, name):
        """The gateway says by itself what is not well."""
        told = until(NOTICE_SECONDS_MAX, lambda: name in self.gateway.health())
        check(told, f"status does not tell {name} but {self.gateway.health()}")

    def expect_balanced(self):
        """The books of status and store agree and balance."""
        def books():
            balance = self.gateway.get("/v1/status")["balance"]
            received, stored, undecodable = self.gateway.store.counts()
            agree = (balance["received"], balance["stored"], balance["undecodable"]) == (
                received, stored, undecodable)
            return balance if agree else None

        # A commit may fall between the two looks.
        balance = until(COMMIT_SECONDS_MAX, books)
        check(balance, "status and store count differently")
        check(balance["balanced"], f"the books do not balance: {balance}")
        return balance
