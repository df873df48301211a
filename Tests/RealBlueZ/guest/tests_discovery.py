"""Scanning, pairing, and a minute of streaming."""
import threading
import time

from fixture import LATE, SPARE, STRAY, WORN, check
from tests_bond import begin_refusals

STREAM_SECONDS = 60
SCAN_SECONDS = 4
SCANS_MAX = 5


def heard_by_scan(fixture):
    """What a scan lists, and which it was: a further one where a busy host kept the straps from advertising."""
    for number in range(1, SCANS_MAX + 1):
        status, heard, complaint = fixture.gateway.command("scan", "--for", f"{SCAN_SECONDS}s")
        check(status == 0, f"scan ended with {status}: {complaint}")
        heard = {strap["address"]: strap for strap in heard}
        if all(state["address"] in heard for state in fixture.straps.status()):
            break
    return heard, number


def scan(fixture):
    """A scan lists every strap on the air with name and signal strength."""
    # Not heard from then on: bluetoothd forgets it while the others stream.
    try:
        heard, scans = heard_by_scan(fixture)
    finally:
        fixture.straps.ask("off", LATE)
    for state in fixture.straps.status():
        strap = heard.get(state["address"])
        check(strap, f"{state['name']} was not heard")
        check(strap["name"] == state["name"], f"{state['name']} is called {strap['name']}")
        check(strap["rssi"] is not None and not strap["known"], f"{strap}")
    check(heard[fixture.address(0)]["rssi"] == -42, "the signal strength is another's")
    return f"{len(heard)} straps, scan {scans}"


def pair_one(fixture):
    """Pairing reads what the strap says of itself and shows the first heartbeat."""
    status, report, complaint = fixture.gateway.command("pair", fixture.address(0))
    check(status == 0, f"pair ended with {status}: {complaint}")
    fixture.paired.add(0)
    check(report["first_bpm"] == 61, f"first heartbeat: {report.get('first_bpm')}")
    check(report["body_location"] == "chest", f"location: {report.get('body_location')}")
    check((report["manufacturer"], report["model"]) == ("Emulated", "HR-1"), f"{report}")
    check(report["sensor"]["battery_percent"] == 87, f"{report['sensor']}")
    check("enrollment" not in report["sensor"], "an enrollment came from nowhere")


def pair_at_once(fixture):
    """Eight straps pair at once."""
    outcomes = {}

    def pair(strap):
        outcomes[strap] = fixture.gateway.command("pair", fixture.address(strap))

    straps = [*WORN[1:], SPARE]
    threads = [threading.Thread(target=pair, args=[strap]) for strap in straps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fixture.paired.update(strap for strap, (status, *_) in outcomes.items() if status == 0)
    # What follows needs them all: again, one at a time, as a technician would.
    for strap in sorted(set(straps) - fixture.paired):
        if fixture.gateway.command("pair", fixture.address(strap))[0] == 0:
            fixture.paired.add(strap)
    for strap, (status, _, complaint) in sorted(outcomes.items()):
        check(status == 0, f"strap {strap}: pair ended with {status}: {complaint}")
    return f"all streaming after {fixture.expect_streaming()} s more"


def stream_for_a_minute(fixture):
    """Eight straps stream for 60 s and no frame is missed."""
    # Meanwhile others are off the air, refused or have forgotten their bond: none of them may
    # disturb the eight. Later tests judge them.
    fixture.straps.ask("off", SPARE)
    fixture.paired.discard(SPARE)
    refusing = begin_refusals(fixture)
    connecting = threading.Thread(target=connect_to_absent, args=[fixture])
    connecting.start()
    frames = fixture.stream(WORN, STREAM_SECONDS)
    check(frames >= len(WORN) * (STREAM_SECONDS - 2), f"only {frames} frames were sent")
    check("not-enrolled" in fixture.gateway.health(), "the held samples are not told of")
    fixture.notes["late is known"] = fixture.bluetoothd.knows(fixture.address(LATE))
    fixture.notes["spare"] = fixture.gateway.sensors()[fixture.address(SPARE)]
    refusing.join()
    connecting.join()
    balance = fixture.expect_balanced()
    check(balance["undecodable"] == 0, f"undecodable: {balance['undecodable']}")
    check(not balance["refused"], f"refused: {balance['refused']}")
    held = balance["held"].get("not-enrolled", 0)
    check(held == balance["stored"], f"{held} of {balance['stored']} samples are held")
    return f"{frames} frames"


def connect_to_absent(fixture):
    """Another program's Connect to a strap that has left, for a later test."""
    # bluetoothd may have forgotten it since it was heard, and a scan beside pairings hears it late.
    for _ in range(SCANS_MAX):
        fixture.gateway.command("scan", "--for", "2s")
        if fixture.bluetoothd.knows(fixture.address(STRAY)):
            break
    fixture.straps.ask("off", STRAY)
    began = time.monotonic()
    _, fault = fixture.bluetoothd.connect(fixture.address(STRAY))
    fixture.notes["connect to absent"] = (time.monotonic() - began, fault)


def patience(fixture):
    """bluetoothd tries for 42 s to connect to an absent strap, and takes 2 s to disconnect."""
    # What the gateway's own limits are made for.
    seconds, fault = fixture.note("connect to absent")
    check("le-connection-abort-by-local" in fault, f"Connect ended with: {fault}")
    check(35 <= seconds <= 60, f"Connect took {seconds:.0f} s")
    address = fixture.address(LATE)
    began = time.monotonic()
    check(fixture.bluetoothd.disconnect(address), "it does not disconnect")
    disconnected = time.monotonic() - began
    check(1.5 <= disconnected <= 6, f"Disconnect took {disconnected:.1f} s")
    fixture.expect_streaming([LATE])
    return f"{seconds:.0f} s and {disconnected:.1f} s"


def absent_for_a_minute(fixture):
    """A strap that was off the air for a minute streams again when it is back."""
    # To bluetoothd an attempt to connect to it lasts 42 s; it ended without disturbing the others.
    seen = fixture.note("spare")
    check(seen["link"] != "streaming", "it streamed while it was off the air")
    began = time.monotonic()
    fixture.straps.ask("on", SPARE)
    fixture.paired.add(SPARE)
    seconds = fixture.expect_streaming([SPARE], since=began)
    return f"was {seen['link']} {seen.get('link_detail', '')}, back after {seconds} s"


def forgotten_by_bluetoothd(fixture):
    """A strap that bluetoothd has forgotten since the scan is found again by pair."""
    # Devices that are neither paired nor trusted go 30 s after they were last heard.
    check(not fixture.note("late is known"), "bluetoothd still knew it: nothing was tested")
    fixture.straps.ask("on", LATE)
    status, report, complaint = fixture.gateway.command("pair", fixture.address(LATE))
    check(status == 0, f"pair ended with {status}: {complaint}")
    check(report.get("first_bpm") == 72, f"first heartbeat: {report.get('first_bpm')}")
    fixture.paired.add(LATE)


PREPARING = [scan, pair_one, pair_at_once]
TESTS = [stream_for_a_minute, absent_for_a_minute, forgotten_by_bluetoothd, patience]
