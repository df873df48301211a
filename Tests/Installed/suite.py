"""The life of an installed gateway: suite.py PACKAGE.deb EXCHANGE-PROGRAM VM-FOLDER FOLDER

One story, told in order, each step a test: the box comes without the gateway; a technician installs,
enrolls and pairs; then it is given a secret and rebooted, bluetoothd restarts, the package is upgraded during a backlog, the
writer hangs, power is cut, and at last it is removed. In the end the straps' frames, the store and the
exchange are compared.
"""
import os
import shutil
import subprocess
import sys
import time
from datetime import datetime

from box import HOST, Failure, TimeServer, until
from stage import COMMIT_SECONDS, PATIENTS, WORN, Stage, check

INSTALL_SECONDS_MAX = 420
# From a restart of bluetoothd to the next sample: the goal of the design.
RESUME_SECONDS_MAX = 15
# From the kernel's first line to a sample at the exchange. systemd, bluetoothd, the clock's
# synchronisation and a delivery lie between, in an emulated processor.
BOOT_TO_DELIVERY_SECONDS_MAX = 240
# A request that was under way when the network went is sent again after 30 s, others after a pause
# that grows to a minute.
DRAIN_SECONDS_MAX = 150
EXPOSURE_MAX = 2.0
# A strap's interval, the commit itself on an emulated disk, and what two clocks differ by.
SLACK_SECONDS = 4
# Short, so that a hung gateway is not waited for three minutes.
WATCHDOG_SECONDS = 20
# Of systemd's ways to end a service.
SIGABRT_SECONDS_MAX = 30


