#!/usr/bin/env python3
"""Offers a gateway's heart rates as streams of the Lab Streaming Layer, one a strap, until Ctrl-C.

    lsl_outlet.py http://127.0.0.1:8470 [FILE WITH THE TOKEN]

A sample is the rate of one frame, in beats per minute, with the time at which the gateway got it; of two frames that
come at once the live page has the newer one. LSL finds streams by multicast and serves them to everybody in the
network: an lsl_api.cfg keeps discovery to this machine (see README.md).
"""
import datetime
import json
import sys

import pylsl
import requests

# Two frames of a strap are further apart than what the age of one is rounded to.
SAME_FRAME_SECONDS = 0.15


def events(address, token):
    """The straps of each event of the live page."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with requests.get(f"{address}/v1/live", headers=headers, stream=True, timeout=(10, 30)) as answer:
        answer.raise_for_status()
        name = None
        for line in answer.iter_lines(decode_unicode=True):
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name == "straps":
                yield json.loads(value)


def outlet(strap):
    """The stream of one strap; a receiver that comes back finds it by its source."""
    info = pylsl.StreamInfo(
        f"Heart rate {strap['name']}", "HeartRate", 1, pylsl.IRREGULAR_RATE, pylsl.cf_float32,
        f"edge-gateway-{strap['sensor']}")
    info.desc().append_child("channels").append_child("channel").append_child_value("unit", "beats/min")
    return pylsl.StreamOutlet(info)


def main():
    address = sys.argv[1].rstrip("/")
    token = open(sys.argv[2], encoding="utf-8").read().strip() if len(sys.argv) > 2 else None
    outlets, newest = {}, {}
    for live in events(address, token):
        now = datetime.datetime.fromisoformat(live["at"]).timestamp()
        for strap in live["straps"]:
            number, age = strap["sensor"], strap.get("seconds_since_frame")
            if number not in outlets:
                outlets[number] = outlet(strap)
            # A frame without a usable rate is not a sample; nothing is repeated or filled in.
            if age is None or "bpm" not in strap or now - age < newest.get(number, 0) + SAME_FRAME_SECONDS:
                continue
            newest[number] = now - age
            outlets[number].push_sample([strap["bpm"]], pylsl.local_clock() - age)


try:
    main()
except KeyboardInterrupt:
    pass
