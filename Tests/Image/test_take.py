"""deploy/image/files/usr/lib/edge-gateway-card/take, on folders in place of the partitions."""
import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "deploy/image/files/usr/lib/edge-gateway-card/take"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKuZ7hH7Rsk1Yw4ZQ2Wv8Qv6m0cXyZ8p1qTzq3n1c5W ward"
# A gateway that knows one good setting and one good link.
GATEWAY = """#!/bin/sh
case "$1" in
    config) grep -q '^log:' "$4" || { echo "line 1: unknown key" >&2; exit 1; } ;;
    enroll) case "$(cat)" in
        *good) echo '{}' ;;
        *used) echo "not enrolled: this invitation was used before; ask for a new one" >&2; exit 1 ;;
        *) echo "not enrolled: the exchange could not be reached" >&2; exit 1 ;;
    esac ;;
esac
"""


class TakeTests(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.top = Path(place.name)
        for folder in ("boot", "store", "etc", "run", "bin"):
            (self.top / folder).mkdir()
        gateway = self.top / "bin/edge-gateway"
        gateway.write_text(GATEWAY)
        gateway.chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}", "CARD_BOOT": str(self.top / "boot"),
            "CARD_STORE": str(self.top / "store"), "CARD_SETTINGS": str(self.top / "etc/config.yaml"),
            "CARD_RUN": str(self.top / "run"), "CARD_STORE_LOG": str(self.top / "no-log")}

    def take(self, what, files=None):
        for name, content in (files or {}).items():
            (self.top / "boot" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        done = subprocess.run([PROGRAM, what], env=self.environment, capture_output=True, text=True)
        self.assertNotIn("Traceback", done.stderr)
        self.output = done.stdout + done.stderr
        status = self.top / "boot/card-status.txt"
        return done.returncode, status.read_text() if status.exists() else ""

    def is_there(self, name):
        return (self.top / "boot" / name).exists()

    def test_good_files_are_taken_and_leave_the_boot_partition(self):
        _, said = self.take("settings", {
            "edge-gateway.yaml": "log:\n  level: info\n", "wifi.txt": "\ufeffssid=Ward\r\npassword=12345678\r\ncountry=de\r\n",
            "authorized_keys": KEY + "\n"})
        for name in ("edge-gateway.yaml", "wifi.txt", "authorized_keys"):
            self.assertFalse(self.is_there(name), said)
        self.assertIn("ssid=57617264\n", (self.top / "store/wpa_supplicant-wlan0.conf").read_text())
        self.assertEqual((self.top / "store/wpa_supplicant-wlan0.conf").stat().st_mode & 0o777, 0o600)
        self.assertEqual((self.top / "store/authorized_keys").read_text(), KEY + "\n")

    def test_settings_with_an_error_stay_and_the_old_ones_are_in_force(self):
        (self.top / "etc/config.yaml").write_text("before")
        _, said = self.take("settings", {"edge-gateway.yaml": "nonsense: ["})
        self.assertIn("edge-gateway.yaml: NOT taken: line 1: unknown key", said)
        self.assertTrue(self.is_there("edge-gateway.yaml"))
        self.assertEqual((self.top / "etc/config.yaml").read_text(), "before")

    def test_a_malformed_wifi_file_is_named_by_its_line_without_its_words(self):
        for text in ("Ward secret-word", "ssid=\npassword=secret-word\ncountry=DE", "ssid=a\npassword=secret\ncountry=DE",
                     "ssid=a\npassword=secret-word", "ssid=a\npassword=secret-wörd\ncountry=DE", b"\xff\xfe\x00s"):
            _, said = self.take("settings", {"wifi.txt": text})
            self.assertIn("wifi.txt: NOT taken", said)
            self.assertNotIn("secret", said + self.output)
            self.assertFalse((self.top / "store/wpa_supplicant-wlan0.conf").exists())

    def test_a_quote_in_a_network_name_is_no_setting(self):
        self.take("settings", {"wifi.txt": 'ssid="x\npassword=12345678\ncountry=DE'})
        self.assertIn("ssid=2278\n", (self.top / "store/wpa_supplicant-wlan0.conf").read_text())

    def test_a_private_key_is_not_taken(self):
        _, said = self.take("settings", {"authorized_keys": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"})
        self.assertIn("authorized_keys: NOT taken: line 1", said)

    def test_a_huge_file_is_refused(self):
        _, said = self.take("settings", {"wifi.txt": b"a" * 70_000})
        self.assertIn("larger than 64 KiB", said)

    def test_an_invitation_is_redeemed_and_deleted(self):
        self.take("settings", {"invitation.txt": "https://x/good\r\n"})
        self.assertTrue((self.top / "run/invitation-waits").exists())
        status, said = self.take("invitation")
        self.assertEqual(status, 0)
        self.assertFalse(self.is_there("invitation.txt"))
        self.assertIn("redeemed, and deleted", said)

    def test_a_used_invitation_is_deleted_and_said(self):
        status, said = self.take("invitation", {"invitation.txt": "https://x/used"})
        self.assertEqual(status, 0)
        self.assertFalse(self.is_there("invitation.txt"))
        self.assertIn("NOT redeemed, and deleted: not enrolled: this invitation was used before", said)
        self.assertNotIn("https://", said + self.output)

    def test_an_invitation_waits_for_the_network(self):
        status, said = self.take("invitation", {"invitation.txt": "https://x/later"})
        self.assertEqual(status, 1)
        self.assertTrue(self.is_there("invitation.txt"))
        self.assertIn("tried again", said)

    def test_what_was_said_of_other_files_stays(self):
        self.take("settings", {"wifi.txt": "?"})
        _, said = self.take("settings", {"invitation.txt": "two links\nhere"})
        self.assertIn("wifi.txt: NOT taken", said)
        self.assertIn("invitation.txt: NOT taken: it must hold one link", said)


if __name__ == "__main__":
    unittest.main(verbosity=0)
