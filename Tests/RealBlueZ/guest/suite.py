"""Runs the tests in the guest: suite.py BINARY [PATTERN]; figures go to /exchange/figures.json.

The tests share one gateway and go in order: pairing comes first, and each leaves its straps
streaming. A failed test does not end the run: what it left undone is put right after it.
"""
import json
import os
import re
import sys
import time
import traceback

import tests_adapters
import tests_bond
import tests_discovery
import tests_link
import tests_stack
import tests_store
import tests_times
from fixture import Fixture, Failure

ALWAYS = tests_stack.PREPARING + tests_discovery.PREPARING
TESTS = (
    ALWAYS + tests_bond.PREPARING + tests_discovery.TESTS + tests_bond.TESTS + tests_link.TESTS + tests_times.TESTS
    + tests_stack.TESTS + tests_adapters.TESTS + tests_store.TESTS + tests_stack.ENDING)


def run(test, fixture):
    began = time.monotonic()
    try:
        detail = test(fixture)
        verdict = "ok    "
    except Failure as failure:
        verdict, detail = "FAILED", f"{failure}; {fixture.where()}"
    except Exception as error:  # A defect of the test, or a gateway that is not there any more.
        verdict, detail = "FAILED", f"{type(error).__name__}: {error}"
        traceback.print_exc()
    seconds = time.monotonic() - began
    name = test.__doc__.strip().splitlines()[0].rstrip(".")
    print(f"{verdict} {seconds:5.1f} s  {name}" + (f" ({detail})" if detail else ""), flush=True)
    if verdict != "ok    " and test not in tests_stack.ENDING:
        try:
            fixture.restore()
        except Exception:
            traceback.print_exc()
    return verdict == "ok    "


def main():
    binary, pattern = sys.argv[1], (sys.argv + [""])[2]
    picked = [t for t in TESTS if t in ALWAYS or re.search(pattern, t.__doc__, re.IGNORECASE)]
    fixture = Fixture(binary)
    passed = failed = 0
    try:
        fixture.set_up()
        for test in picked:
            if run(test, fixture):
                passed += 1
            else:
                failed += 1
    except Exception:
        traceback.print_exc()
        failed += 1
    print(f"{passed} passed, {failed} failed", flush=True)
    if fixture.figures:
        with open("/exchange/figures.json", "w") as file:
            json.dump({"figures": fixture.figures}, file, indent=1, ensure_ascii=False)
    # The store is worth a look after a failure; nothing else in the guest outlives it.
    os.system("cp /run/gateway/queue.sqlite* /exchange/ 2>/dev/null")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
