"""The straps and the guest's controller, in one process on the host.

    straps.py --straps FILE --hci TRANSPORT --control SOCKET --trace FILE

FILE is a JSON list of settings (strap.py has the defaults). The trace gets a line for each frame
sent. The control socket takes one JSON object a line and answers with one:
{"do": NAME, "straps": [INDEX…] or absent for all, …}, where NAME is one of COMMANDS with its
arguments; the answer is the list of the straps' states.
"""
import argparse
import asyncio
import json

from bumble import hci
from bumble.transport import open_transport
from radio import Air, CentralController
from strap import Strap

COMMANDS = {"status", "set", "drop", "off", "on", "jam", "send", "burst"}
CENTRAL_ADDRESS = "02:00:00:00:00:FF"


async def answer(line, straps):
    request = json.loads(line)
    command = request.pop("do")
    picked = [straps[i] for i in request.pop("straps", range(len(straps)))]
    if command not in COMMANDS:
        return {"error": f"unknown command {command}"}
    if command != "status":
        for strap in picked:
            await getattr(strap, command)(**request)
    return [strap.status() for strap in picked]


async def serve(reader, writer, straps):
    while line := await reader.readline():
        try:
            reply = await answer(line, straps)
        except Exception as error:  # A bad request must not take the straps off the air.
            reply = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(reply).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--straps", "--hci", "--control", "--trace"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    trace = open(options.trace, "w", buffering=1)
    air = Air()
    transport = await open_transport(options.hci)
    air.central = CentralController(
        "central", host_source=transport.source, host_sink=transport.sink, link=air,
        public_address=hci.Address(CENTRAL_ADDRESS, hci.Address.PUBLIC_DEVICE_ADDRESS))
    with open(options.straps) as file:
        straps = [Strap(i, settings, air, trace) for i, settings in enumerate(json.load(file))]
    for strap in straps:
        await strap.start()
    await asyncio.start_unix_server(lambda r, w: serve(r, w, straps), options.control)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
