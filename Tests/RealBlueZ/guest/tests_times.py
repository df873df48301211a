"""When frames were sent, as the store says."""
import os
import signal
import statistics
import time

from fixture import WORN, check
from gateway import COMMIT_SECONDS

# The kernel keeps some 93 frames of a strap.
HANG_SECONDS = 100
# Frames that came on time show the strap's clock.
STEADY_SECONDS = 15
# By this the straps' clock and the guest's may disagree: an emulated processor is late, too.
CLOCKS_SECONDS = 0.5

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


TESTS = [hang]
