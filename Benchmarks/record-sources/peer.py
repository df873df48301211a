"""A heart-rate recorder as one writes it with bleak and sqlite3: what the gateway is measured beside.

    DBUS_SYSTEM_BUS_ADDRESS=unix:path=... peer.py DATABASE ADDRESS...   records until SIGTERM
    peer.py --rows DATABASE                                             prints how many rows there are
    peer.py --wait DATABASE ROWS SECONDS                                waits for more rows than that

It is given every advantage: frames are decoded by hand, rows wait in a list for one commit each 5 s
(WAL, synchronous=FULL), a strap that goes is looked for and connected again, and nothing else is done.
It has loaded what it would deliver with, requests, as the gateway has: memory is compared for the whole job.
"""
import asyncio
import signal
import sqlite3
import sys
import time

import requests
from bleak import BleakClient, BleakScanner
from bleak.exc import BleakError

HEART_RATE = "0000180d-0000-1000-8000-00805f9b34fb"
MEASUREMENT = "00002a37-0000-1000-8000-00805f9b34fb"
COMMIT_SECONDS = 5
SCAN_SECONDS = 10
RETRY_SECONDS = 1


def decode(frame: bytes) -> tuple[int, int | None, int | None, str | None]:
    """Rate, contact, energy and RR intervals of one 0x2A37 value."""
    flags = frame[0]
    if flags & 0x01:
        bpm, at = int.from_bytes(frame[1:3], "little"), 3
    else:
        bpm, at = frame[1], 2
    contact = flags >> 1 & 1 if flags & 0x04 else None
    energy = None
    if flags & 0x08:
        energy = int.from_bytes(frame[at : at + 2], "little")
        at += 2
    intervals = None
    if flags & 0x10:
        intervals = ",".join(
            str(frame[i] | frame[i + 1] << 8) for i in range(at, len(frame) - 1, 2)
        )
    return bpm, contact, energy, intervals


class Store:
    """One table; rows wait for a common commit."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS sample (id INTEGER PRIMARY KEY, sensor INTEGER NOT NULL,"
            " uptime_ns INTEGER NOT NULL, wall_ns INTEGER NOT NULL, bpm INTEGER NOT NULL,"
            " contact INTEGER, energy INTEGER, rr TEXT, frame BLOB NOT NULL)"
        )
        self.rows: list[tuple] = []

    def add(self, sensor: int, frame: bytes) -> None:
        uptime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.rows.append((sensor, uptime, time.time_ns(), *decode(frame), bytes(frame)))

    def commit(self) -> None:
        if not self.rows:
            return
        rows, self.rows = self.rows, []
        self.connection.execute("BEGIN")
        self.connection.executemany(
            "INSERT INTO sample (sensor, uptime_ns, wall_ns, bpm, contact, energy, rr, frame)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        self.connection.execute("COMMIT")


async def record(sensor: int, address: str, store: Store, connecting: asyncio.Lock) -> None:
    """Keeps one strap connected."""
    while True:
        try:
            async with connecting:  # bluetoothd makes one connection at a time
                device = await BleakScanner.find_device_by_address(
                    address, timeout=SCAN_SECONDS, service_uuids=[HEART_RATE]
                )
                if device is None:
                    continue
                gone = asyncio.Event()
                client = BleakClient(device, disconnected_callback=lambda _: gone.set())
                await client.connect()
            await client.start_notify(MEASUREMENT, lambda _, value: store.add(sensor, value))
            await gone.wait()
        except (BleakError, OSError, EOFError, asyncio.TimeoutError) as error:
            sys.stderr.write(f"strap {sensor}: {type(error).__name__}: {error}\n")
        await asyncio.sleep(RETRY_SECONDS)


async def main(path: str, addresses: list[str]) -> None:
    exchange = requests.Session()
    store = Store(path)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    connecting = asyncio.Lock()
    tasks = [
        asyncio.create_task(record(number, address, store, connecting))
        for number, address in enumerate(addresses, 1)
    ]
    while not stopping.is_set():
        try:
            await asyncio.wait_for(stopping.wait(), COMMIT_SECONDS)
        except asyncio.TimeoutError:
            pass
        store.commit()
    for task in tasks:
        task.cancel()
    exchange.close()


def rows(path: str) -> int:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute("SELECT count(*) FROM sample").fetchone()[0]
    finally:
        connection.close()


def wait(path: str, count: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if rows(path) > count:
            return True
        time.sleep(0.05)
    return False


if sys.argv[1] == "--rows":
    print(rows(sys.argv[2]))
elif sys.argv[1] == "--wait":
    print("more" if wait(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])) else "none")
else:
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
