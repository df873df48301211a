"""The role and playbooks of deploy/ansible on two installed gateways: the steps of one life, in this order."""
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import FOLDER, PLAYBOOKS

SETTINGS = {"clock": {"trust": "always"}, "uplink": {"interval_seconds": 120}}

PAGE_PORT = 28470

SECRET = "s" * 43


@pytest.fixture(scope="module")
def machines(site):
    return site.machines.values()


def test_the_playbooks_pass_ansible_lint():
    found = subprocess.run(
        [FOLDER / "lint/bin/ansible-lint", "--offline", "--strict", "-q", "--nocolor"], cwd=PLAYBOOKS,
        capture_output=True, text=True, check=False)  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


# Says at first what was before, and then what is after.
FAKE = """#!/bin/sh
cd "$(dirname "$0")"
if [ -e before ]; then cat before; rm before; exit; fi
cat after
[ -s after ] || { echo no daemon >&2; exit 3; }
"""


def state(*health, uptime=1000):
    return json.dumps({"uptime_seconds": uptime, "health": [{"name": name, **more} for name, more in health]})


def strap(number):
    return "strap-silent", {"sensor": number}


def stopped(*deliveries):
    return "token-refused", {"deliveries": deliveries}


def test_a_gateway_is_judged_by_each_strap_and_delivery(tmp_path):
    cases = [
        (state(strap(1)), state(strap(1)), None),
        (state(strap(1)), state(strap(1), strap(2), strap(3)),
         "Not well: strap-silent (strap 2), strap-silent (strap 3)."),
        (state(stopped("bed7", "bed8")), state(stopped("bed8")), None),
        (state(stopped("bed7")), state(stopped("bed7", "bed8")), "Not well: token-refused (delivery bed8)."),
        (state(), state(("clock-untrusted", {})), "Not well: clock-untrusted."),
        (state(), state(("battery-low", {"sensor": 4})), None),
        (state(), state(uptime=12.5), "Restarts: after 5 s, it has been up for 12 s."),
        (state(), state(strap(1), uptime=12),
         "Restarts: after 5 s, it has been up for 12 s. Not well: strap-silent (strap 1)."),
        ("", state(strap(1)), "Not well: strap-silent (strap 1)."),
        (state(strap(1)), "", "No answer: no daemon."),
    ]  # fmt: skip
    hosts = {}
    for number, (before, after, _) in enumerate(cases):
        folder = tmp_path / f"case{number}"
        folder.mkdir()
        for name, content in (("before", before), ("after", after), ("edge-gateway", FAKE)):
            (folder / name).write_text(content)
        (folder / "edge-gateway").chmod(0o755)
        hosts[folder.name] = {"path": f"{folder}:{os.environ['PATH']}"}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yaml").write_text(json.dumps([{
        "hosts": "all", "connection": "local", "gather_facts": False, "environment": {"PATH": "{{ path }}"},
        "vars": {
            "ansible_python_interpreter": "/usr/bin/python3", "edge_gateway_settle_seconds": 35,
            "edge_gateway_well_seconds": 5, "edge_gateway_tolerated_conditions": ["battery-low"]},
        "tasks": [
            {"ansible.builtin.import_role": {"name": "edge_gateway", "tasks_from": part}}
            for part in ("before", "well")]}]))  # fmt: skip
    said = subprocess.run(
        ["ansible-playbook", "--inventory", tmp_path / "inventory.json", tmp_path / "play.yaml"],
        capture_output=True, text=True, check=False, env={
            **os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"),
            "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"})  # fmt: skip
    found = dict(re.findall(r'(?ms)^fatal: \[(\w+)\].*?"msg": "(.*?) On the gateway:', said.stdout))
    wanted = {f"case{number}": verdict for number, (*_, verdict) in enumerate(cases) if verdict}
    assert found == wanted, said.stdout + said.stderr


def test_it_installs_configures_and_enrolls(site, machines):
    play = site.play("site.yaml", "-v", edge_gateway_deb=site.package, edge_gateway_settings=SETTINGS)
    assert play.status == 0, play.text
    for machine in machines:
        assert machine.conditions() == []
        assert "interval_seconds: 120" in machine.settings()
    assert [one.do("edge-gateway enrollments --json").stdout.count('"bed7"') for one in machines] == [1, 0]
    # Neither the link nor its code stands in what Ansible says.
    assert site.link not in play.text
    assert site.link.rsplit("/", 1)[-1] not in play.text


def test_a_second_run_changes_nothing(site, machines):
    daemons = [one.daemon() for one in machines]
    play = site.play("site.yaml", edge_gateway_deb=site.package, edge_gateway_settings=SETTINGS)
    assert play.status == 0, play.text
    assert [play.recap(name, "changed") for name in ("one", "two")] == [0, 0], play.text
    assert [one.daemon() for one in machines] == daemons


