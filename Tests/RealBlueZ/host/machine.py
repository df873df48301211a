"""Boots the guest with straps on its radio, runs one command in it and ends with its status.

    machine.py [--icount] [--root FOLDER] --prepared FOLDER --out FOLDER --straps FILE --seconds-max N -- COMMAND…

QEMU emulates the processor: no KVM is needed. The guest's root is --root, without it this machine's own. Its
adapters are UARTs (/dev/hvc0, /dev/hvc1) whose other end is straps.py. In the guest, /exchange is --out, and /run/ports/control leads to straps.py.
With --icount there is one processor, whose clock counts its instructions: CPU times then repeat.
"""
import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
STRAPS_START_SECONDS_MAX = 30
MEMORY_MIB = 1024
ADAPTERS = ("hci0", "hci1")
# With one processor some races of bluetoothd come often; a test takes the second one away for them.
PROCESSORS = 2
# Instructions as time: a power of two of nanoseconds each, 125 million a second. Processes ask
# NANOSECONDS_PER_INSTRUCTION of the environment.
ICOUNT_SHIFT = 3

# Status when the time is over, as timeout(1) has it, and when the guest ended without a word.
TIME_IS_OVER, GUEST_DIED = 124, 125

KERNEL_ARGUMENTS = (
    "quiet panic=-1 mitigations=off cryptomgr.notests audit=0 rcupdate.rcu_expedited=1 random.trust_cpu=1"
)


class Kind(NamedTuple):
    """What of the machine depends on the guest's processor."""

    emulator: str
    board: tuple
    kernel_arguments: str


X86_64 = Kind(
    # q35 and this model boot faster than the defaults; Swift needs no more than Nehalem has.
    "qemu-system-x86_64", ("-M", "q35", "-cpu", "Nehalem,+aes,+pclmulqdq,+rdrand"),
    "console=ttyS0 tsc=reliable no_timer_check 8250.nr_uarts=1")


def arm64(processor):
    """A machine with that processor, on a board that QEMU made up."""
    return Kind("qemu-system-aarch64", ("-M", "virt,gic-version=3", "-cpu", processor), "console=ttyAMA0")


# By what ../prepare calls the guest: the processors of a Raspberry Pi 4, and of a Pi 5, which alone has pages of
# 16 KiB.
KINDS = {"amd64": X86_64, "arm64": arm64("cortex-a72"), "arm64-16k": arm64("cortex-a76")}


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepared", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--straps", required=True)
    parser.add_argument("--root", default="/")
    parser.add_argument("--icount", action="store_true")
    parser.add_argument("--seconds-max", type=float, required=True)
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def start_straps(settings, out, sockets, children):
    """Puts the straps of the file `settings` on the air, behind `sockets`."""
    log = open(os.path.join(out, "straps.log"), "w")
    straps = subprocess.Popen(
        [sys.executable, os.path.join(HERE, "straps.py"), "--straps", settings,
         "--hci", *("unix-server:" + sockets[hci] for hci in ADAPTERS), "--control", sockets["control"],
         "--trace", os.path.join(out, "frames.jsonl")],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)  # fmt: skip
    children.append(straps)
    end = time.monotonic() + STRAPS_START_SECONDS_MAX
    while not os.path.exists(sockets["control"]):
        if straps.poll() is not None or time.monotonic() > end:
            sys.exit("machine: the straps did not start:\n" + open(log.name).read())
        time.sleep(0.02)


def share(tag, path, is_read_only):
    device = f"local,id={tag},path={path},security_model=none,multidevs=remap"
    return ["-fsdev", device + (",readonly=on" if is_read_only else ""),
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]  # fmt: skip


def hardware(prepared, out, sockets, kernel_arguments="", counts_instructions=False):
    """A machine with the kernel in the folder `prepared`, its output in `out`, and the adapters."""
    processors = ["-accel", "tcg,thread=multi", "-smp", str(PROCESSORS)]
    if counts_instructions:
        processors = ["-accel", "tcg,thread=single", "-smp", "1",
                      "-icount", f"shift={ICOUNT_SHIFT},sleep=on"]  # fmt: skip
    with open(os.path.join(prepared, "guest")) as file:
        kind = KINDS[file.read().strip()]
    return [
        kind.emulator, *processors, *kind.board, "-m", str(MEMORY_MIB),
        "-nodefaults", "-no-user-config", "-display", "none",
        "-kernel", os.path.join(prepared, "vmlinux"),
        "-initrd", os.path.join(prepared, "initrd.cpio"),
        "-append", f"{KERNEL_ARGUMENTS} {kind.kernel_arguments} {kernel_arguments}",
        *share("modules", os.path.join(prepared, "modules"), True), *share("exchange", out, False),
        "-serial", "file:" + os.path.join(out, "console.log"),
        "-device", "virtio-rng-pci", "-device", "virtio-serial-pci,max_ports=8",
        *(part for number, hci in enumerate(ADAPTERS, 1) for part in (
            "-chardev", f"socket,id={hci},path={sockets[hci]}",
            "-device", f"virtconsole,chardev={hci},nr={number}")),
    ]  # fmt: skip


def qemu(options, sockets, output):
    return [
        *hardware(options.prepared, options.out, sockets, counts_instructions=options.icount),
        "-no-reboot", "-nic", "none",
        *share("host", options.root, True),
        "-chardev", f"file,id=output,path=/proc/self/fd/{output}",
        "-device", "virtserialport,chardev=output,name=output,nr=3",
        "-chardev", "socket,id=control,path=" + sockets["control"],
        "-device", "virtserialport,chardev=control,name=control,nr=4",
    ]  # fmt: skip


def relay(source):
    while data := os.read(source, 65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def run(options, work, children):
    os.makedirs(options.out, exist_ok=True)
    shutil.copy(os.path.join(HERE, "../guest/init"), options.out)
    command = options.command
    if options.icount:
        command = ["env", f"NANOSECONDS_PER_INSTRUCTION={2**ICOUNT_SHIFT}", *command]
    with open(os.path.join(options.out, "command"), "w") as file:
        file.write("".join(argument + "\0" for argument in command))
    end = time.monotonic() + options.seconds_max
    sockets = {name: os.path.join(work, name) for name in (*ADAPTERS, "control")}
    start_straps(options.straps, options.out, sockets, children)

    reading, writing = os.pipe()
    guest = subprocess.Popen(
        qemu(options, sockets, writing), stdin=subprocess.DEVNULL, pass_fds=[writing],
        preexec_fn=die_with_parent)  # fmt: skip
    children.append(guest)
    os.close(writing)
    relaying = threading.Thread(target=relay, args=[reading], daemon=True)
    relaying.start()
    try:
        guest.wait(end - time.monotonic())
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"machine: {options.seconds_max:g} s are over\n")
        return TIME_IS_OVER
    relaying.join(2)
    try:
        with open(os.path.join(options.out, "status")) as file:
            return int(file.read())
    except (OSError, ValueError):
        with open(os.path.join(options.out, "console.log"), errors="replace") as console:
            sys.stderr.write("machine: the guest ended early:\n" + console.read()[-3000:])
        return GUEST_DIED


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    children, work = [], tempfile.mkdtemp(prefix="real-bluez.")
    try:
        return run(arguments(), work, children)
    finally:
        for child in reversed(children):
            child.kill()
            child.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
