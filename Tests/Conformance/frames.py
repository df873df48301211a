#!/usr/bin/env python3
"""Lets three independent decoders of 0x2A37 judge what the gateway reads in random frames.

    python=$(Tests/Conformance/setup | tail -n 1)
    "$python" Tests/Conformance/frames.py --decoder '.build/debug/edge-gateway decode --json -'

The decoder gets one frame a line in hexadecimal on standard input and prints one JSON object a line.
Judges: bluetooth-sig, labmcp-ble-health and bumble, written by others from the same specification.

They agree with each other, and the gateway must agree with them, on every frame outside three
disputed classes. Inside those the specification says nothing of what a receiver does, the judges
differ, and the gateway must do what its own clinical policy declares:

    odd-tail          RR list ends in half an interval   keep the rate and the whole intervals
    rr-missing        RR flag without RR                 keep the rate
    energy-truncated  frame ends within the energy       refuse the frame

Exit: 0 when all agree, 1 when not, 2 when the check itself could not be made.
"""

import argparse
import collections
import json
import pathlib
import random
import shlex
import subprocess
import sys

try:
    from bluetooth_sig.gatt.characteristics.heart_rate_measurement import (
        HeartRateMeasurementCharacteristic,
    )
    from bumble.profiles.heart_rate_service import HeartRateService
    from labmcp_ble_health.driver import parse_heart_rate_measurement
except ImportError as missing:
    print(f"frames.py: {missing}; run it with the python that Tests/Conformance/setup prints",
          file=sys.stderr)
    sys.exit(2)

GOLDEN = pathlib.Path(__file__).with_name("frames-golden.jsonl")
FAILURES_SHOWN_MAX = 20
# Long enough for a debug build on a slow machine; a decoder that hangs must not hang the tests.
DECODER_TIMEOUT_SECONDS = 300

KEYS_VALID = ["hex", "valid", "bpm", "contact", "energy_kj", "rr_1024", "anomalies"]
KEYS_INVALID = KEYS_VALID + ["fault"]

# What a frame means: the four fields that all judges report.
Reading = collections.namedtuple("Reading", "bpm contact energy_kj rr_1024")


# The judges. Each gives a Reading, or None when it refuses the frame.


def bluetooth_sig(frame):
    try:
        read = _bluetooth_sig.parse_value(bytearray(frame))
    except Exception:  # noqa: BLE001 - whatever it raises is a refusal
        return None
    contact = {0: None, 1: False, 2: True}[int(read.sensor_contact)]
    return Reading(read.heart_rate, contact, read.energy_expended, _ticks(read.rr_intervals))


def labmcp(frame):
    try:
        read = parse_heart_rate_measurement(frame)
    except Exception:  # noqa: BLE001
        return None
    return Reading(
        read.bpm, read.sensor_contact, read.energy_expended_kj, _ticks(read.rr_intervals_s))


def bumble(frame):
    try:
        read = HeartRateService.HeartRateMeasurement.from_bytes(frame)
    except Exception:  # noqa: BLE001
        return None
    contact = None if read.sensor_contact_detected is None else bool(read.sensor_contact_detected)
    return Reading(read.heart_rate, contact, read.energy_expended, _ticks(read.rr_intervals or ()))


JUDGES = {"bluetooth-sig": bluetooth_sig, "labmcp": labmcp, "bumble": bumble}
_bluetooth_sig = HeartRateMeasurementCharacteristic()


def _ticks(seconds):
    """Seconds to 1/1024 s. Exact, since 1/1024 is a binary fraction."""
    return tuple(int(interval * 1024) for interval in seconds)


# The frames.


def disputed_class(frame):
    """The class of a frame on whose treatment the specification is silent, or None."""
    flags = frame[0]
    after_rate = len(frame) - (3 if flags & 0x01 else 2)
    if after_rate < 0:
        return None
    after_energy = after_rate - (2 if flags & 0x08 else 0)
    if after_energy < 0:
        return "energy-truncated"
    if flags & 0x10:
        if after_energy == 0:
            return "rr-missing"
        if after_energy % 2 == 1:
            return "odd-tail"
    return None


def random_frames(count, seed):
    """Frames of 1 to 30 octets. Every second one has the reserved flags clear, as straps do."""
    source = random.Random(seed)
    for number in range(count):
        frame = bytearray(source.randbytes(source.randint(1, 30 if number % 8 == 0 else 20)))
        if number % 2 == 0:
            frame[0] &= 0x1F
        yield bytes(frame)


# What the gateway says.