def test_a_wrong_setting_reaches_no_gateway(site, machines):
    before = [(one.settings(), one.daemon()) for one in machines]
    play = site.play(
        "site.yaml", edge_gateway_deb=site.package, edge_gateway_settings={"clock": {"trust": "sometimes"}})
    assert play.status != 0
    assert "clock.trust" in play.text
    assert [(one.settings(), one.daemon()) for one in machines] == before


def test_settings_are_in_force_though_another_gateway_fails(site, machines):
    """The run ended before the restart, and the next one found nothing changed."""
    one, two = machines
    daemon = one.daemon()
    settings = {**SETTINGS, "gateway": {"site": "Ward 3"}}
    # What is mounted over cannot be replaced.
    two.do("mount --bind /etc/edge-gateway/config.yaml /etc/edge-gateway/config.yaml", check=True)
    play = site.play("site.yaml", edge_gateway_deb=site.package, edge_gateway_settings=settings)
    two.do("umount /etc/edge-gateway/config.yaml", check=True)
    assert play.status != 0, play.text
    assert "site: Ward 3" in one.settings()
    assert one.daemon() != daemon
    play = site.play("site.yaml", edge_gateway_deb=site.package, edge_gateway_settings=SETTINGS)
    assert play.status == 0, play.text


def answer(path, token):
    """The machines have the host's network."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PAGE_PORT}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as found:
            return found.status
    except urllib.error.HTTPError as error:
        return error.code


def fleet(token):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PAGE_PORT}/v1/fleet", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as found:
        return json.load(found)


def test_each_token_opens_its_own_thing(site, machines):
    one, _ = machines
    tokens = {name: name[0] * 43 for name in ("page", "fleet", "metrics")}
    settings = {**SETTINGS, "page": {"listen": f"127.0.0.1:{PAGE_PORT}"}}
    play = site.play(
        "site.yaml", "--limit", "one", "-v", edge_gateway_deb=site.package, edge_gateway_settings=settings,
        edge_gateway_tokens=tokens, edge_gateway_fleet_secret=SECRET)  # fmt: skip
    assert play.status == 0, play.text
    assert not any(text in play.text for text in (*tokens.values(), SECRET))
    kept = "/etc/edge-gateway/*-token-* /etc/edge-gateway/fleet-secret-*"
    assert one.do(f"stat -c '%a %U %G' {kept}").stdout.splitlines() == ["640 root edge-gateway"] * 4
    # Straps have marks with the secret alone.
    assert "straps" in fleet(tokens["fleet"])
    opens = {(path, name): answer(path, token) for path in ("/metrics", "/v1/fleet") for name, token in tokens.items()}
    assert [key for key, status in opens.items() if status != 200] == [("/metrics", "fleet"), ("/v1/fleet", "metrics")]

    # One that is too short reaches no gateway.
    before = (one.settings(), one.daemon())
    play = site.play(
        "site.yaml", "--limit", "one", edge_gateway_deb=site.package, edge_gateway_settings=settings,
        edge_gateway_tokens={**tokens, "metrics": "short"})  # fmt: skip
    assert play.status != 0 and "metrics.token_file" in play.text, play.text
    assert (one.settings(), one.daemon()) == before

    # A new one is in force at once, and the old ones are gone.
    play = site.play(
        "site.yaml", "--limit", "one", edge_gateway_deb=site.package, edge_gateway_settings=settings,
        edge_gateway_tokens={"metrics": "n" * 43})  # fmt: skip
    assert play.status == 0, play.text
    assert (answer("/metrics", "n" * 43), answer("/v1/fleet", "n" * 43)) == (200, 401)
    assert one.do("ls /etc/edge-gateway | grep -Ec -- '-(token|secret)-'").stdout.strip() == "1"
    # The settings of before, to which the following tests go back, name a file.
    play = site.play(
        "site.yaml", edge_gateway_deb=site.package, edge_gateway_settings=SETTINGS, edge_gateway_fleet_secret=SECRET)
    assert play.status == 0, play.text


def without_bus(tree):
    """A version that starts, answers, and finds no bus."""
    folder = tree / "lib/systemd/system/edge-gateway.service.d"
    folder.mkdir(parents=True)
    (folder / "bad.conf").write_text("[Service]\nEnvironment=DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere\n")


def test_a_gateway_that_is_not_well_stops_the_rollout(site, machines):
    one, two = machines
    version, daemon = two.version(), two.daemon()
    play = site.play(
        "site.yaml", edge_gateway_deb=str(site.repacked("+bad", without_bus)), edge_gateway_settings=SETTINGS,
        edge_gateway_lots=[1, 1], edge_gateway_well_seconds=50)  # fmt: skip
    assert play.status != 0
    assert "Not well: bus-absent" in play.text
    assert one.version() == version + "+bad"
    assert (two.version(), two.daemon()) == (version, daemon)
    assert play.recap("two", "ok") is None, play.text


def test_a_rollback_brings_the_package_of_before(site, machines):
    one, two = machines
    play = site.play("rollback.yaml", "--limit", "one")
    assert play.status == 0, play.text
    assert one.version() == two.version()
    assert one.conditions() == []
    assert '"bed7"' in one.do("edge-gateway enrollments --json").stdout


OLD_KEY, NEW_KEY = "storage.keep_delivered_hours", "storage.kept_delivered_hours"


def restarting(tree):
    """A version that ends 20 s after each start, and has another name for a key."""
    folder = tree / "lib/systemd/system/edge-gateway.service.d"
    folder.mkdir(parents=True)
    (folder / "bad.conf").write_text("[Service]\nRuntimeMaxSec=20\n")
    program = tree / "usr/bin/edge-gateway"
    content = program.read_bytes()
    assert OLD_KEY.encode() in content
    program.write_bytes(content.replace(OLD_KEY.encode(), NEW_KEY.encode()))


def test_a_version_that_restarts_again_and_again_stops_the_rollout(site, machines):
    one, two = machines
    version, before = two.version(), (two.settings(), two.daemon())
    assert one.settings() == two.settings() and "fleet-secret-" in one.settings()
    section, key = NEW_KEY.split(".")
    settings = {**SETTINGS, "uplink": {"interval_seconds": 300}, section: {key: 48}}
    play = site.play(
        "site.yaml", edge_gateway_deb=str(site.repacked("+restarts", restarting)), edge_gateway_settings=settings,
        edge_gateway_lots=[1, 1], edge_gateway_well_seconds=60)  # fmt: skip
    assert play.status != 0
    # At the last look it may be between two starts.
    assert re.search(r"Restarts: after 60 s, it has been up for \d+ s|No answer: ", play.text), play.text
    assert one.version() == version + "+restarts"
    assert f"{key}: 48" in one.settings()
    assert (two.version(), two.settings(), two.daemon()) == (version, *before)


def test_a_rollback_brings_the_settings_of_before_with_the_package(site, machines):
    one, two = machines
    kept = f"/var/cache/edge-gateway-packages/{two.version()}.yaml"
    assert one.do(f"stat -c '%a %U %G' {kept}").stdout.strip() == "640 root edge-gateway"
    check = "runuser -u edge-gateway -- edge-gateway config check"
    play = site.play("rollback.yaml", "--limit", "one")
    assert play.status == 0, play.text
    assert (one.version(), one.settings()) == (two.version(), two.settings())
    # The secret's file, which the newer settings did not name, is there.
    assert one.do(check).returncode == 0, one.do(check).stdout
    assert one.conditions() == []


def test_a_second_rollback_changes_nothing(site, machines):
    one, _ = machines
    settings = {**SETTINGS, "gateway": {"site": "Ward 3"}}
    play = site.play("site.yaml", "--limit", "one", edge_gateway_deb=site.package, edge_gateway_settings=settings)
    assert play.status == 0, play.text
    before = (one.version(), one.settings(), one.daemon())
    play = site.play("rollback.yaml", "--limit", "one")
    assert play.status == 0, play.text
    assert play.recap("one", "changed") == 0, play.text
    assert (one.version(), one.settings(), one.daemon()) == before
    assert "site: Ward 3" in one.settings()


def test_an_update_from_a_repository_reaches_all_in_lots(site, machines):
    one, two = machines
    version, settings = one.version(), [machine.settings() for machine in machines]
    good = site.repacked("+good")
    for machine in machines:
        folder = machine.tree / "srv/repository"
        folder.mkdir()
        subprocess.run(["cp", good, site.package, folder], check=True)
        index = subprocess.run(
            ["dpkg-scanpackages", "--multiversion", "."], cwd=folder, capture_output=True, check=True)
        (folder / "Packages").write_bytes(index.stdout)
    play = site.play(
        "site.yaml", edge_gateway_repository="deb [trusted=yes] file:/srv/repository ./",
        edge_gateway_version=version + "+good", edge_gateway_settings=SETTINGS, edge_gateway_lots=[1, 1])  # fmt: skip
    assert play.status == 0, play.text
    assert [machine.version() for machine in machines] == [version + "+good"] * 2
    assert [machine.conditions() for machine in machines] == [[], []]
    # An update that fails leaves the way back as it was.
    play = site.play(
        "site.yaml", edge_gateway_repository="deb [trusted=yes] file:/srv/repository ./",
        edge_gateway_version=version + "+none", edge_gateway_settings=SETTINGS)  # fmt: skip
    assert play.status != 0, play.text
    play = site.play("rollback.yaml")
    assert play.status == 0, play.text
    assert [machine.version() for machine in machines] == [version] * 2
    assert [machine.settings() for machine in machines] == settings
