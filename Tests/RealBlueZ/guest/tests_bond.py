"""Straps that allow no subscription without a bond."""
import os
import threading
import time

from fixture import BONDING, DISPLAY, KEYPAD, PAIR_SECONDS_MAX, check
from world import until

PASSKEY, WRONG_PASSKEY = 481516, 161584
# From the pairing's first call to the gateway's question, scanning and connecting included.
QUESTION_SECONDS_MAX = 30
# The gateway keeps the link of a strap it was asked to pair for 10 s, for a second try.
LET_GO_SECONDS_MAX = 20
# Three failed connects, with their pauses.
BOND_LOST_SECONDS_MAX = 90
# Less than the gateway leaves an attempt to connect alone.
LATE_CONNECTION_SECONDS = 1.0
# A strap counts as heard for 30 s.
UNHEARD_SECONDS = 35
# It stops in hci_chan_del when a bonded strap has lost its keys, and bluetoothd with it.
CRASHING_KERNEL = "6.1.0-56"


def expect_bonded(fixture, strap, bpm, outcome, is_authenticated):
    status, report, complaint = outcome
    check(status == 0, f"pair ended with {status}: {complaint}")
    fixture.paired.add(strap)
    check(report.get("first_bpm") == bpm, f"first heartbeat: {report.get('first_bpm')}")
    state = fixture.straps.status()[strap]
    check(state["encrypted"], "the link is not encrypted")
    check(state["authenticated"] == is_authenticated, "it was bonded in another way")
    check(fixture.bluetoothd.is_paired(fixture.address(strap)), "bluetoothd knows of no bond")
    fixture.stream([strap], 2)


def just_works(fixture):
    """A strap that wants an encrypted link is bonded before it is subscribed to."""
    # A StartNotify that brings the bond about is now and then never answered.
    began = time.monotonic()
    outcome = fixture.gateway.command("pair", fixture.address(BONDING))
    seconds = time.monotonic() - began
    expect_bonded(fixture, BONDING, 69, outcome, is_authenticated=False)
    return f"after {seconds:.0f} s"


def typed_passkey(fixture):
    """A strap with keys is bonded with the passkey that the gateway shows."""
    address, outcome = fixture.address(KEYPAD), []

    def question():
        answer = fixture.gateway.post("/v1/pairing/question", {"address": address})[1]
        return answer if answer.get("question") else None

    def pair():
        outcome.append(fixture.gateway.post("/v1/pair", {"address": address, "attended": True}))

    pairing = threading.Thread(target=pair)
    pairing.start()
    asked = until(QUESTION_SECONDS_MAX, question)
    check(asked, f"nothing was asked: {outcome}")
    check(asked["question"] == "type-passkey", f"asked: {asked}")
    check(len(asked["passkey"]) == 6 and asked["passkey"].isdigit(), f"asked: {asked}")
    fixture.straps.ask("type", KEYPAD, passkey=int(asked["passkey"]))
    pairing.join()
    status, report = outcome[0]
    expect_bonded(
        fixture, KEYPAD, 81, (0 if status == 200 else status, report, report), is_authenticated=True)


def begin_refusals(fixture):
    """What later tests judge, while others stream: pairing without the passkey and with a wrong
    one; and a strap that has forgotten its bond."""
    def try_to_pair():
        for name, words in (("none", []), ("wrong", ["--passkey", str(WRONG_PASSKEY)])):
            began = time.monotonic()
            outcome = fixture.gateway.command(
                "pair", fixture.address(DISPLAY), *words, seconds_max=2 * PAIR_SECONDS_MAX)
            fixture.notes["passkey " + name] = (*outcome, time.monotonic() - began)

    trying = threading.Thread(target=try_to_pair)
    trying.start()
    if BONDING in fixture.paired:
        check(not os.uname().release.startswith(CRASHING_KERNEL),
              f"kernel {CRASHING_KERNEL} does not survive this")
        fixture.paired.discard(BONDING)
        fixture.straps.ask("forget", BONDING)
        fixture.straps.ask("drop", BONDING)
        fixture.notes["bond lost"] = time.monotonic()
    return trying


def refused_passkey(fixture):
    """Without the passkey or with a wrong one a strap is not paired, in time and with the reason."""
    for name in ("none", "wrong"):
        status, _, complaint, seconds = fixture.note("passkey " + name)
        check(status not in (0, 2, 3), f"{name}: pair ended with {status}: {complaint}")
        check("not paired" in complaint and "code" in complaint, f"{name}: {complaint}")
        check(seconds <= PAIR_SECONDS_MAX, f"{name}: pair took {seconds:.0f} s")
    address = fixture.address(DISPLAY)
    check(address not in fixture.gateway.sensors(), "it is listed all the same")
    gone = until(LET_GO_SECONDS_MAX, lambda: not fixture.bluetoothd.is_connected(address))
    check(gone, "it is still connected")
    return complaint.splitlines()[0]


def passkey(fixture):
    """A strap that shows a passkey is bonded with it."""
    outcome = fixture.gateway.command("pair", fixture.address(DISPLAY), "--passkey", str(PASSKEY))
    expect_bonded(fixture, DISPLAY, 75, outcome, is_authenticated=True)


