"""A store that another machine made, a damaged one, and writers that are killed, with this machine's widths, alignment
and pages. Without a bus: the straps of these stores are none of the others' business."""
import glob
import os
import shutil
import tempfile

from fixture import check
from gateway import Gateway
from world import EXCHANGE, until

# As ../run has copied it.
STORE = EXCHANGE + "/golden.sqlite"
SAMPLES = 81
# What damage spoils: the last page of samples.
PAGE_BYTES = 512
SALVAGE_SECONDS_MAX = 30
KILLS = 5


class GoldenGateway(Gateway):
    """A gateway on a copy of the golden store."""

    def __init__(self, binary):
        self.state = tempfile.mkdtemp(prefix="store.", dir="/run")
        super().__init__(binary, self.state)
        self.environment["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={self.state}/none"
        shutil.copy(STORE, self.store.path)
        os.chmod(self.store.path, 0o600)

    def verify(self):
        return self.command("queue", "verify")

    def salvages(self):
        """What became of broken stores, the newest first."""
        return (self.command("queue", "status")[1] or {}).get("salvages", [])

    def expect_clean(self, what):
        status, report, complaint = self.verify()
        check(status == 0 and report["clean"], f"{what}: {report or complaint}")
        return report["samples"]


def opened(fixture):
    """A store that another machine made opens and verifies."""
    gateway = GoldenGateway(fixture.gateway.binary)
    gateway.start()
    gateway.stop()
    samples = gateway.expect_clean("the store")
    check(samples == SAMPLES, f"{samples} samples")
    return f"{samples} samples"


def damaged(fixture):
    """A damaged store is told of, salvaged and clean again."""
    gateway = GoldenGateway(fixture.gateway.binary)
    with open(gateway.store.path, "r+b") as file:
        file.seek(-PAGE_BYTES, os.SEEK_END)
        file.write(b"\xa5" * PAGE_BYTES)
    status, report, _ = gateway.verify()
    check(status != 0 and not (report or {}).get("clean"), f"the damage is not seen: {report}")
    gateway.start()
    told = until(SALVAGE_SECONDS_MAX, lambda: "store-salvaged" in gateway.health())
    # Recording goes on at once, and what the broken file holds comes while it does.
    salvaged = until(SALVAGE_SECONDS_MAX, lambda: gateway.salvages() and gateway.salvages()[0]["done"])
    reports = gateway.salvages()
    gateway.stop()
    check(told, "status does not tell store-salvaged")
    check(salvaged, f"the broken store is not saved: {reports}")
    check(glob.glob(gateway.store.path + ".broken-*"), "the broken file is not kept")
    samples = gateway.expect_clean("the salvaged store")
    check(0 < samples < SAMPLES, f"{samples} of {SAMPLES} samples were salvaged: {reports}")
    check(reports[0]["carried"] == samples, f"{samples} samples, and not as many as it says: {reports}")
    return f"{samples} of {SAMPLES} samples"


def killed(fixture):
    """A store whose writer is killed again and again verifies."""
    gateway = GoldenGateway(fixture.gateway.binary)
    for _ in range(KILLS):
        gateway.start()
        gateway.kill()
    gateway.start()
    gateway.stop()
    samples = gateway.expect_clean("the store")
    check(samples == SAMPLES, f"{samples} samples")
    return f"{KILLS} kills"


TESTS = [opened, damaged, killed]
