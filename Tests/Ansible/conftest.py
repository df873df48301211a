"""Two machines with a booted systemd each (systemd-nspawn), and Debian's Ansible, which comes to them by ssh.

Nobody listens on a network: for each connection ssh's ProxyCommand starts an sshd inside the machine.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PLAYBOOKS = ROOT / "deploy/ansible"
FOLDER = ROOT / ".build-ansible"
BOOT_SECONDS_MAX = 300
PLAY_SECONDS_MAX = 900


def pytest_addoption(parser):
    parser.addoption("--package", required=True)
    parser.addoption("--exchange", required=True)


class Machine:
    """A gateway-to-be, over the tree that Tests/Ansible/prepare made."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.tree = folder / name / "tree"
        self.process = self.leader = None

    def boot(self, key):
        """`key` may log in as root."""
        name, folder = self.name, self.folder
        for part in ("upper", "work", "tree"):
            (folder / name / part).mkdir(parents=True)
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir={FOLDER}/machine,upperdir={folder}/{name}/upper,workdir={folder}/{name}/work", self.tree],
            check=True)  # fmt: skip
        (self.tree / "etc/hostname").write_text(name + "\n")
        ssh = self.tree / "root/.ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        (ssh / "authorized_keys").write_text(key)
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe",
             "--resolv-conf=off", "--timezone=off", f"--machine={name}", f"--directory={self.tree}"],
            stdin=subprocess.DEVNULL, stdout=(folder / f"{name}.log").open("w"), stderr=subprocess.STDOUT)  # fmt: skip
        self.leader = until(BOOT_SECONDS_MAX, self.find_leader, f"{name} boots")
        until(BOOT_SECONDS_MAX, lambda: self.do("systemctl is-system-running --wait").stdout.strip() in
              ("running", "degraded"), f"{name} is up")  # fmt: skip

    def find_leader(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            # Before init there are children of systemd-nspawn's own, which end.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if pathlib.Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return int(child)
        return None

    def enter(self):
        return ["nsenter", f"--target={self.leader}", "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--"]

    def do(self, command, check=False):
        return subprocess.run([*self.enter(), "sh", "-c", command], capture_output=True, text=True, check=check)

    def version(self):
        return self.do("dpkg-query --show '--showformat=${Version}' edge-gateway").stdout

    def daemon(self):
        """The daemon's process: another one after each restart."""
        return self.do("systemctl show --property=MainPID --value edge-gateway").stdout.strip()

    def settings(self):
        return self.do("cat /etc/edge-gateway/config.yaml").stdout

    def conditions(self):
        return [item["name"] for item in json.loads(self.do("edge-gateway status --json").stdout)["health"]]

    def stop(self):
        if self.leader:
            journal = self.do("journalctl --no-pager --output=short-precise").stdout
            (self.folder / f"{self.name}.journal").write_text(journal)
        if self.process:
            self.process.terminate()  # systemd-nspawn powers the machine off.
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        subprocess.run(["umount", "--lazy", self.tree], check=False)


class Play:
    """What a run of a playbook said."""

    def __init__(self, result):
        self.status, self.text = result.returncode, result.stdout + result.stderr

    def recap(self, host, what):
        found = re.search(rf"^{host} .*\b{what}=(\d+)", self.text, re.MULTILINE)
        return int(found[1]) if found else None


class Site:
    """The machines, the inventory and the vault."""

    def __init__(self, folder, package, exchange):
        self.folder, self.package = folder, package
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        key = (folder / "key.pub").read_text()
        self.machines = {}
        self.exchange = None
        try:
            for name in ("one", "two"):
                self.machines[name] = Machine(name, folder)
                self.machines[name].boot(key)
            self.exchange = subprocess.Popen(
                [exchange, "40001"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.link = json.loads(self.exchange.stdout.readline())["links"][0]
        except BaseException:
            self.stop()
            raise
        (folder / "vault-password").write_text("a test's\n")
        sealed = subprocess.run(
            ["ansible-vault", "encrypt_string", "--vault-password-file", folder / "vault-password", "--stdin-name",
             "vault_bed7"], input=self.link, capture_output=True, text=True, check=True)  # fmt: skip
        (folder / "vault.yaml").write_text(sealed.stdout)
        assert self.link not in sealed.stdout
        self.write_inventory()

    def write_inventory(self):
        hosts = {
            name: {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(self.folder / "key"),
                "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
                f"-o ProxyCommand='{' '.join(machine.enter())} /usr/sbin/sshd -i'",
            } for name, machine in self.machines.items()}  # fmt: skip
        hosts["one"]["edge_gateway_enrollments"] = [{"name": "bed7", "link": "{{ vault_bed7 }}", "resolution": "10s"}]
        (self.folder / "inventory.json").write_text(json.dumps({"edge_gateways": {"hosts": hosts}}))

    def play(self, name, *more, **variables):
        variables = {"edge_gateway_settle_seconds": 35, "edge_gateway_well_seconds": 120, **variables}
        return Play(subprocess.run(
            ["ansible-playbook", "--inventory", self.folder / "inventory.json", "--vault-password-file",
             self.folder / "vault-password", "--extra-vars", f"@{self.folder}/vault.yaml", "--extra-vars",
             json.dumps(variables), *more, PLAYBOOKS / name],
            capture_output=True, text=True, timeout=PLAY_SECONDS_MAX, stdin=subprocess.DEVNULL, env={
                **os.environ, "ANSIBLE_PIPELINING": "1", "ANSIBLE_NOCOLOR": "1", "HOME": str(self.folder),
                "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3", "LC_ALL": "C.UTF-8"}))  # fmt: skip

    def repacked(self, suffix, change=lambda tree: None):
        """The package under a later version, changed."""
        tree, made = self.folder / "package", self.folder / f"edge-gateway{suffix}.deb"
        subprocess.run(["dpkg-deb", "-R", self.package, tree], check=True)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"^(Version: .*)$", rf"\g<1>{suffix}", control.read_text(), flags=re.MULTILINE))
        change(tree)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, made], check=True, capture_output=True)
        shutil.rmtree(tree)
        return made

    def stop(self):
        for machine in self.machines.values():
            machine.stop()
        if self.exchange:
            self.exchange.kill()
            self.exchange.wait()


def until(seconds, condition, what):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.1)
    return value


@pytest.fixture(scope="session")
def site(request):
    """One for all tests: they are the steps of one life, in their order."""
    folder = FOLDER / "run"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    made = Site(folder, request.config.getoption("package"), request.config.getoption("exchange"))
    yield made
    made.stop()
