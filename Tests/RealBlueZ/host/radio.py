"""The air, and the controllers under the guest's kernel: Bumble's, made to behave like real ones.

Bumble's own link layer takes the central for its random address, has one signal strength for all,
repeats the advertisement as scan response, knows neither duplicate filter nor accept list, and
never ends a cancelled connection attempt. A kernel notices each of these.
"""
import asyncio
import time

from bumble import hci, ll
from bumble.controller import Controller
from bumble.core import PhysicalTransport
from bumble.link import LocalLink

EVENT_ADVERTISEMENT, EVENT_SCAN_RESPONSE = 0, 4


class Air(LocalLink):
    """Where straps and centrals meet. A strap can be jammed: delayed, not cut."""

    def __init__(self):
        super().__init__()
        self.centrals = []
        self.straps = {}
        self.last_due = {}

    def jam_seconds_left(self, controller):
        strap = self.straps.get(controller)
        return max(0.0, strap.jammed_until - time.monotonic()) if strap else 0.0

    def send_acl_data(self, sender, destination, transport, data):
        link = sender.le_connections.get(destination)
        receiver = self.find_le_controller(destination)
        if transport != PhysicalTransport.LE or link is None or receiver is None:
            return
        # A real link layer repeats until it gets through: late, and in order. asyncio keeps the
        # order of calls only if no two are due at the same instant.
        loop = asyncio.get_running_loop()
        delay = max(self.jam_seconds_left(sender), self.jam_seconds_left(receiver))
        due = max(loop.time() + delay, self.last_due.get((sender, receiver), 0) + 1e-6)
        self.last_due[sender, receiver] = due
        loop.call_at(due, receiver.on_link_acl_data, link.self_address, transport, data)

    def send_advertising_pdu(self, sender, packet):
        loop = asyncio.get_running_loop()
        if isinstance(packet, ll.ConnectInd):
            for controller in self.controllers:
                if controller is not sender:
                    loop.call_soon(controller.on_ll_advertising_pdu, packet)
        elif not self.jam_seconds_left(sender):
            for central in self.centrals:
                loop.call_soon(central.hear, self.straps[sender], packet)


class CentralController(Controller):
    """An adapter of the guest: legacy advertising only, like a Bluetooth 4.2 dongle."""

    le_features = (
        hci.LeFeatureMask.LE_ENCRYPTION
        | hci.LeFeatureMask.LE_PING
        | hci.LeFeatureMask.LE_DATA_PACKET_LENGTH_EXTENSION
    )
    le_acl_data_packet_length = 251
    filter_accept_list_size = 32

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reported, self.accepted, self.links_max = set(), set(), None
        # It reports adverts, and answers none with a connection until it is reset.
        self.hangs = False
        # From a link's coming up until the host is told.
        self.tells_after_seconds = 0.0

    def send_hci_packet(self, packet):
        if self.tells_after_seconds and isinstance(packet, hci.HCI_LE_Connection_Complete_Event):
            asyncio.get_running_loop().call_later(
                self.tells_after_seconds, super().send_hci_packet, packet)
        else:
            super().send_hci_packet(packet)

    def hear(self, strap, packet):
        """Takes an advertisement: reports it to a scanning host, answers it if one is wanted."""
        address = packet.advertiser_address
        is_accepted = bytes(address) in self.accepted
        if self.le_scan_enable and (is_accepted or not self.le_scanning_filter_policy & 1):
            self.report(strap, address)
        wanted = self.pending_le_connection
        if not wanted or self.hangs or not strap.is_connectable or address in self.le_connections:
            return
        if wanted.peer_address == address or (wanted.initiator_filter_policy == 1 and is_accepted):
            wanted.peer_address = address
            self.create_le_connection(address)

    def report(self, strap, address):
        if self.filter_duplicates and bytes(address) in self.reported:
            return
        self.reported.add(bytes(address))
        parts = [(EVENT_ADVERTISEMENT, strap.advertisement)]
        if self.le_scan_type == 1:
            parts.append((EVENT_SCAN_RESPONSE, strap.scan_response))
        for kind, data in parts:
            report = hci.HCI_LE_Advertising_Report_Event.Report(
                event_type=kind, address_type=address.address_type, address=address, data=data,
                rssi=strap.settings["rssi"])  # fmt: skip
            self.send_hci_packet(hci.HCI_LE_Advertising_Report_Event([report]))

    def lose_power(self):
        """Unplugged, or reset: no link outlives it."""
        for link in self.le_connections.values():
            link.send_ll_control_pdu(ll.TerminateInd(hci.HCI_CONNECTION_TIMEOUT_ERROR))
        self.le_connections.clear()
        self.le_scan_enable, self.pending_le_connection, self.accepted = False, None, set()

    def on_hci_reset_command(self, command):
        self.lose_power()
        self.hangs = False
        return super().on_hci_reset_command(command)

    def on_hci_le_set_scan_enable_command(self, command):
        self.reported = set()
        return super().on_hci_le_set_scan_enable_command(command)

    def on_hci_le_clear_filter_accept_list_command(self, command):
        self.accepted = set()
        return super().on_hci_le_clear_filter_accept_list_command(command)

    def on_hci_le_add_device_to_filter_accept_list_command(self, command):
        self.accepted.add(bytes(command.address))
        return super().on_hci_le_add_device_to_filter_accept_list_command(command)

    def on_hci_le_remove_device_from_filter_accept_list_command(self, command):
        self.accepted.discard(bytes(command.address))
        return super().on_hci_le_remove_device_from_filter_accept_list_command(command)

    def on_hci_le_create_connection_command(self, command):
        if self.links_max is not None and len(self.le_connections) >= self.links_max:
            self._send_hci_command_status(
                hci.HCI_ErrorCode.CONNECTION_LIMIT_EXCEEDED_ERROR, command.op_code)
            return None
        return super().on_hci_le_create_connection_command(command)

    def on_hci_le_create_connection_cancel_command(self, command):
        wanted, self.pending_le_connection = self.pending_le_connection, None
        if wanted is None:
            return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.COMMAND_DISALLOWED_ERROR)
        cancelled = hci.HCI_LE_Connection_Complete_Event(
            status=hci.HCI_ErrorCode.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, connection_handle=0,
            role=0, peer_address_type=wanted.peer_address.address_type,
            peer_address=wanted.peer_address, connection_interval=0, peripheral_latency=0,
            supervision_timeout=0, central_clock_accuracy=0)  # fmt: skip
        asyncio.get_running_loop().call_soon(self.send_hci_packet, cancelled)
        return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.SUCCESS)
