"""Wards of many straps, for tests and pictures."""

import math
import time

from playing_server import Strap, stamp

# As the gateway does (LiveFeed.period).
LOOK_SECONDS = 0.2


class Heart(Strap):
    """A strap whose rate wanders, a beat or two a second, each in its own second."""

    def __init__(self, sensor, rest=None, **more):
        self.rest = rest or 58 + 7 * sensor % 47
        super().__init__(sensor, **more)
        self.phase = sensor * 0.618 % 1

    @property
    def bpm(self):
        if self.fixed is not None:
            return self.fixed
        second = math.floor(time.time() + self.phase)
        return round(self.rest + 4 * math.sin(second / (5 + self.sensor % 7)) + 3 * math.sin(second * 0.9 + self.sensor))

    @bpm.setter
    def bpm(self, value):
        self.fixed = None if value == 72 else value


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
            strap.stop(age=4000)
        elif n % 36 == 20:
            strap.more.update(contact=None)
    server.gateway |= {"well": False, "health": [
        {"name": "strap-silent", "since": stamp(time.time() - 65), "severity": "error",
         "message": "Bed 7 has sent nothing for 95 s",
         "advice": "wear it, moisten the electrodes, check its battery, bring it nearer"}]}
