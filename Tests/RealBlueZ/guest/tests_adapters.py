"""What happens to the adapters, and two of them."""
import time

from fixture import BONDED, check
from world import ADAPTER, until

# Adapters by number as they are plugged; bluetoothd numbers them as they come.
FIRST, SECOND = "02:00:00:00:00:F0", "02:00:00:00:00:F1"
# After an adapter comes back, bluetoothd itself now and then loses a subscription, and the gateway
# has to notice the silence and connect again.
ADAPTER_BACK_SECONDS_MAX = 30
ADAPTER_SECONDS_MAX = 20
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


TESTS = [adapter_off, adapter_unplugged, second_adapter, two_adapters, renumbered]