def ask(command, frames):
    """The decoder's lines, one a frame, in order."""
    lines = "".join(frame.hex() + "\n" for frame in frames)
    run = subprocess.run(
        shlex.split(command), input=lines, capture_output=True, text=True,
        timeout=DECODER_TIMEOUT_SECONDS, check=False)
    # 1 is how a command says that some of the frames were invalid.
    if run.returncode not in (0, 1):
        raise CannotCheck(f"decoder exited {run.returncode}: {run.stderr[-2000:]}")
    answers = run.stdout.splitlines()
    if len(answers) != len(frames):
        raise CannotCheck(f"{len(frames)} frames asked, {len(answers)} lines answered")
    return answers


class CannotCheck(Exception):
    """The check itself could not be made."""


def judge(frame, line):
    """What is wrong with the decoder's `line` for `frame`: a list of complaints."""
    try:
        answer = json.loads(line)
    except ValueError:
        return [f"not JSON: {line[:200]!r}"]
    if not line.isascii():
        return ["not ASCII"]
    if list(answer) != (KEYS_VALID if answer.get("valid") is True else KEYS_INVALID):
        return [f"keys {list(answer)}"]
    if answer["hex"] != frame.hex():
        return ["answers another frame"]

    if answer["valid"]:
        ours = Reading(*(answer[key] for key in KEYS_VALID[2:5]), tuple(answer["rr_1024"]))
    else:
        ours = None
        if [answer[key] for key in KEYS_VALID[2:6]] != [None, None, None, []]:
            return ["an invalid frame with values"]

    verdicts = {name: decode(frame) for name, decode in JUDGES.items()}
    kind = disputed_class(frame)
    complaints = []
    if kind is None:
        if len(set(verdicts.values())) != 1:
            complaints.append(f"the judges differ outside the declared classes: {verdicts}")
        if ours not in verdicts.values():
            complaints.append(f"read as {ours}, by the judges as {verdicts}")
    elif kind == "energy-truncated":
        if ours is not None or answer["fault"] != "energyTruncated":
            complaints.append(f"{kind}: not refused: {line}")
    # Two judges of three keep an odd-tailed frame as the clinical policy does, all three the other.
    elif ours is None or ours != verdicts["labmcp"] or ours != verdicts["bluetooth-sig"]:
        complaints.append(f"{kind}: read as {ours}, by the judges as {verdicts}")

    if ours is not None and answer["anomalies"] != expected_anomalies(frame, kind):
        complaints.append(f"anomalies {answer['anomalies']}, not {expected_anomalies(frame, kind)}")
    return complaints


def expected_anomalies(frame, kind):
    """The anomalies of an accepted frame, in the order of the JSON contract."""
    flags = frame[0]
    needed = (3 if flags & 0x01 else 2) + (2 if flags & 0x08 else 0)
    found = {"odd-tail": ["oddTail"], "rr-missing": ["rrMissing"], None: []}[kind]
    if flags & 0xE0:
        found = found + ["rfu"]
    if not flags & 0x10 and len(frame) > needed:
        found = found + ["trailing"]
    return found


def main():
    arguments = argparse.ArgumentParser(
        description="Compare the gateway's frame decoder with three independent ones.")
    arguments.add_argument("--decoder", default=".build/debug/edge-gateway decode --json -",
                           help="reads hexadecimal lines, prints JSON lines (%(default)s)")
    arguments.add_argument("--frames", type=int, default=50_000, help="how many (%(default)s)")
    arguments.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    given = arguments.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"frames: {given.frames} random frames, seed {seed}", flush=True)

    golden = GOLDEN.read_text(encoding="ascii").splitlines()
    frames = [bytes.fromhex(json.loads(line)["hex"]) for line in golden]
    frames += random_frames(given.frames, seed)
    answers = ask(given.decoder, frames)

    failures = []
    classes = collections.Counter()
    for number, (frame, line) in enumerate(zip(frames, answers)):
        classes[disputed_class(frame) or "undisputed"] += 1
        complaints = judge(frame, line)
        if number < len(golden) and line != golden[number]:
            complaints.append(f"golden line {golden[number]} answered {line}")
        if complaints:
            failures.append(f"{frame.hex()}: " + "; ".join(complaints))

    for kind, count in sorted(classes.items()):
        print(f"frames: {count:6} {kind}")
    for failure in failures[:FAILURES_SHOWN_MAX]:
        print(f"frames: {failure}", file=sys.stderr)
    if failures:
        print(f"frames: repeat with --seed {seed} --frames {given.frames}", file=sys.stderr)
    print(f"frames: {len(answers) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotCheck, OSError, ValueError, subprocess.TimeoutExpired) as fault:
        print(f"frames.py: {fault}", file=sys.stderr)
        sys.exit(2)
