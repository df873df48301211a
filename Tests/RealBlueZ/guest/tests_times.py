"""When frames were sent, as the store says."""
import json
import os
import signal
import statistics
import time

from fixture import WORN, check
from gateway import COMMIT_SECONDS
from world import FRAMES

# The kernel keeps some 93 frames of a strap.
HANG_SECONDS = 100
# Frames that came on time show the strap's clock.
STEADY_SECONDS = 15
# By this the straps' clock and the guest's may disagree: an emulated processor is late, too.
CLOCKS_SECONDS = 0.5
# Straps that gather their frames, by how many they send at once, and those beside them that do not.
BATCHES, PROMPT = {WORN[0]: 3, WORN[1]: 5, WORN[2]: 8, WORN[3]: 5}, WORN[4:]
BATCHES_SECONDS = 60
# The first link is given up before the eighth frame is there.
BATCHES_BACK_SECONDS_MAX = 60

TIMES = """
    SELECT s.uptime_us, s.flags, s.frame FROM sample s
    JOIN segment g ON g.id = s.segment JOIN assignment a ON a.id = g.assignment
    JOIN sensor n ON n.id = a.sensor
    WHERE n.address = ? AND s.uptime_us >= ? ORDER BY s.id"""


def uptime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stored(fixture, strap, since):
    """(number of the frame, stored time, its uncertainty) in seconds, of what came since an uptime."""
    time.sleep(2 * COMMIT_SECONDS + 1)
    rows = fixture.gateway.store.rows(TIMES, fixture.address(strap), int(since * 1e6))
    return [
        (int.from_bytes(frame[2:4], "little"), at / 1e6, max(1, flags >> 24) / 4) for at, flags, frame in rows]


def hang(fixture):
    """Times after a hang of 100 s are off by no more than they say."""
    began = uptime()
    time.sleep(STEADY_SECONDS)
    process = fixture.bluetoothd.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        hung = uptime()
        time.sleep(HANG_SECONDS)
    finally:
        os.kill(process, signal.SIGCONT)
    awake = uptime()
    fixture.expect_streaming(WORN)
    time.sleep(STEADY_SECONDS)
    worst, late, lost = 0, 0, 0
    for strap in WORN:
        rows = stored(fixture, strap, began)
        steady = [at - number for number, at, _ in rows if at < hung - 1]
        check(len(steady) > 5, f"strap {strap} sent {len(steady)} frames before")
        first = statistics.median(steady)
        numbers = [number for number, _, _ in rows]
        check(numbers == sorted(set(numbers)), f"strap {strap}: frames are doubled or out of order")
        lost += numbers[-1] - numbers[0] + 1 - len(numbers)
        late += sum(hung < first + number < awake for number in numbers)
        for number, at, uncertainty in rows:
            off = abs(at - first - number)
            check(
                off <= uncertainty + CLOCKS_SECONDS,
                f"strap {strap}: a frame sent {first + number - hung:.1f} s after the hang began is {off:.1f} s "
                f"off, and says {uncertainty} s")
            worst = max(worst, off)
    check(late > len(WORN) * 10, f"only {late} frames of the hang came")
    return f"{late} frames of the hang, at most {worst:.1f} s off; {lost} did not come"


def made(straps):
    """When frames were made by the host's clock, by strap and number."""
    times = {strap: {} for strap in straps}
    with open(FRAMES) as file:
        for entry in map(json.loads, file):
            if entry["strap"] in times:
                times[entry["strap"]][int(entry["hex"][6:8] + entry["hex"][4:6], 16)] = entry["made"]
    return times


def batches(fixture):
    """Times of frames that a strap sends several at a time are off by no more than they say."""
    fixture.expect_streaming(WORN)
    # A strap without intervals between heartbeats: nothing in its frames says when they were made.
    for strap, count in BATCHES.items():
        fixture.straps.ask("set", strap, batch=count, rr_intervals=0)
    # What a strap does changes with a link: within one, a strap is taken to keep its clock.
    fixture.straps.ask("drop", BATCHES)
    try:
        fixture.expect_streaming(BATCHES, seconds=BATCHES_BACK_SECONDS_MAX)
        began = uptime()
        time.sleep(BATCHES_SECONDS)
        truth = made(WORN)
        rows = {strap: stored(fixture, strap, began) for strap in WORN}
        # Between the host's clock and the guest's, by the frames that come as they are made.
        apart = statistics.median(
            at - truth[strap][number] for strap in PROMPT for number, at, _ in rows[strap] if number in truth[strap])
        offs, doubts = [], []
        for strap in BATCHES:
            check(len(rows[strap]) > BATCHES_SECONDS / 2, f"strap {strap}: {len(rows[strap])} frames are stored")
            numbers = [number for number, _, _ in rows[strap]]
            check(numbers == sorted(set(numbers)), f"strap {strap}: frames are doubled or out of order")
            for number, at, uncertainty in rows[strap]:
                if number in truth[strap]:
                    off = abs(at - truth[strap][number] - apart)
                    check(
                        off <= uncertainty + CLOCKS_SECONDS,
                        f"strap {strap}: frame {number} is {off:.1f} s off, and says {uncertainty} s")
                    offs.append(off)
                    doubts.append(uncertainty)
        doubt = statistics.median(doubts)
        check(doubt <= 1, f"half of the frames are uncertain by {doubt} s or more; their strap sends one a second")
    finally:
        for strap in BATCHES:
            fixture.straps.ask("set", strap, batch=1, rr_intervals=1)
        fixture.straps.ask("drop", BATCHES)
        fixture.expect_streaming(BATCHES)
    return f"{len(offs)} frames, at most {max(offs):.1f} s off; half are uncertain by {doubt} s or less"


TESTS = [hang, batches]
