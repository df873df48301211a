"""One emulated heart-rate strap: its services, its frames, and what can happen to it."""
import asyncio
import os
import time

from bumble import hci, ll
from bumble.att import ATT_Error, AttributeValueV2, ErrorCode
from bumble.controller import Controller
from bumble.core import AdvertisingData, UUID
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import (
    GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR,
    Characteristic,
    CharacteristicValue,
    Descriptor,
    Service,
)
from bumble.host import Host
from bumble.keys import MemoryKeyStore
from bumble.pairing import PairingConfig, PairingDelegate
from bumble.transport.common import AsyncPipeSink

FLAGS = b"\x02\x01\x06"
FLAGS_AND_SERVICE = FLAGS + b"\x03\x03\x0d\x18"
COMPLETE_LOCAL_NAME = AdvertisingData.COMPLETE_LOCAL_NAME

DEFAULTS = {
    "rssi": -50,
    "hz": 1.0,
    "bpm": 72,
    "rr_intervals": 1,
    "energy": 0,  # kJ, one more each notification, so that no two frames are alike
    "location": 1,  # chest
    "battery": 87,
    "maker": "Emulated",
    "model": "HR-1",
    # What notifications ask for: "open" nothing; "bond" an encrypted link; "display" one that was
    # paired with the passkey that the strap shows; "keypad" with one that was typed into it.
    "security": "open",
    "passkey": 123456,
    "on_air": True,
    # From a subscription to its first frame.
    "start_seconds": 0.0,
    # How many frames it gathers before it sends them.
    "batch": 1,
    # Whether its adverts name the Heart Rate Service.
    "names_service": True,
}


def fixed(uuid, value):
    return Characteristic(
        UUID.from_16_bits(uuid), Characteristic.Properties.READ, Characteristic.READABLE, value)


class Display(PairingDelegate):
    """A strap that shows the passkey for its pairing; a person types it in on the other side."""

    def __init__(self, passkey):
        super().__init__(io_capability=PairingDelegate.DISPLAY_OUTPUT_ONLY)
        self.passkey = passkey

    async def generate_passkey(self):
        return self.passkey


class Keypad(PairingDelegate):
    """A strap into which a person types the passkey that the other side shows."""

    def __init__(self):
        super().__init__(io_capability=PairingDelegate.KEYBOARD_INPUT_ONLY)
        self.typed = asyncio.Queue()

    async def get_number(self):
        return await self.typed.get()


