"""What happens to the link of one strap, and to its frames."""
import os
import time

from bench import WORN, check
from gateway import COMMIT_SECONDS
from world import cpu_seconds, process_named, until

# bluetoothd's socket in the kernel holds about 90 frames: what comes faster is lost there.
BURST_FRAMES, LOST_BURST_FRAMES = 60, 300
FAST_HZ, FAST_SECONDS = 20, 10
# Below the 10 s of silence after which a link counts as dead, and beyond them.
JAM_SECONDS, LONG_JAM_SECONDS = 6, 13
ABSENCE_SECONDS = 10
# Between a strap's switching on and its first sample.
POWER_ON_SECONDS_MAX = 5
# A notification's, from the bus to the durable row; and what bleak takes for it without storing it:
# measured once, apart, in a guest of the same kind whose clock counts instructions; not in this run.
INSTRUCTIONS_MAX, BLEAK_INSTRUCTIONS = 22_000, 65_500

# Frame, and the fault it is kept with; None: a measurement, if an odd one.
ODD_FRAMES = [
    ("", "empty"),
    ("00", "heartRateTruncated"),
    ("01", "heartRateTruncated"),
    ("0148", "heartRateTruncated"),
    ("084801", "energyTruncated"),
    ("1e", "heartRateTruncated"),
    ("1048", None),  # promises RR intervals
    ("1048ff", None),  # half an RR interval
    ("e048", None),  # reserved flags
    ("00" + "48" * 19, None),  # more than the flags promise
    ("0648" + "00" * 18, None),  # the longest that fits
]


def burst(bench):
    """A burst of 60 frames and eight straps at 20 Hz lose nothing."""
    before = bench.straps.sent()
    bench.straps.ask("burst", 0, count=BURST_FRAMES)
    burst = bench.expect_every_frame([0], before, bench.straps.sent())
    processes = {
        "gateway": bench.gateway.process.pid, "bluetoothd": bench.bluetoothd.process.pid,
        "dbus-daemon": process_named("dbus-daemon")}
    bench.straps.ask("set", WORN, hz=FAST_HZ)
    try:
        before, cpu = bench.straps.sent(), {n: cpu_seconds(pid) for n, pid in processes.items()}
        time.sleep(FAST_SECONDS)
        after = bench.straps.sent()
        count = sum(after) - sum(before)
        bench.notes["cost"] = {
            name: (cpu_seconds(pid) - cpu[name]) / count for name, pid in processes.items()}
        fast = bench.expect_every_frame(WORN, before, after)
    finally:
        bench.straps.ask("set", WORN, hz=1)
    return f"{burst} and {fast} frames"


def cost(bench):
    """A notification costs the gateway less than it costs bluetoothd and dbus-daemon."""
    cost = bench.note("cost")
    if nanoseconds := os.environ.get("NANOSECONDS_PER_INSTRUCTION"):
        count = {name: round(seconds * 1e9 / int(nanoseconds)) for name, seconds in cost.items()}
        bench.figure(
            "instructions a notification, VM", count.pop("gateway"), INSTRUCTIONS_MAX, "",
            {**count, "bleak, once": BLEAK_INSTRUCTIONS})
    figures = ", ".join(f"{name} {seconds * 1e6:.0f} µs" for name, seconds in cost.items())
    check(cost["gateway"] < cost["bluetoothd"] + cost["dbus-daemon"], figures)
    return figures


def too_large_a_burst(bench):
    """Of a burst that the kernel cannot hold, what arrives is kept, once and in order."""
    address, before = bench.address(0), bench.straps.sent()[0]
    bench.straps.ask("burst", 0, count=LOST_BURST_FRAMES)
    time.sleep(2)
    after = bench.straps.sent()[0]
    bench.expect_streaming([0])
    time.sleep(COMMIT_SECONDS + 1)
    sent = bench.straps.frames()[0][before:after]
    stored = [frame for frame, _ in bench.gateway.store.frames()[address]]
    place = {frame: number for number, frame in enumerate(sent)}
    arrived = [place[frame] for frame in stored if frame in place]
    check(arrived == sorted(set(arrived)), "frames are doubled or out of order")
    check(len(arrived) >= BURST_FRAMES, f"only {len(arrived)} of {len(sent)} frames arrived")
    bench.expect_balanced()
    return f"{len(arrived)} of {len(sent)} frames"


def malformed(bench):
    """Malformed frames are kept with their fault, counted, and end nothing."""
    address, began = bench.address(1), time.monotonic()
    undecodable = bench.expect_balanced()["undecodable"]
    bench.straps.ask("set", 1, hz=0)
    time.sleep(0.5)
    before = len(bench.straps.frames()[1])
    bench.straps.ask("send", 1, frames=[frame for frame, _ in ODD_FRAMES])
    bench.straps.ask("set", 1, hz=1)
    following = until(5, lambda: bench.straps.frames()[1][before + len(ODD_FRAMES):])
    check(following, "the strap fell silent")

    def stored():
        frames = bench.gateway.store.frames()[address]
        places = [n for n, (frame, _) in enumerate(frames) if frame == following[0]]
        return frames[places[0] - len(ODD_FRAMES):places[0]] if places else None

    kept = until(10, stored)
    check(kept == ODD_FRAMES, f"kept: {kept}")
    faults = sum(fault is not None for _, fault in ODD_FRAMES)
    counted = bench.expect_balanced()["undecodable"] - undecodable
    check(counted == faults, f"{counted} of {faults} are counted as undecodable")
    bench.expect_streaming([1], since=began)


