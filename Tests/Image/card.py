"""The image on a card in a machine without a name: QEMU's `virt`, entered by SSH as a technician does."""
import contextlib
import os
import random
import shlex
import socket
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../Installed"))
from box import Box, Failure, until
from machine import ADAPTERS, die_with_parent

# Emulated, beside whatever else the host does.
BOOT_SECONDS_MAX = 900
# An emulated machine beside a busy host takes half a minute for its part of the handshake.
CONNECT_SECONDS_MAX = 120
BOOT_PARTITION = "@@4M"
CARD_BYTES = 8_000_000_000
MEMORY_MIB = 1024
# What the Pi's firmware does not say: where the console is, and that the adapters' ports are no terminals.
KERNEL_ARGUMENTS = "console=ttyAMA0 systemd.getty_auto=no cryptomgr.notests systemd.show_status=no"


# Below the ports from which the kernel chooses one for an outgoing connection.
PORTS = range(10_240, 32_768)


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Card(Box):
    def __init__(self, image, disk, out, work, straps, plugin):
        self.image, self.work = image, work
        self.plugin, self.counts = plugin, os.path.join(work, "instructions")
        super().__init__(None, disk, out, work, straps)
        self.port, self.tunnels = free_port(), []
        self.key = os.path.join(work, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self.flash()

    # MARK: The card, in a reader

    def flash(self):
        """Writes the image and leaves what is behind it."""
        subprocess.run(["dd", f"if={self.image}", f"of={self.disk}", "bs=4M", "conv=notrunc", "status=none"],
                       check=True)
        os.truncate(self.disk, CARD_BYTES)

    def put(self, name, text):
        subprocess.run(["mcopy", "-o", "-i", self.disk + BOOT_PARTITION, "-", f"::{name}"], input=text.encode(),
                       check=True)

    def get(self, name):
        """A file of the boot partition, as a person reads it; None without it."""
        done = subprocess.run(["mtype", "-i", self.disk + BOOT_PARTITION, f"::{name}"], capture_output=True)
        return done.stdout.decode().replace("\r\n", "\n") if done.returncode == 0 else None

    # MARK: Power

    def instructions(self):
        """Those of all processors since the machine was first switched on."""
        with open(self.counts, "rb") as file:
            return sum(struct.unpack("8Q", file.read(64)))

    def start(self):
        listing = subprocess.run(["mdir", "-b", "-i", self.disk + BOOT_PARTITION], capture_output=True, text=True,
                                 check=True).stdout
        files = {}
        for kind in ("vmlinuz", "initrd.img"):
            name = [line for line in listing.split() if line.startswith(f"::/{kind}-")][-1]
            files[kind] = os.path.join(self.work, kind)
            subprocess.run(["mcopy", "-o", "-i", self.disk + BOOT_PARTITION, name, files[kind]], check=True)
        words = self.get("cmdline.txt").strip().replace("quiet", "")
        console = open(os.path.join(self.out, "console.log"), "ab")
        self.process = subprocess.Popen(
            ["qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "cortex-a72", "-accel", "tcg,thread=multi",
             "-smp", "2", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none",
             "-kernel", files["vmlinuz"], "-initrd", files["initrd.img"], "-append", f"{words} {KERNEL_ARGUMENTS}",
             # As a Pi, which has no clock of its own.
             "-rtc", "base=2021-01-01T00:00:00",
             "-drive", f"file={self.disk},format=raw,if=none,id=disk,cache=unsafe",
             "-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci", "-device", "i6300esb",
             "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22", "-device", "virtio-net-pci,netdev=net",
             "-device", "virtio-serial-pci,max_ports=8",
             "-plugin", f"{self.plugin},counts={self.counts}",
             *(part for number, hci in enumerate(ADAPTERS, 1) for part in (
                 "-chardev", f"socket,id={hci},path={self.sockets[hci]}",
                 "-device", f"virtconsole,chardev={hci},nr={number}")),
             "-serial", "stdio", "-qmp", f"unix:{self.sockets['monitor']},server=on,wait=off"],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, preexec_fn=die_with_parent)  # fmt: skip
        self.children.append(self.process)

    def halt(self):
        """Switched off in order, so that the card can be taken out."""
        self.end_tunnels()
        self.attempt("systemctl poweroff", seconds_max=60)
        try:
            self.process.wait(180)
        except subprocess.TimeoutExpired:
            raise Failure("the machine does not switch off") from None
        self.straps("unplug", adapter=0)

    def cut_power(self):
        self.end_tunnels()
        super().cut_power()

    def end(self):
        self.end_tunnels()
        super().end()

    # MARK: SSH

    def ssh(self, *options):
        return ["ssh", "-q", "-i", self.key, "-p", str(self.port), "-o", "StrictHostKeyChecking=no",
                "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS_MAX}",
                "-o", "ServerAliveInterval=15", *options, "gateway@127.0.0.1"]  # fmt: skip

    def wait_for_agent(self):
        def answers():
            if self.process.poll() is not None:
                raise Failure("the machine has ended: see console.log")
            return subprocess.run([*self.ssh(), "true"], stdin=subprocess.DEVNULL).returncode == 0

        until(BOOT_SECONDS_MAX, answers, "the machine takes a login by SSH", pause=2)

    def tunnel(self, port):
        """A port of the machine's loopback leads to the same port of the host's."""
        self.tunnels.append(subprocess.Popen(
            self.ssh("-N", "-R", f"{port}:127.0.0.1:{port}"), stdin=subprocess.DEVNULL, preexec_fn=die_with_parent))

    def end_tunnels(self):
        for tunnel in self.tunnels:
            tunnel.kill()
            tunnel.wait()
        self.tunnels.clear()

    def attempt(self, line, stdin="", seconds_max=180):
        words = f"sudo env LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -c {shlex.quote(line)}"
        try:
            done = subprocess.run([*self.ssh(), words], input=stdin, capture_output=True, text=True,
                                  timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise Failure(f"not within {seconds_max} s: {line}") from None
        return done.returncode, done.stdout, done.stderr

    def send(self, path, there):
        with open(path, "rb") as file:
            subprocess.run([*self.ssh(), f"cat > {there}"], stdin=file, check=True)

    def join_ports(self):
        """As the Pi's kernel does by itself: the adapter is on a serial line. And time comes from the host."""
        self.run("""
            for module in drbg cmac ecb algif_hash algif_skcipher hci_uart; do modprobe -q $module || true; done
            systemctl is-active -q adapter || systemd-run -q --unit=adapter btattach -B /dev/hvc0 -P h4
            mkdir -p /run/systemd/timesyncd.conf.d
            printf '[Time]\\nNTP=10.0.2.2\\nFallbackNTP=\\n' > /run/systemd/timesyncd.conf.d/host.conf
            systemctl restart systemd-timesyncd""")