class Strap:
    def __init__(self, index, settings, air, trace):
        self.settings = {
            **DEFAULTS, "name": f"HR-{index:02d}", "address": f"C0:00:00:00:00:{index + 1:02X}",
            **settings}
        self.index, self.trace = index, trace
        self.is_on_air = self.settings["on_air"]
        self.connection, self.is_subscribed, self.ticker = None, False, None
        self.sent, self.connects, self.jammed_until = 0, 0, 0.0
        name = self.settings["name"].encode()
        self.scan_response = bytes(AdvertisingData([(COMPLETE_LOCAL_NAME, name)]))

        self.controller = Controller(self.settings["name"], link=air)
        air.straps[self.controller] = self
        configuration = DeviceConfiguration(
            name=self.settings["name"], address=hci.Address(self.settings["address"]))
        configuration.irk = os.urandom(16)
        self.device = Device(
            config=configuration, host=Host(self.controller, AsyncPipeSink(self.controller)))
        self.device.keystore, self.is_authenticated = MemoryKeyStore(), False
        self.device.host.long_term_key_provider = self.long_term_key
        security = self.settings["security"]
        self.has_passkey = security in ("display", "keypad")
        self.person = (Display(self.settings["passkey"]) if security == "display"
                       else Keypad() if security == "keypad" else PairingDelegate())
        self.device.pairing_config_factory = lambda _: PairingConfig(
            sc=True, mitm=self.has_passkey, bonding=True, delegate=self.person)
        self.add_services()
        self.device.on("connection", self.on_connection)

    # MARK: Services

    def add_services(self):
        server, settings = self.device.gatt_server, self.settings
        notify = Characteristic.Properties.NOTIFY
        self.measurement = Characteristic(
            UUID.from_16_bits(0x2A37), notify, Characteristic.Permissions(0), b"")

        def subscribe(bearer, value):
            if settings["security"] != "open" and not self.connection.encryption:
                raise ATT_Error(ErrorCode.INSUFFICIENT_ENCRYPTION)
            if self.has_passkey and not self.is_authenticated:
                raise ATT_Error(ErrorCode.INSUFFICIENT_AUTHENTICATION)
            server.write_cccd(bearer, self.measurement, value)

        # Bumble's own descriptor cannot refuse.
        self.measurement.descriptors = [Descriptor(
            GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR,
            Characteristic.READABLE | Characteristic.WRITEABLE,
            AttributeValueV2(
                read=lambda bearer: server.read_cccd(bearer, self.measurement),
                write=subscribe))]
        self.measurement.on("subscription", self.on_subscription)
        control_point = Characteristic(
            UUID.from_16_bits(0x2A39), Characteristic.Properties.WRITE, Characteristic.WRITEABLE,
            CharacteristicValue(write=lambda _, value: settings.update(energy=0)))
        battery = Characteristic(
            UUID.from_16_bits(0x2A19), Characteristic.Properties.READ | notify,
            Characteristic.READABLE,
            CharacteristicValue(read=lambda _: bytes([settings["battery"]])))
        self.device.add_services([
            Service(UUID.from_16_bits(0x180D), [
                self.measurement, fixed(0x2A38, bytes([settings["location"]])), control_point]),
            Service(UUID.from_16_bits(0x180F), [battery]),
            Service(UUID.from_16_bits(0x180A), [
                fixed(0x2A29, settings["maker"].encode()),
                fixed(0x2A24, settings["model"].encode())])])

    # MARK: Frames

    def frame(self):
        """The next measurement: 8-bit rate, contact, energy, RR intervals."""
        settings = self.settings
        interval = round(60 * 1024 / settings["bpm"]).to_bytes(2, "little")
        energy = (settings["energy"] & 0xFFFF).to_bytes(2, "little")
        settings["energy"] += 1
        return bytes([0x1E, settings["bpm"]]) + energy + interval * settings["rr_intervals"]

    async def notify(self, frame, made=None):
        if self.connection is None or not self.is_subscribed:
            return
        made = time.monotonic() if made is None else made
        await self.device.notify_subscriber(self.connection, self.measurement, frame)
        self.sent += 1
        self.trace.write(
            f'{{"strap":{self.index},"number":{self.sent},"made":{made:.3f},"hex":"{frame.hex()}"}}\n')

    async def tick(self):
        """Notifies on a fixed grid: a late frame does not delay the next."""
        await asyncio.sleep(self.settings["start_seconds"])
        due, gathered = time.monotonic(), []
        while self.connection and self.is_subscribed:
            if self.settings["hz"] > 0:
                gathered.append((self.frame(), time.monotonic()))
                if len(gathered) >= self.settings["batch"]:
                    for frame, made in gathered:
                        await self.notify(frame, made)
                    gathered = []
                due = max(due + 1 / self.settings["hz"], time.monotonic() - 1)
            else:
                due = time.monotonic() + 0.05
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    # MARK: Bond

    def on_pairing(self, keys):
        self.is_authenticated = keys.ltk.authenticated

    async def long_term_key(self, handle, rand, ediv):
        """The key of a bond or of a pairing under way; Bumble's own does not say how it was made."""
        connection = self.device.lookup_connection(handle)
        if fresh := self.device.smp_manager.get_long_term_key(connection, rand, ediv):
            return fresh
        keys = await self.device.keystore.get(str(connection.peer_address))
        if not keys or not keys.ltk:
            return None
        self.is_authenticated = keys.ltk.authenticated
        return keys.ltk.value

    # MARK: Link

    def on_subscription(self, connection, is_notifying, is_indicating):
        self.is_subscribed = is_notifying
        if self.ticker is not None:
            self.ticker.cancel()
        if is_notifying:
            self.ticker = asyncio.get_running_loop().create_task(self.tick())

    def on_connection(self, connection):
        self.connection, self.connects = connection, self.connects + 1
        self.is_authenticated = False
        connection.on("disconnection", self.on_disconnection)
        connection.on("pairing", self.on_pairing)

    def on_disconnection(self, reason):
        self.connection, self.is_subscribed = None, False
        if self.ticker is not None:
            self.ticker.cancel()
        if self.is_on_air:
            asyncio.get_running_loop().create_task(self.advertise())

    @property
    def advertisement(self):
        return FLAGS_AND_SERVICE if self.settings["names_service"] else FLAGS

    @property
    def is_connectable(self):
        return self.connection is None and self.is_on_air and not self.controller.le_connections

    async def start(self):
        await self.device.power_on()
        await self.advertise()

    async def advertise(self):
        if self.connection is None and self.is_on_air:
            await self.device.start_advertising(
                own_address_type=hci.OwnAddressType.RANDOM,
                advertising_data=self.advertisement,
                scan_response_data=self.scan_response, advertising_interval_min=100,
                advertising_interval_max=100)

    def cut(self):
        """Ends the link on both sides at once, as when the radio fades: no host has a say."""
        timeout = hci.HCI_CONNECTION_TIMEOUT_ERROR
        for link in list(self.controller.le_connections.values()):
            link.send_ll_control_pdu(ll.TerminateInd(timeout))
            self.controller.on_le_disconnected(link, timeout)

    # MARK: What can happen to it

    def status(self):
        return {
            "address": self.settings["address"], "name": self.settings["name"],
            "on_air": self.is_on_air, "sent": self.sent, "connects": self.connects,
            "connected": self.connection is not None, "subscribed": self.is_subscribed,
            "encrypted": bool(self.connection and self.connection.encryption),
            "authenticated": self.is_authenticated}

    async def set(self, **settings):
        self.settings.update(settings)

    async def drop(self):
        self.cut()

    async def off(self):
        self.is_on_air = False
        self.cut()
        await self.device.stop_advertising()

    async def on(self):
        self.is_on_air = True
        await self.advertise()

    async def jam(self, seconds):
        self.jammed_until = time.monotonic() + seconds

    async def forget(self):
        """Loses every bond, as straps do with their battery."""
        self.device.keystore = MemoryKeyStore()

    async def type(self, passkey):
        """A person types a passkey into it."""
        self.person.typed.put_nowait(passkey)

    async def send(self, frames):
        for frame in frames:
            await self.notify(bytes.fromhex(frame))

    async def burst(self, count):
        for _ in range(count):
            await self.notify(self.frame())