class Story(Stage):
    def boots(self):
        """A Debian box without the gateway boots."""
        self.box.start()
        self.box.run("systemctl is-system-running --wait || systemctl --failed", seconds_max=180)
        # The way to the exchange: the link names a port of 127.0.0.1, which is the host's.
        port = self.exchange.port
        self.box.run(f"""
            cd /etc/systemd/system
            printf '%s\\n' '[Socket]' ListenStream=127.0.0.1:{port} \\
                '[Install]' WantedBy=sockets.target > exchange.socket
            printf '%s\\n' '[Service]' \\
                'ExecStart=/lib/systemd/systemd-socket-proxyd {HOST}:{port}' > exchange.service
            systemctl daemon-reload && systemctl enable --now exchange.socket""")

    def installs(self):
        """apt install is the whole installation: the service runs and says so to systemd."""
        shutil.copy(self.package, os.path.join(self.out, "edge-gateway.deb"))
        began = time.monotonic()
        self.install("edge-gateway.deb")
        seconds = time.monotonic() - began
        state = self.box.run("systemctl show -p Type -p StatusText -p User edge-gateway | sort").split()
        check(state == ["StatusText=recording", "Type=notify", "User=edge-gateway"], f"its service: {state}")
        failed = self.box.run("systemctl --failed --no-legend --plain")
        check(not failed.strip(), f"failed units: {failed}")
        return f"{seconds:.0f} s"

    def install(self, name):
        self.box.run(f"cp /exchange/{name} /root/ && apt-get install -y /root/{name}",
                     seconds_max=INSTALL_SECONDS_MAX)

    def hardened(self):
        """The running unit's exposure is within bounds and its journal has no complaints."""
        said = self.box.run("systemd-analyze security --no-pager edge-gateway.service | tail -n 1")
        exposure = float(said.split(":")[1].split()[0])
        check(exposure <= EXPOSURE_MAX, f"exposure {exposure}")
        journal = self.box.run("journalctl -u edge-gateway --no-pager -o cat -t edge-gateway")
        odd = [line for line in journal.splitlines()
               if " info " not in line and " notice " not in line]
        check(not odd, f"it says: {odd[:3]}")
        uid, capabilities = self.box.run(
            "sed -n 's/^Uid:\\t//p; s/^CapEff:\\t//p' "
            "/proc/$(systemctl show -P MainPID edge-gateway)/status").splitlines()
        check(uid.split()[0] != "0" and int(capabilities, 16) == 0,
              f"uid {uid}, capabilities {capabilities}")
        return f"exposure {exposure}"

    def enrolls_and_pairs(self):
        """edge-gateway enroll, edge-gateway pair, and a sample is at the exchange."""
        until(60, lambda: "Powered: yes" in self.box.attempt("bluetoothctl show")[1],
              "the adapter is powered")
        for patient, link in zip(PATIENTS, self.exchange.links):
            self.box.run(f"edge-gateway enroll - --name p{patient}", stdin=link)
        began = time.monotonic()
        for index, (name, patient) in WORN.items():
            self.box.run(
                f"edge-gateway pair {self.address(index)} --enrollment p{patient} --name {name}")
        paired = time.monotonic() - began
        until(90, lambda: self.exchange.books()["stored"], "a sample at the exchange")
        self.wait_for_streams(20)
        self.record()
        return f"{len(WORN)} straps in {paired:.0f} s"

    def credentials(self):
        """A secret that systemd hands over serves, and no other user can read it."""
        self.box.run("""
            umask 077
            head -c 32 /dev/urandom | base64 > /root/page-token
            drop_ins=/etc/systemd/system/edge-gateway.service.d
            mkdir -p $drop_ins
            printf '%s\\n' '[Service]' LoadCredential=page-token:/root/page-token \\
                Environment=EDGE_GATEWAY_PAGE_LISTEN=0.0.0.0:8470 \\
                Environment=EDGE_GATEWAY_PAGE_TOKEN_FILE=%d/page-token > $drop_ins/page.conf
            chmod -R a+rX $drop_ins
            systemctl daemon-reload && systemctl restart edge-gateway""")
        ask = """
            exec 3<> /dev/tcp/10.0.2.15/8470
            printf 'GET /metrics HTTP/1.1\\r\\nHost: 10.0.2.15:8470\\r\\n%s\\r\\n\\r\\n' "$header" >&3
            read -r line <&3 && echo "$line" """
        token = 'header="Authorization: Bearer $(cat /root/page-token)"'
        answers = [until(30, lambda: self.box.attempt(header + ask)[1], "the page answers")
                   for header in (token, "header=X-None:-")]
        check(" 200 " in answers[0] and " 200 " not in answers[1], f"the page answers {answers}")
        directory = "/run/credentials/edge-gateway.service"
        status, _, _ = self.box.attempt(f"setpriv --reuid=65534 --clear-groups ls {directory}")
        check(status != 0, "another user can look at it")
        self.box.run("rm -r /etc/systemd/system/edge-gateway.service.d && systemctl daemon-reload"
                     " && systemctl restart edge-gateway")
        self.wait_for_streams(30)

    def reboots(self):
        """After a reboot samples arrive again without a hand."""
        self.commit()
        boot = self.box.run("cat /proc/sys/kernel/random/boot_id")
        self.box.begin("systemctl reboot")
        until(120, lambda: self.boot_other_than(boot), "the machine reboots")
        return self.after_boot("reboot")

    def boot_other_than(self, boot):
        try:
            self.box.wait_for_agent()
            return self.box.run("cat /proc/sys/kernel/random/boot_id") != boot
        except (Failure, OSError):
            return False

    def after_boot(self, name):
        self.wait_for_delivery(BOOT_TO_DELIVERY_SECONDS_MAX)
        uptime = float(self.box.run("cat /proc/uptime").split()[0])
        check(uptime <= BOOT_TO_DELIVERY_SECONDS_MAX, f"{uptime:.0f} s after the kernel began")
        self.wait_for_streams(60)
        # The first sample after the boot, by the gateway's own account.
        self.record()
        self.figures[f"{name} to delivery, s"] = round(uptime)
        return f"{uptime:.0f} s from the kernel's first line to a delivered sample"

    def bluetoothd_restarts(self):
        """Data flows again within 15 s after systemd restarted bluetoothd."""
        self.box.run("systemctl restart bluetooth")
        began = time.monotonic()
        before = self.sent()
        until(RESUME_SECONDS_MAX, lambda: all((now := self.sent())[i] > before[i] for i in WORN),
              "each strap sends")
        seconds = time.monotonic() - began
        self.wait_for_streams(10)
        self.record()
        self.figures["bluetoothd restart to samples, s"] = round(seconds, 1)
        return f"after {seconds:.1f} s"

    def upgraded_during_a_backlog(self):
        """An upgrade while samples wait loses none, sends none twice, keeps settings and what a site enabled."""
        self.exchange.ask("cut")
        self.box.run("echo '# changed here' >> /etc/edge-gateway/config.yaml")
        self.record(20)
        waiting = self.status()["balance"]["pending"]
        check(waiting > 0, "nothing waits")
        tree = os.path.join(self.work, "newer")
        subprocess.run(["dpkg-deb", "-R", self.package, tree], check=True)
        control = os.path.join(tree, "DEBIAN/control")
        with open(control) as file:
            fields = file.read()
        with open(control, "w") as file:
            file.write(fields.replace("\nVersion: ", "\nVersion: 1:", 1))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree,
                        os.path.join(self.out, "newer.deb")], check=True, stdout=subprocess.DEVNULL)
        # A relay whose servers are away waits for them. Upgrades stopped it and the helper's socket for good.
        self.box.run("""
            cd /etc/edge-gateway
            printf '%s\\n' 'nats: {servers: [nats://127.0.0.1:4222]}' 'exchange: {url: http://127.0.0.1:1}' \\
                'patients_file: relay-patients' > relay.yaml
            edge-gateway relay key relay.seed
            (umask 077; printf id:secret | base64 > relay-practitioner-key)
            install -m 640 -g edge-gateway-relay /dev/null relay-patients
            edge-gateway relay allow ward3-07 40001
            systemctl enable --now edge-gateway-relay edge-gateway-radio-reset.socket""")
        programs = "systemctl show -P MainPID edge-gateway edge-gateway-relay"
        first = self.box.run(programs).split()
        self.install("newer.deb")
        now = self.box.run(programs).split()
        check(len(now) == 2 and not {"0", *first} & set(now), f"processes {first} before, {now} after")
        self.box.run("systemctl is-active edge-gateway edge-gateway-relay edge-gateway-radio-reset.socket"
                     " && grep -q 'changed here' /etc/edge-gateway/config.yaml")
        self.wait_for_streams(30)
        self.record()
        check(self.status()["balance"]["pending"] > waiting, "the backlog is gone")
        self.exchange.ask("restore")
        until(DRAIN_SECONDS_MAX, lambda: self.status()["balance"]["pending"] < waiting, "the backlog drains")
        return f"{waiting} samples waited"

    def hangs(self):
        """A gateway that hangs is killed by systemd's watchdog and started again."""
        self.box.run(f"""
            drop_ins=/run/systemd/system/edge-gateway.service.d
            mkdir -p $drop_ins
            printf '[Service]\\nWatchdogSec={WATCHDOG_SECONDS}\\n' > $drop_ins/short.conf
            systemctl daemon-reload && systemctl restart edge-gateway""")
        self.wait_for_streams(30)
        # Longer than the period: while its heart beats nothing happens.
        self.record(WATCHDOG_SECONDS + 5)
        self.commit()
        check(self.starts() == 0, "it was restarted though nothing hung")
        self.box.run("kill -STOP $(systemctl show -P MainPID edge-gateway)")
        began = time.monotonic()
        until(WATCHDOG_SECONDS + SIGABRT_SECONDS_MAX, lambda: self.starts() == 1, "systemd starts it again")
        seconds = time.monotonic() - began
        self.wait_for_streams(30)
        self.record()
        return f"after {seconds:.0f} s"

    def power_is_cut(self):
        """A power cut costs what came in the last 5 s; the rest is delivered, the gap is listed."""
        self.commit()
        cut = time.time()
        self.box.cut_power()
        self.box.wait_for_agent()
        told = self.after_boot("power cut")
        gaps = {
            gap["address"]: gap for gap in self.box.json("edge-gateway gaps")["gaps"]
            if gap["cause"] == "gateway-off" and "until" in gap and parse(gap["until"]) > cut}
        check(len(gaps) == len(WORN), f"gaps over the cut: {gaps}")
        lost = max(cut - parse(gap["from"]) for gap in gaps.values())
        check(-1 < lost < COMMIT_SECONDS + SLACK_SECONDS, f"the gap begins {lost:.1f} s before the cut")
        self.figures["lost by a power cut, s"] = round(lost, 1)
        return f"{told}; the last {lost:.1f} s were lost"

    def balances(self):
        """Straps, store and exchange agree: each sample is there once, and none is missing."""
        balance = self.drain(DRAIN_SECONDS_MAX)
        self.box.run("systemctl stop edge-gateway && cp /var/lib/edge-gateway/queue.sqlite* /exchange/")
        stored = len(self.agree(balance)["stored"])
        check(stored == balance["delivered"], f"delivered {balance['delivered']}, the exchange has {stored}")
        return f"{balance['delivered']} samples"

    def purged(self):
        """A purge ends the service and leaves nothing of it on the machine."""
        self.box.run("apt-get purge -y edge-gateway", seconds_max=INSTALL_SECONDS_MAX)
        left = self.box.run("""
            ls -d /var/lib/edge-gateway /etc/edge-gateway /run/edge-gateway* /usr/bin/edge-gateway \
                2>/dev/null
            getent passwd edge-gateway; pgrep -l edge-gateway
            systemctl list-units --all --no-legend 'edge-gateway*'; true""")
        check(not left.strip(), f"left behind: {left}")

    STORY = [boots, installs, hardened, enrolls_and_pairs, credentials, reboots, bluetoothd_restarts,
             upgraded_during_a_backlog, hangs, power_is_cut, balances, purged]


def parse(stamp):
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


if __name__ == "__main__":
    TimeServer()
    sys.exit(Story(*sys.argv[1:]).tell())