def bonds_last(fixture):
    """Bonded straps come back encrypted after a lost link."""
    straps = [strap for strap in (DISPLAY, KEYPAD) if strap in fixture.paired]
    check(straps, "none is bonded")
    connects = fixture.straps.status()
    fixture.straps.ask("drop", straps)
    seconds = fixture.expect_streaming(straps)
    for strap in straps:
        state = fixture.straps.status()[strap]
        check(state["connects"] > connects[strap]["connects"], "the link was not lost")
        check(state["encrypted"] and state["authenticated"], f"{state}")
    return f"after {seconds} s"


def bond_lost(fixture):
    """A strap that forgot its bond is reported with advice, which helps."""
    # Connect fails from then on, and bluetoothd goes on saying Paired.
    address, began = fixture.address(BONDING), fixture.note("bond lost")
    told = until(
        began + BOND_LOST_SECONDS_MAX - time.monotonic(),
        lambda: [c for c in fixture.gateway.get("/v1/status")["health"] if c["name"] == "bond-lost"])
    check(told, f"status does not tell bond-lost but {fixture.gateway.health()}")
    check(fixture.bluetoothd.is_paired(address), "bluetoothd noticed it: nothing was tested")
    advice = told[0]["advice"]
    check(f"edge-gateway pair {address}" in advice, f"the advice: {advice}")
    asked = time.monotonic()
    outcome = fixture.gateway.command("pair", address, seconds_max=2 * PAIR_SECONDS_MAX)
    seconds = time.monotonic() - asked
    check(seconds <= PAIR_SECONDS_MAX, f"pair took {seconds:.0f} s: {outcome[2]}")
    expect_bonded(fixture, BONDING, 69, outcome, is_authenticated=False)
    gone = until(5, lambda: "bond-lost" not in fixture.gateway.health())
    check(gone, "it is still told of")
    return f"{told[0]['message']}; paired again after {seconds:.0f} s"


def expect_bond_lost(fixture, seconds):
    """The message of the condition; its advice helps."""
    address = fixture.address(BONDING)
    told = until(seconds, lambda: [
        c for c in fixture.gateway.get("/v1/status")["health"] if c["name"] == "bond-lost"])
    check(told, f"status does not tell bond-lost but {fixture.gateway.health()}")
    check(f"edge-gateway pair {address}" in told[0]["advice"], f"the advice: {told[0]['advice']}")
    began = time.monotonic()
    outcome = fixture.gateway.command("pair", address, seconds_max=2 * PAIR_SECONDS_MAX)
    seconds = time.monotonic() - began
    check(seconds <= PAIR_SECONDS_MAX, f"pair took {seconds:.0f} s: {outcome[2]}")
    expect_bonded(fixture, BONDING, 69, outcome, is_authenticated=False)
    gone = until(5, lambda: "bond-lost" not in fixture.gateway.health())
    check(gone, "it is still told of")
    return told[0]["message"]


def have_bonded(fixture):
    if BONDING not in fixture.paired:
        just_works(fixture)


def bond_lost_unheard(fixture):
    """A strap that forgot its bond is reported, and paired again, though nobody scans."""
    # bluetoothd signals Connected before the encryption fails, so that it looks like a link that is lost.
    have_bonded(fixture)
    fixture.expect_streaming()
    time.sleep(UNHEARD_SECONDS)
    fixture.straps.ask("forget", BONDING)
    began = time.monotonic()
    fixture.straps.ask("drop", BONDING)
    message = expect_bond_lost(fixture, BOND_LOST_SECONDS_MAX)
    return f"{message}; after {time.monotonic() - began:.0f} s paired again"


def bond_lost_while_connecting(fixture):
    """A strap that forgot its bond is paired again though its link comes up just then."""
    # A host that is busy hears late of a link. Linux loses one that it has cancelled meanwhile: the strap stays
    # connected to the controller, and the kernel connects to no other.
    have_bonded(fixture)
    fixture.straps.ask("forget", BONDING)
    fixture.straps.ask("drop", BONDING)
    fixture.straps.ask("controller", adapter=0, tells_after_seconds=LATE_CONNECTION_SECONDS)
    try:
        message = expect_bond_lost(fixture, BOND_LOST_SECONDS_MAX)
    finally:
        fixture.straps.ask("controller", adapter=0, tells_after_seconds=0)
    fixture.straps.ask("drop", 0)
    fixture.expect_streaming()
    return message


def bond_removed_here(fixture):
    """A bond that another program removes from this machine is reported as such."""
    have_bonded(fixture)
    address = fixture.address(BONDING)
    check(fixture.bluetoothd.remove(address) is not None, "bluetoothd does not remove it")
    message = expect_bond_lost(fixture, BOND_LOST_SECONDS_MAX)
    check("this machine" in message, message)
    return message


PREPARING = [just_works, typed_passkey]
TESTS = [refused_passkey, passkey, bonds_last, bond_lost, bond_lost_unheard, bond_lost_while_connecting,
         bond_removed_here]
