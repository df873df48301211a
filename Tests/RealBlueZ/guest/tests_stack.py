"""What happens to bluetoothd, the processor and the gateway itself."""
import resource
import time

from fixture import RESUME_SECONDS_MAX, SECOND_PROCESSOR, WORN, check, ninth_of_ten
from gateway import STOP_SECONDS_MAX
from world import until

ONE_PROCESSOR_ROUNDS = 3
ONE_PROCESSOR_SECONDS_MAX = 30
# Memory of the gateway's own: with nothing to do, and after the tests of links (bursts, eight straps at 20 Hz,
# losses).
IDLE_MIB_MAX, LOADED_MIB_MAX = 8, 12
# From the gateway's start to a sample of a strap in the store, in nine of ten cases; two starts of eight straps.
COLD_START_SECONDS_MAX, COLD_STARTS = 5, 2
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


def cold_start(fixture):
    """A gateway that starts among eight straps without a link has a sample of each in its store within 5 s."""
    took = []
    for _ in range(COLD_STARTS):
        status, _ = fixture.gateway.stop()
        check(status == 0, f"it ended with {status}")
        fixture.straps.ask("drop", fixture.paired)
        free = until(6, lambda: not any(strap["connected"] for strap in fixture.straps.status()))
        check(free, "links are left")
        run = fixture.gateway.store.rows("SELECT max(run) FROM segment")[0][0]
        began = time.monotonic()
        fixture.gateway.start()
        missing = set(fixture.addresses(WORN))

        def durable():
            now = time.monotonic() - began
            rows = fixture.gateway.store.rows(
                "SELECT DISTINCT n.address FROM segment g JOIN assignment a ON a.id = g.assignment "
                "JOIN sensor n ON n.id = a.sensor WHERE g.run > ? AND g.received > 0", run)
            for address in missing & {address for address, in rows}:
                took.append(now)
                missing.discard(address)
            return not missing

        check(until(RESUME_SECONDS_MAX, durable, pause=0.1), f"no sample of {len(missing)} straps")
        fixture.expect_streaming()
    seconds = ninth_of_ten(took)
    fixture.figure("start to a sample of each strap, 9 of 10", seconds, COLD_START_SECONDS_MAX, "s")
    return f"{seconds} s; {min(took):.1f} to {max(took):.1f} s"


PREPARING = [idle_memory]
TESTS = [loaded_memory, bluetoothd_restarts, unsignalled_connects]
# The last of all: nothing streams any more.
ENDING = [cold_start, gateway_killed, gateway_stops]
