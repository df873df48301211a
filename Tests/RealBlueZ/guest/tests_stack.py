"""What happens to bluetoothd, the processor and the gateway itself."""
import time

from bench import RESUME_SECONDS_MAX, SECOND_PROCESSOR, check
from gateway import STOP_SECONDS_MAX

ONE_PROCESSOR_ROUNDS = 3
ONE_PROCESSOR_SECONDS_MAX = 30


def bluetoothd_restarts(bench):
    """Data flows again within 15 s after bluetoothd was killed and started."""
    bench.bluetoothd.kill()
    bench.expect_condition("bluetoothd-absent")
    began = time.monotonic()
    bench.bluetoothd.start()
    seconds = bench.expect_streaming(since=began)
    bench.figure("bluetoothd restart to sample, VM", seconds, RESUME_SECONDS_MAX, "s")
    check("bluetoothd-absent" not in bench.gateway.health(), "it is still told as absent")
    bench.stream(bench.paired, 3)
    return f"after {seconds} s"


def unsignalled_connects(bench):
    """With one processor bluetoothd leaves connects unsignalled; all straps stream all the same."""
    before = bench.bluetoothd.unsignalled_connects()
    with open(SECOND_PROCESSOR, "w") as switch:
        switch.write("0")
    try:
        for _ in range(ONE_PROCESSOR_ROUNDS):
            bench.straps.ask("drop", bench.paired)
            bench.expect_streaming(seconds=ONE_PROCESSOR_SECONDS_MAX)
    finally:
        with open(SECOND_PROCESSOR, "w") as switch:
            switch.write("1")
    connects = ONE_PROCESSOR_ROUNDS * len(bench.paired)
    return f"{bench.bluetoothd.unsignalled_connects() - before} of {connects} connects unsignalled"


def gateway_killed(bench):
    """A gateway that was killed adopts the links that are still up and keeps what it had stored."""
    connects = [strap["connects"] for strap in bench.straps.status()]
    received = bench.gateway.store.counts()[0]
    bench.gateway.kill()
    began = time.monotonic()
    bench.gateway.start()
    seconds = bench.expect_streaming(since=began)
    check(connects == [strap["connects"] for strap in bench.straps.status()],
          "links that were up were made anew")
    balance = bench.expect_balanced()
    check(balance["received"] >= received, f"{received} frames became {balance['received']}")
    return f"after {seconds} s"


def gateway_stops(bench):
    """SIGTERM ends the gateway within 5 s with every frame in the store."""
    before = bench.straps.sent()
    time.sleep(4)
    after = bench.straps.sent()
    # What was sent has arrived; none of it needs to have been committed.
    time.sleep(0.3)
    status, seconds = bench.gateway.stop()
    check(status == 0, f"it ended with {status}")
    check(seconds <= STOP_SECONDS_MAX, f"it took {seconds:.1f} s")
    frames = bench.expect_every_frame(bench.paired, before, after)
    received, stored, undecodable = bench.gateway.store.counts()
    check(received == stored + undecodable, f"{received} received, {stored} + {undecodable} kept")
    rows = bench.gateway.store.rows("SELECT (SELECT count(*) FROM sample), "
                                    "(SELECT count(*) FROM undecodable)")[0]
    check(rows == (stored, undecodable), f"counted {(stored, undecodable)}, kept {rows}")
    return f"{frames} frames, {received} in all; after {seconds:.1f} s"


TESTS = [bluetoothd_restarts, unsignalled_connects]
# The last of all: nothing streams any more.
ENDING = [gateway_killed, gateway_stops]
