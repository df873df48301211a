"""What happens to the adapters, and two of them."""
import time

from fixture import BONDED, STRAY, WORN, check
from world import ADAPTER, until

# Adapters by number as they are plugged; bluetoothd numbers them as they come.
FIRST, SECOND = "02:00:00:00:00:F0", "02:00:00:00:00:F1"
# After an adapter comes back, bluetoothd itself now and then loses a subscription, and the gateway
# has to notice the silence and connect again.
ADAPTER_BACK_SECONDS_MAX = 30
ADAPTER_SECONDS_MAX = 20
# The gateway bears it for 90 s, and its attempts take 8 s each.
HANGING_SECONDS_MAX = 180
# Three attempts that are refused, with their pauses.
FULL_SECONDS_MAX = 30
# Three attempts leave their gaps, and so does the start before them; a strap that waits leaves one.
GAPS_SECONDS, GAPS_MAX = 25, 14
# A strap that waits for a place tries each minute.
PLACE_SECONDS_MAX = 75
# From the command to the answer that the strap is not paired, with the command's own start.
ANSWER_SECONDS_MAX = 25
# The same for a bonded strap that was tried meanwhile where it has no bond: a subscription that is
# not answered takes 30 s.
BONDED_BACK_SECONDS_MAX = 60


def adapter_off(fixture):
    """An adapter that is switched off is switched on again; all straps stream again."""
    began = time.monotonic()
    check(fixture.bluetoothd.power(False) is not None, "the adapter does not power off")
    powered = until(ADAPTER_SECONDS_MAX, fixture.bluetoothd.is_powered)
    check(powered, "the gateway does not power the adapter on")
    seconds = fixture.expect_streaming(since=began, seconds=ADAPTER_BACK_SECONDS_MAX)
    fixture.stream(fixture.paired, 3)
    return f"after {seconds} s"


def adapter_unplugged(fixture):
    """An adapter that is unplugged is reported; all straps stream again after it is plugged in."""
    fixture.unplug(0)
    fixture.expect_condition("no-adapter")
    time.sleep(1)
    began = time.monotonic()
    fixture.bluetoothd.plug()
    seconds = fixture.expect_streaming(since=began, seconds=ADAPTER_BACK_SECONDS_MAX)
    check(fixture.bluetoothd.is_powered(), f"{ADAPTER} is not powered")
    fixture.stream(fixture.paired, 3)
    return f"after {seconds} s"


def expect_places(fixture):
    """How many straps are on each adapter; bonded ones are where their bond is."""
    places = fixture.bluetoothd.places()
    for strap in fixture.paired:
        check(fixture.address(strap) in places, f"strap {strap} is connected to no adapter")
        if strap in BONDED:
            adapter = places[fixture.address(strap)]
            check(adapter == FIRST, f"strap {strap} is on {adapter}: it has no bond there")
    counts = [sum(place == adapter for place in places.values()) for adapter in (FIRST, SECOND)]
    return f"{counts[0]} and {counts[1]} straps"


def second_adapter(fixture):
    """Straps go over to a second adapter when theirs is unplugged, save for bonded ones."""
    fixture.bluetoothd.plug(1)
    powered = until(ADAPTER_SECONDS_MAX, lambda: SECOND in fixture.bluetoothd.powered_adapters())
    check(powered, "the second adapter does not power on")
    free = fixture.paired - set(BONDED)
    fixture.unplug(0)
    seconds = fixture.expect_streaming(free, seconds=ADAPTER_BACK_SECONDS_MAX)
    places = fixture.bluetoothd.places()
    wrong = [s for s in free if places.get(fixture.address(s)) != SECOND]
    check(not wrong, f"not on the second adapter: {wrong}")
    return f"after {seconds} s"


def two_adapters(fixture):
    """Straps stream through two adapters at once, and no frame is missed."""
    began = time.monotonic()
    fixture.bluetoothd.plug(0)
    seconds = fixture.expect_streaming(since=began, seconds=BONDED_BACK_SECONDS_MAX)
    places = expect_places(fixture)
    fixture.stream(fixture.paired, 5)
    return f"{places}, after {seconds} s"


