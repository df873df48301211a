"""Uses a simulated bluetoothd as bleak's users do, and says in one JSON line what it met.

    DBUS_SYSTEM_BUS_ADDRESS=unix:path=... python3 bleak_check.py ADDRESS FRAMES

Finds the strap by its service, connects, lists the services, reads two characteristics, receives
FRAMES notifications and disconnects. If bleak gives up, the line says why.
"""
import asyncio
import json
import sys

from bleak import BleakClient, BleakScanner
from bleak.exc import BleakError


def uuid(short: str) -> str:
    return f"0000{short}-0000-1000-8000-00805f9b34fb"


async def main(address: str, count: int) -> None:
    device = await BleakScanner.find_device_by_address(
        address, timeout=20, service_uuids=[uuid("180d")]
    )
    if device is None:
        raise SystemExit("strap not found")
    frames: list[str] = []
    enough = asyncio.Event()

    def take(_, value: bytearray) -> None:
        frames.append(bytes(value).hex())
        if len(frames) >= count:
            enough.set()

    gone = asyncio.Event()
    async with BleakClient(device, disconnected_callback=lambda _: gone.set()) as client:
        services = sorted(service.uuid[4:8] for service in client.services)
        location = await client.read_gatt_char(uuid("2a38"))
        maker = await client.read_gatt_char(uuid("2a29"))
        await client.write_gatt_char(uuid("2a39"), b"\x01", response=True)
        await client.start_notify(uuid("2a37"), take)
        await asyncio.wait_for(enough.wait(), 30)
        await client.stop_notify(uuid("2a37"))
    await asyncio.wait_for(gone.wait(), 10)
    report = {
        "name": device.name,
        "services": services,
        "location": bytes(location).hex(),
        "maker": bytes(maker).decode(),
        "frames": frames[:count],
    }
    print(json.dumps(report))


try:
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
except BleakError as error:
    print(json.dumps({"error": str(error)}))