def link_loss(bench):
    """A lost link is told of and streams again, with the battery read anew."""
    address = bench.address(2)
    connects = bench.straps.status()[2]["connects"]
    bench.straps.ask("set", 2, battery=41)
    bench.straps.ask("drop", 2)
    seconds = bench.expect_streaming([2])
    check(bench.straps.status()[2]["connects"] == connects + 1, "it took several connections")
    level = until(5, lambda: bench.gateway.sensors()[address]["battery_percent"] == 41)
    check(level, "the battery level is that of the link before")
    bench.stream([2], 3)
    return f"after {seconds} s"


def all_links_lost(bench):
    """Straps that are lost all at once stream again, and none twice."""
    bench.straps.ask("drop", bench.paired)
    seconds = bench.expect_streaming()
    bench.stream(bench.paired, 3)
    return f"{len(bench.paired)} straps after {seconds} s"


def short_absence(bench):
    """A strap off the air for 10 s streams again when it is back."""
    bench.straps.ask("off", 3)
    # Two more disturbances, at the same time to save some, for the next two tests.
    bench.notes["jam"] = bench.straps.status(), time.monotonic()
    bench.straps.ask("jam", 4, seconds=JAM_SECONDS)
    bench.straps.ask("jam", 5, seconds=LONG_JAM_SECONDS)
    time.sleep(ABSENCE_SECONDS)
    check(bench.gateway.sensors()[bench.address(3)]["link"] != "streaming", "it still streams")
    began = time.monotonic()
    bench.straps.ask("on", 3)
    seconds = bench.expect_streaming([3], since=began)
    bench.figure("power-on to first sample, VM", seconds, POWER_ON_SECONDS_MAX, "s")
    return f"after {seconds} s"


def lost_beside_absent(bench):
    """A lost link does not wait for a strap that is off the air."""
    address = bench.address(3)
    bench.straps.ask("off", 3)
    connecting = until(10, lambda: bench.gateway.sensors()[address]["link"] == "connecting")
    check(connecting, "the gateway does not try to connect")
    bench.straps.ask("drop", 2)
    try:
        return f"after {bench.expect_streaming([2])} s"
    finally:
        bench.straps.ask("on", 3)


def jammed(bench):
    """Frames that a disturbed radio delays by seconds are all kept."""
    before, began = bench.note("jam")
    time.sleep(max(0, began + JAM_SECONDS + 1 - time.monotonic()))
    after = bench.straps.status()
    check(after[4]["connects"] == before[4]["connects"], "the link was given up too early")
    frames = bench.expect_every_frame(
        [4], [strap["sent"] for strap in before], [strap["sent"] for strap in after])
    return f"{frames} frames"


def dead_link(bench):
    """A link that is up and silent is given up and made anew."""
    before, began = bench.note("jam")
    time.sleep(max(0, began + LONG_JAM_SECONDS - time.monotonic()))
    seconds = bench.expect_streaming([5])
    check(bench.straps.status()[5]["connects"] > before[5]["connects"], "the silent link was kept")
    return f"{seconds} s after the disturbance"


def removed(bench):
    """A device that another program removes from bluetoothd is found and streams again."""
    address = bench.address(6)
    check(bench.bluetoothd.remove(address) is not None, "bluetoothd did not remove it")
    return f"after {bench.expect_streaming([6])} s"


def removed_while_connecting(bench):
    """A device that is removed while it is being connected is found and streams again."""
    address = bench.address(6)
    bench.straps.ask("off", 6)
    connecting = until(10, lambda: bench.gateway.sensors()[address]["link"] == "connecting")
    check(connecting, "the gateway does not try to connect")
    check(bench.bluetoothd.remove(address) is not None, "bluetoothd did not remove it")
    began = time.monotonic()
    bench.straps.ask("on", 6)
    return f"after {bench.expect_streaming([6], since=began)} s"


def forget(bench):
    """Forgetting disconnects the strap, and it can be paired again."""
    address = bench.address(7)
    status, _, complaint = bench.gateway.command("forget", address)
    check(status == 0, f"forget ended with {status}: {complaint}")
    # bluetoothd takes 2 s to disconnect.
    free = until(6, lambda: not bench.straps.status()[7]["connected"])
    check(free, "the strap is still connected")
    status, _, complaint = bench.gateway.command("pair", address)
    check(status == 0, f"pair ended with {status}: {complaint}")
    bench.expect_streaming([7])


TESTS = [
    burst,
    cost,
    too_large_a_burst,
    malformed,
    link_loss,
    all_links_lost,
    short_absence,
    jammed,
    dead_link,
    lost_beside_absent,
    removed,
    removed_while_connecting,
    forget,
]
