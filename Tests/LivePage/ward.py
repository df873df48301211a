"""Wards of many straps, for tests and pictures."""

import math
import time

from playing_server import Strap, stamp

# As the gateway does (LiveFeed.period).
LOOK_SECONDS = 0.2


class Heart(Strap):
    """A strap whose rate wanders, a beat or two a second, each in its own second."""

    def __init__(self, sensor, rest=None, **more):
        self.rest, self.fixed, self.is_unheard = rest or 58 + 7 * sensor % 47, None, False
        super().__init__(sensor, **more)
        self.phase = sensor * 0.618 % 1

    @property
    def bpm(self):
        if self.fixed is not None or self.is_unheard:
            return self.fixed
        second = math.floor(time.time() + self.phase)
        return round(self.rest + 4 * math.sin(second / (5 + self.sensor % 7)) + 3 * math.sin(second * 0.9 + self.sensor))

    @bpm.setter
    def bpm(self, value):
        self.fixed = None if value == 72 else value  # 72: what Strap begins with


def name(number):
    return f"Bed {number}"


def ward(server, count):
    """That many beds; about one of twelve needs a person, each kind of need from four straps on."""
    server.look = LOOK_SECONDS
    server.straps = [Heart(n, name=name(n), battery_percent=20 + 13 * n % 80) for n in range(1, count + 1)]
    for n, strap in enumerate(server.straps):
        if n % 36 == 6:
            strap.stop(age=95)
            strap.more["link"] = "absent"
        elif n % 36 == 9:
            strap.more["contact"] = False
        elif n % 36 == 2:
            strap.more["battery_percent"] = 9
        elif n % 36 == 30:
            strap.is_unheard = True
        elif n % 36 == 20:
            strap.more.update(contact=None)
    server.gateway |= {"well": False, "health": [
        {"name": "strap-silent", "since": stamp(time.time() - 65), "severity": "error", "sensor": 7,
         "message": "Bed 7 has sent nothing for 95 s",
         "advice": "wear it, moisten the electrodes, check its battery, bring it nearer"}]}


# What a person or a program may have typed as a name.
HOSTILE_NAMES = [
    "W" * 300, "<img src=x onerror=alert(1)>", "\u202eevil\u202c 7", "سرير ١٢", "\u200b\u200b\u2060", "👩‍👩‍👧‍👦 Bed 🛏️",
    "Z" + "\u0301\u0302\u0303" * 40, "a\nb\tc\x07", "{{NONCE}}", "__proto__", "   ", "Bed\u00ad 1"]


def fleet(count):
    """That many gateways, most of them well."""
    now = time.time()
    gateways = []
    for n in range(1, count + 1):
        gateway = {
            "name": f"ward{n // 10}-{n % 10:02}", "site": f"Clinic {n % 3 + 1}", "labels": {"floor": str(n // 50)},
            "version": "0.1.0", "state": "well", "since": stamp(now - 7200), "items": [],
            "sensors": {"paired": 12, "streaming": 12, "silent": []}, "oldest_undelivered_seconds": 20,
            "backlog": [{"destination": "e1", "kind": "exchange", "samples": 14}], "last_answer": stamp(now)}
        if n % 40 == 5:
            gateway |= {"state": "not-well", "since": stamp(now - 700), "oldest_undelivered_seconds": 4000, "items": [
                {"name": "strap-silent", "since": stamp(now - 700), "detail": "Bed 7 has sent nothing for 11 min",
                 "remedy": "wear it, moisten the electrodes, check its battery", "sensor": "Bed 7"}],
                "sensors": {"paired": 12, "streaming": 11, "silent": ["Bed 7"]}}
        elif n % 40 == 17:
            gateway |= {"state": "gone", "since": stamp(now - 9000), "last_answer": stamp(now - 9000),
                        "sensors": {"paired": 12, "streaming": 0, "silent": []}, "oldest_undelivered_seconds": None}
        gateways.append(gateway)
    return gateways
