#!/usr/bin/env python3
"""Prints samples of the streams that lsl_outlet.py offers, as JSON: lsl_receive.py STREAMS SECONDS"""
import json
import sys
import time

import pylsl


def main():
    wanted, seconds = int(sys.argv[1]), float(sys.argv[2])
    found = pylsl.resolve_byprop("type", "HeartRate", minimum=wanted, timeout=30)
    inlets = [pylsl.StreamInlet(stream) for stream in found]
    received = {inlet.info().name(): [] for inlet in inlets}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for inlet in inlets:
            values, stamps = inlet.pull_chunk(timeout=0.1)
            received[inlet.info().name()] += [[stamp, value[0]] for stamp, value in zip(stamps, values)]
    print(json.dumps(received))


main()
