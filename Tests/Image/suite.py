"""A card from the flasher to the ward: suite.py IMAGE PACKAGE.deb EXCHANGE-PROGRAM FOLDER PLUGIN

One story, told in order, each step a test. In the end the straps' frames, the store and the exchange are compared.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

from card import Card, Failure, until
from box import GoalMissed, TimeServer
from stage import PATIENTS, STRAPS, Exchange, Stage, check

DELIVERY_SECONDS_MAX = 300
DRAIN_SECONDS_MAX = 240
# Of what is written to the card a day; docs/use/card.md. Measured over MEASURE_SECONDS; a shorter time counts what the
# boot still writes for more than it is.
WRITTEN_BYTES_MAX = 400_000_000
MEASURE_SECONDS = int(os.environ.get("MEASURE_SECONDS", "240"))
WIFI = "ssid=Ward 3\npassword=not on the card\ncountry=DE\n"
SETTINGS = "storage:\n  commit_seconds: 5\nlog:\n  level: info\n"


class Story(Stage):
    # Eight straps: a full ward's, and what the figure of the card is for.
    worn = {index: (f"strap {index + 1}", PATIENTS[index % len(PATIENTS)]) for index in range(8)}

    def __init__(self, image, package, exchange_program, folder, plugin):
        self.package, self.image, self.folder = package, image, folder
        self.out = os.path.join(folder, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        self.work = tempfile.mkdtemp(prefix="image.")
        disk = os.path.join(folder, "card.raw")
        with open(disk, "wb"):
            pass
        self.box = Card(image, disk, self.out, self.work, STRAPS, plugin)
        self.exchange = Exchange(exchange_program, self.box.children)
        self.must_be, self.figures = [], {}

    def end(self):
        try:
            self.journal("end")
        except (Failure, OSError):
            pass
        self.box.end()
        shutil.rmtree(self.work, ignore_errors=True)

    def journal(self, name):
        status, text, _ = self.box.attempt("journalctl --no-pager -o short-precise -b", seconds_max=60)
        if status == 0:
            with open(os.path.join(self.out, f"journal-{name}.log"), "w") as file:
                file.write(text)

    def go_on(self):
        """What belongs to the stage, after each boot."""
        self.box.wait_for_agent()
        self.box.join_ports()
        self.box.tunnel(self.exchange.port)

    # MARK: The story

    def boots(self):
        """A flashed card with files on its boot partition boots, and nothing fails."""
        self.link = self.exchange.links[0]
        self.box.put("edge-gateway.yaml", SETTINGS)
        self.box.put("wifi.txt", WIFI.replace("\n", "\r\n"))
        self.box.put("invitation.txt", self.link + "\r\n")
        with open(self.box.key + ".pub") as file:
            self.box.put("authorized_keys", file.read())
        began = time.monotonic()
        self.box.start()
        self.box.wait_for_agent()
        seconds = time.monotonic() - began
        self.box.attempt("systemctl is-system-running --wait", seconds_max=240)
        failed = self.box.run("systemctl --failed --no-legend --plain")
        check(not failed.strip(), f"failed units: {failed}")
        self.go_on()
        return f"a login after {seconds:.0f} s"

    def is_a_card(self):
        """Root read-only, store apart, log in memory, watchdog, keys only, no password."""
        run = self.box.run
        options = run("findmnt -n -o OPTIONS /").strip().split(",")
        check("ro" in options, f"the root is {options}")
        check(run("findmnt -n -o LABEL /store").strip() == "eg-store", "the store is no partition of its own")
        check(run("stat -c %U:%a /var/lib/edge-gateway").strip() == "edge-gateway:700", "whose the store is")
        check(not run("ls -A /var/log/journal 2>/dev/null || true").strip(), "the log is on the card")
        check(run("systemctl show -P RuntimeWatchdogUSec").strip() == "14s", "no watchdog")
        feeds = run("journalctl -b -o cat | grep -i 'watchdog running' || true").strip()
        shadow = run("cut -d: -f1,2 /etc/shadow").split()
        open_doors = [line for line in shadow if line.split(":")[1][:1] not in ("*", "!")]
        check(not open_doors, f"passwords of {[line.split(':')[0] for line in open_doors]}")
        said = run("sshd -T | grep -E '^(passwordauthentication|permitrootlogin|kbdinteractive)'")
        check(said.split()[1::2] == ["no"] * 3, f"sshd: {said}")
        check(run("systemctl is-enabled apt-daily-upgrade.timer").strip() == "enabled", "no unattended upgrades")
        check("label=Debian-Security" in run("apt-config dump Unattended-Upgrade::Origins-Pattern"), "their origin")
        # Settings with mode 0640 stay on the store when another image is flashed; its numbers were others.
        numbers = run("getent group edge-gateway edge-gateway-relay | cut -d: -f1,3").split()
        check(numbers == ["edge-gateway:900", "edge-gateway-relay:901"], f"groups {numbers}")
        # What a gateway behind a relay loads, with all that it needs itself.
        library = run("ls /usr/lib/aarch64-linux-gnu/libnats.so.3.*").split()
        said = run(f"LD_PRELOAD='{' '.join(library)}' /bin/true 2>&1 || true").strip()
        check(library and not said, f"libnats cannot be loaded: {said}")
        self.machine = run("cat /etc/machine-id").strip()
        self.host_key = run("cat /var/lib/edge-gateway-card/ssh_host_ed25519_key.pub").split()[1]
        self.figures["memory available, MiB"] = int(run("awk '/MemAvailable/ {print $2}' /proc/meminfo")) // 1024
        return feeds.splitlines()[-1] if feeds else "no watchdog in this machine"

    def is_enrolled(self):
        """The invitation is redeemed once and deleted; nothing secret stays on the boot partition."""
        def names():
            return [e["name"] for e in self.box.json("edge-gateway enrollments") or []]

        until(DELIVERY_SECONDS_MAX, lambda: names() or None, "the invitation is redeemed", pause=3)
        self.first = names()[0]
        until(60, lambda: "redeemed" in self.box.run("cat /boot/firmware/card-status.txt"), "the card says so")
        left = self.box.run("ls /boot/firmware").split()
        taken = {"edge-gateway.yaml", "wifi.txt", "invitation.txt", "authorized_keys"}
        check(not taken & set(left), f"still there: {taken & set(left)}")
        check(self.box.run("cat /etc/edge-gateway/config.yaml") == SETTINGS, "its settings")
        wifi = self.box.run("cat /etc/wpa_supplicant/wpa_supplicant-wlan0.conf")
        check("psk=" in wifi and "not on the card" not in wifi, "its Wi-Fi")
        with open(self.box.disk, "rb") as file:
            head = file.read(512 << 20)
        for secret in (self.link, "not on the card"):
            check(secret.encode() not in head, "a secret can still be read from the boot partition")
        told = self.box.run("journalctl -b --no-pager")
        check(self.link not in told and "not on the card" not in told, "a secret is in the log")

    def pairs(self):
        """Straps are paired, and their samples are at the exchange."""
        until(120, lambda: "Powered: yes" in self.box.attempt("bluetoothctl show")[1], "the adapter is powered")
        self.box.run("edge-gateway enroll - --name second", stdin=self.exchange.links[1])
        names = dict(zip(PATIENTS, (self.first, "second")))
        for index, (name, patient) in self.worn.items():
            self.box.run(f"edge-gateway pair {self.address(index)} --enrollment {names[patient]} --name '{name}'")
        until(DELIVERY_SECONDS_MAX, lambda: self.exchange.books()["stored"], "a sample at the exchange")
        self.wait_for_streams(60)
        self.record()

    def writes_little(self):
        """What is written to the card stays below 400 MB a day."""
        def written():
            """To the card, and what of it the gateway had the kernel write."""
            # Sectors of 512 bytes: /proc/diskstats, the tenth field.
            self.box.run("sync")
            return (
                512 * int(self.box.run("awk '$3 == \"vda\" {print $10}' /proc/diskstats")),
                int(self.box.run("awk '$1 == \"write_bytes:\" {print $2}' "
                                 "/proc/$(systemctl show -P MainPID edge-gateway)/io")))

        before, began = written(), time.monotonic()
        self.record(MEASURE_SECONDS)
        after, seconds = written(), time.monotonic() - began
        a_day, own = ((last - first) / seconds * 86400 for first, last in zip(before, after))
        self.figures[f"written to the card with {len(self.worn)} straps, MB a day"] = round(a_day / 1e6)
        found = (f"{a_day / 1e6:.0f} MB a day with {len(self.worn)} straps, over {MEASURE_SECONDS} s, "
                 f"{own / 1e6:.0f} of them by the gateway")
        if a_day > WRITTEN_BYTES_MAX:
            raise GoalMissed(found)
        return found

    def power_is_cut(self):
        """A power cut while it records costs the last seconds; the rest is delivered."""
        self.record()
        self.commit()
        self.journal("before-cut")
        before = float(self.box.run("date +%s"))
        self.box.cut_power()
        count = self.box.instructions()
        self.box.wait_for_agent()
        until_login = self.box.instructions() - count
        # Before any time server is asked.
        clock = float(self.box.run("date +%s"))
        check(clock > before - 660, f"the clock is {before - clock:.0f} s behind that of the cut")
        self.go_on()
        self.wait_for_streams(240)
        until_streams = self.box.instructions() - count
        self.wait_for_delivery(DELIVERY_SECONDS_MAX)
        self.record()
        uptime = float(self.box.run("cat /proc/uptime").split()[0])
        self.figures["instructions from power-on to eight straps streaming, 10^9"] = round(until_streams / 1e9, 1)
        return (f"delivers again {uptime:.0f} s after the kernel's first line; {until_login / 1e9:.1f} thousand million "
                f"instructions from power-on to a login, {until_streams / 1e9:.1f} until all straps stream")

    def package_is_updated(self):
        """apt installs a newer package on the read-only root, which is read-only again afterwards."""
        tree = os.path.join(self.work, "newer")
        subprocess.run(["dpkg-deb", "-R", self.package, tree], check=True)
        control = os.path.join(tree, "DEBIAN/control")
        with open(control) as file:
            fields = file.read()
        with open(control, "w") as file:
            file.write(fields.replace("\nVersion: ", "\nVersion: 1:", 1))
        newer = os.path.join(self.work, "newer.deb")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, newer], check=True,
                       stdout=subprocess.DEVNULL)
        self.box.send(newer, "/tmp/newer.deb")
        self.box.run("DEBIAN_FRONTEND=noninteractive apt-get install -y /tmp/newer.deb", seconds_max=600)
        version = self.box.run("dpkg-query -W -f '${Version}' edge-gateway")
        check(version.startswith("1:"), f"version {version}")
        check(self.box.run("cat /etc/edge-gateway/config.yaml") == SETTINGS, "its settings")
        until(180, lambda: "ro" in self.box.run("findmnt -n -o OPTIONS /").strip().split(","),
              "the root is read-only again", pause=5)
        self.wait_for_streams(120)
        self.record()

    def bad_input(self):
        """Bad files are refused in plain words, and what worked before goes on."""
        self.commit()
        self.box.halt()
        self.box.put("edge-gateway.yaml", "storage:\n  commit_seconds: soon\n")
        self.box.put("wifi.txt", "Ward 3, not on the card\n")
        # One that was used can be redeemed again for some hours.
        unknown = self.link[:-8] + "nowhere0"
        self.box.put("invitation.txt", unknown)
        self.box.start()
        self.go_on()
        self.wait_for_streams(240)
        self.record()
        until(DELIVERY_SECONDS_MAX, lambda: "NOT redeemed" in self.box.run("cat /boot/firmware/card-status.txt"),
              "the unknown invitation is refused", pause=5)
        status = self.box.run("cat /boot/firmware/card-status.txt").replace("\r", "")
        for words in ("edge-gateway.yaml: NOT taken", "commit_seconds", "wifi.txt: NOT taken: line 1"):
            check(words in status, f"the card says: {status}")
        check("not on the card" not in status and unknown not in status, "it repeats a secret")
        check(self.box.run("cat /etc/edge-gateway/config.yaml") == SETTINGS, "its settings")
        left = self.box.run("ls /boot/firmware").split()
        check("edge-gateway.yaml" in left and "wifi.txt" in left and "invitation.txt" not in left, f"left: {left}")

    def is_flashed_again(self):
        """A card that is flashed again keeps the store, the pairings and who it is."""
        self.commit()
        stored = self.status()["balance"]["stored"]
        self.box.halt()
        self.box.flash()
        self.box.start()
        self.go_on()
        check(self.box.run("cat /run/edge-gateway-card-store").strip() == "found", "the store is not found")
        check(self.box.run("cat /etc/machine-id").strip() == self.machine, "it is another machine")
        check(self.host_key in self.box.run("cat /var/lib/edge-gateway-card/ssh_host_ed25519_key.pub"), "its host key")
        check(self.box.run("dpkg-query -W -f '${Version}' edge-gateway")[:2] != "1:", "it was not flashed")
        check(self.box.run("cat /etc/edge-gateway/config.yaml") == SETTINGS, "its settings")
        self.wait_for_streams(240)
        self.wait_for_delivery(DELIVERY_SECONDS_MAX)
        self.record()
        check(self.status()["balance"]["stored"] > stored, "samples are gone")

    def balances(self):
        """Straps, store and exchange agree: each sample is there once, and none is missing."""
        balance = self.drain(DRAIN_SECONDS_MAX)
        self.box.run("systemctl stop edge-gateway")
        for name in ("queue.sqlite", "queue.sqlite-wal"):
            with open(os.path.join(self.out, name), "wb") as file:
                subprocess.run([*self.box.ssh(), f"sudo cat /var/lib/edge-gateway/{name} 2>/dev/null"], stdout=file, check=False)
        self.agree(balance)
        return f"{balance['delivered']} samples"

    STORY = [boots, is_a_card, is_enrolled, pairs, writes_little, power_is_cut, package_is_updated, bad_input,
             is_flashed_again, balances]


if __name__ == "__main__":
    TimeServer()
    sys.exit(Story(*sys.argv[1:]).tell())
