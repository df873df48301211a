"""What happens to bluetoothd, the processor and the gateway itself."""
import resource
import time

from fixture import RESUME_SECONDS_MAX, SECOND_PROCESSOR, check
from gateway import STOP_SECONDS_MAX

ONE_PROCESSOR_ROUNDS = 3
ONE_PROCESSOR_SECONDS_MAX = 30
# Memory of the gateway's own: with nothing to do, and after the tests of links (bursts, eight straps at 20 Hz,
# losses).
IDLE_MIB_MAX, LOADED_MIB_MAX = 8, 12
# After its start, until it has nothing more to set up.
SETTLE_SECONDS = 3


def idle_memory(fixture):
    """With nothing to do the gateway has at most 8 MiB of its own."""
    time.sleep(SETTLE_SECONDS)
    return expect_memory(fixture, "memory of its own, idle", IDLE_MIB_MAX)


def loaded_memory(fixture):
    """After everything that straps do it has at most 12 MiB of its own."""
    return expect_memory(fixture, "memory of its own, loaded", LOADED_MIB_MAX)


def expect_memory(fixture, figure, limit):
    mebibytes = fixture.gateway.own_mebibytes()
    fixture.figure(figure, mebibytes, limit, "MiB")
    check(mebibytes <= limit, f"{mebibytes} MiB")
    return f"{mebibytes} MiB, pages of {resource.getpagesize() // 1024} KiB"


def bluetoothd_restarts(fixture):
    """Data flows again within 15 s after bluetoothd was killed and started."""
    fixture.bluetoothd.kill()
    fixture.expect_condition("bluetoothd-absent")
    began = time.monotonic()
    fixture.bluetoothd.start()
    seconds = fixture.expect_streaming(since=began)
    fixture.figure("bluetoothd restart to sample", seconds, RESUME_SECONDS_MAX, "s")
    check("bluetoothd-absent" not in fixture.gateway.health(), "it is still told as absent")
    fixture.stream(fixture.paired, 3)
    return f"after {seconds} s"


def unsignalled_connects(fixture):
    """With one processor bluetoothd leaves connects unsignalled; all straps stream all the same."""
    before = fixture.bluetoothd.unsignalled_connects()
    with open(SECOND_PROCESSOR, "w") as switch:
        switch.write("0")
    try:
        for _ in range(ONE_PROCESSOR_ROUNDS):
            fixture.straps.ask("drop", fixture.paired)
            fixture.expect_streaming(seconds=ONE_PROCESSOR_SECONDS_MAX)
    finally:
        with open(SECOND_PROCESSOR, "w") as switch:
            switch.write("1")
    connects = ONE_PROCESSOR_ROUNDS * len(fixture.paired)
    return f"{fixture.bluetoothd.unsignalled_connects() - before} of {connects} connects unsignalled"


def gateway_killed(fixture):
    """A gateway that was killed adopts the links that are still up and keeps what it had stored."""
    connects = [strap["connects"] for strap in fixture.straps.status()]
    received = fixture.gateway.store.counts()[0]
    fixture.gateway.kill()
    began = time.monotonic()
    fixture.gateway.start()
    seconds = fixture.expect_streaming(since=began)
    check(connects == [strap["connects"] for strap in fixture.straps.status()],
          "links that were up were made anew")
    balance = fixture.expect_balanced()
    check(balance["received"] >= received, f"{received} frames became {balance['received']}")
    return f"after {seconds} s"


def gateway_stops(fixture):
    """SIGTERM ends the gateway within 5 s with every frame in the store."""
    before = fixture.straps.sent()
    time.sleep(4)
    after = fixture.straps.sent()
    # What was sent has arrived; none of it needs to have been committed.
    time.sleep(0.3)
    status, seconds = fixture.gateway.stop()
    check(status == 0, f"it ended with {status}")
    check(seconds <= STOP_SECONDS_MAX, f"it took {seconds:.1f} s")
    frames = fixture.expect_every_frame(fixture.paired, before, after)
    received, stored, undecodable = fixture.gateway.store.counts()
    check(received == stored + undecodable, f"{received} received, {stored} + {undecodable} kept")
    rows = fixture.gateway.store.rows("SELECT (SELECT count(*) FROM sample), "
                                    "(SELECT count(*) FROM undecodable)")[0]
    check(rows == (stored, undecodable), f"counted {(stored, undecodable)}, kept {rows}")
    return f"{frames} frames, {received} in all; after {seconds:.1f} s"


PREPARING = [idle_memory]
TESTS = [loaded_memory, bluetoothd_restarts, unsignalled_connects]
# The last of all: nothing streams any more.
ENDING = [gateway_killed, gateway_stops]
