"""The straps and the guest's controllers, in one process on the host.

    straps.py --straps FILE --hci TRANSPORT… --control SOCKET --trace FILE

FILE is a JSON list of settings (strap.py has the defaults). There is a controller a transport. The trace gets a line
for each frame sent. The control socket takes one JSON object a line and answers with one:
{"do": NAME, "straps": [INDEX…] or absent for all, …}, where NAME is one of COMMANDS with its
arguments, {"do": "unplug", "adapter": NUMBER}, or {"do": "controller", "adapter": NUMBER, …} with some of
CONTROLLER_SETTINGS, which CentralController describes; the answer is the list of the straps' states.
"""
import argparse
import asyncio
import json

from bumble import hci
from bumble.transport import open_transport
from radio import Air, CentralController
from strap import Strap

COMMANDS = {"status", "set", "drop", "off", "on", "jam", "forget", "type", "send", "burst"}
CONTROLLER_SETTINGS = {"links_max", "hangs", "tells_after_seconds"}
# With the number of the controller at the end, from 0.
CENTRAL_ADDRESS = "02:00:00:00:00:F{}"


async def answer(line, straps, centrals):
    request = json.loads(line)
    command = request.pop("do")
    if command == "unplug":
        central = centrals[request["adapter"]]
        central.lose_power()
        # What the guest had sent of a packet when it was unplugged is not the beginning of the next one.
        central.host_source.parser.reset()
        command, request = "status", {}
    elif command == "controller":
        controller = centrals[request.pop("adapter")]
        for name in CONTROLLER_SETTINGS & request.keys():
            setattr(controller, name, request[name])
        command, request = "status", {}
    picked = [straps[i] for i in request.pop("straps", range(len(straps)))]
    if command not in COMMANDS:
        return {"error": f"unknown command {command}"}
    if command != "status":
        for strap in picked:
            await getattr(strap, command)(**request)
    return [strap.status() for strap in picked]


async def serve(reader, writer, straps, centrals):
    while line := await reader.readline():
        try:
            reply = await answer(line, straps, centrals)
        except Exception as error:  # A bad request must not take the straps off the air.
            reply = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(reply).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--straps", "--control", "--trace"):
        parser.add_argument(name, required=True)
    parser.add_argument("--hci", required=True, nargs="+")
    options = parser.parse_args()
    trace = open(options.trace, "w", buffering=1)
    air = Air()
    for number, name in enumerate(options.hci):
        transport = await open_transport(name)
        central = CentralController(
            f"central {number}", host_source=transport.source, host_sink=transport.sink, link=air,
            public_address=hci.Address(
                CENTRAL_ADDRESS.format(number), hci.Address.PUBLIC_DEVICE_ADDRESS))
        central.host_source = transport.source
        air.centrals.append(central)
    with open(options.straps) as file:
        straps = [Strap(i, settings, air, trace) for i, settings in enumerate(json.load(file))]
    for strap in straps:
        await strap.start()
    await asyncio.start_unix_server(
        lambda reader, writer: serve(reader, writer, straps, air.centrals), options.control)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