def renumbered(fixture):
    """Adapters that come back under each other's number keep their bonds and straps."""
    before = fixture.bluetoothd.adapters_by_path()
    for number in (0, 1):
        fixture.unplug(number)
    fixture.expect_condition("no-adapter")
    began = time.monotonic()
    wanted = [SECOND, FIRST] if before.get(ADAPTER) == FIRST else [FIRST, SECOND]
    for adapter in wanted:
        fixture.bluetoothd.plug([FIRST, SECOND].index(adapter))
        there = until(ADAPTER_SECONDS_MAX, lambda: adapter in fixture.bluetoothd.powered_adapters())
        check(there, f"{adapter} does not power on")
    after = fixture.bluetoothd.adapters_by_path()
    check(after != before and len(after) == 2, f"they have the same numbers: {after}")
    seconds = fixture.expect_streaming(since=began, seconds=BONDED_BACK_SECONDS_MAX)
    places = expect_places(fixture)
    fixture.stream(fixture.paired, 3)
    return f"{places}, after {seconds} s"


def gaps_of(fixture, strap):
    """How many gaps the store has of a strap."""
    return fixture.gateway.store.rows("""
        SELECT count(*) FROM gap g JOIN assignment a ON a.id = g.assignment JOIN sensor s ON s.id = a.sensor
        WHERE s.address = ?""", fixture.address(strap))[0][0]


def full_adapter(fixture):
    """An adapter that refuses a further link is reported as full, by status and by pair."""
    waiting, others = WORN[-1], fixture.paired - {WORN[-1]}
    fixture.expect_streaming()
    fixture.straps.ask("off", waiting)
    up = until(10, lambda: len(fixture.bluetoothd.places()) == len(others))
    check(up, f"connected: {len(fixture.bluetoothd.places())} of {len(others)}")
    # One that has seen the adapter carry more links does not take it to be full.
    fixture.gateway.stop()
    fixture.gateway.start()
    fixture.expect_streaming(others)
    fixture.straps.ask("controller", adapter=0, links_max=len(others))
    try:
        gaps, began = gaps_of(fixture, waiting), time.monotonic()
        fixture.straps.ask("on", waiting)
        told = until(FULL_SECONDS_MAX, lambda: "adapter-full" in fixture.gateway.health())
        check(told, f"status does not tell adapter-full but {fixture.gateway.health()}")
        seconds = time.monotonic() - began
        fixture.straps.ask("on", STRAY)
        asked = time.monotonic()
        status, _, complaint = fixture.gateway.command("pair", fixture.address(STRAY))
        answered = time.monotonic() - asked
        check(status not in (0, 2, 3), f"pair ended with {status}: {complaint}")
        check("takes no further link" in complaint, complaint)
        check(answered <= ANSWER_SECONDS_MAX, f"pair took {answered:.0f} s")
        check("strap-unreachable" not in fixture.gateway.health(), f"{fixture.gateway.health()}")
        time.sleep(max(0, began + GAPS_SECONDS - time.monotonic()))
        more = gaps_of(fixture, waiting) - gaps
        check(more <= GAPS_MAX, f"{more} gaps in {GAPS_SECONDS} s")
    finally:
        fixture.straps.ask("off", STRAY)
        fixture.straps.ask("controller", adapter=0, links_max=None)
    back = fixture.expect_streaming([waiting], seconds=PLACE_SECONDS_MAX)
    return f"after {seconds:.0f} s, pair after {answered:.0f}; {more} gaps; streams {back} s after there was a place"


def hanging_adapter(fixture):
    """An adapter that hears straps and connects to none is power-cycled, and all stream again."""
    straps = fixture.straps.status()
    fixture.straps.ask("controller", adapter=0, hangs=True)
    fixture.straps.ask("drop", fixture.paired)
    seconds = fixture.expect_streaming(seconds=HANGING_SECONDS_MAX)
    check(all(now["connects"] > before["connects"]
              for now, before in zip(fixture.straps.status(), straps) if before["connected"]), "no link was lost")
    return f"streaming after {seconds} s"


TESTS = [full_adapter, hanging_adapter, adapter_off, adapter_unplugged, second_adapter, two_adapters, renumbered]
