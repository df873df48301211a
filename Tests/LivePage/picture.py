"""Takes the picture of README.md: picture.py FILE. Two straps, one of which is not heard just now."""

import math
import shutil
import sys
import threading
import time

from playwright.sync_api import sync_playwright

from playing_server import PlayingServer, Strap, stamp

AWAY_SECONDS = 125


class Ward(PlayingServer):
    """Straps whose hearts differ, each with its own silences."""

    turn = threading.Lock()
    silences = {1: [(395, 340, "no-contact")], 2: [(AWAY_SECONDS, None, "out-of-range")]}

    def history(self, sensor, minutes):
        with self.turn:
            self.gaps = self.silences[sensor]
            report = super().history(sensor, minutes)
        rate = self.straps[sensor - 1].bpm
        for n, point in enumerate(reversed(report["points"])):
            mean = rate + 5 * math.sin(n / (5 + 2 * sensor)) + 3 * math.sin(n / (2.1 + sensor / 3))
            point |= {"low": round(mean - 2), "mean": round(mean, 1), "high": round(mean + 3)}
        return report


server = Ward()
server.straps = [Strap(1, 66, name="Ada", link_seconds=11520, battery_percent=87),
                 Strap(2, 78, name="Ben", link="absent", contact=None, battery_percent=41)]
server.straps[1].stop(age=AWAY_SECONDS)
server.gateway |= {"well": False, "delivered": 31264, "pending": 4, "health": [
    {"name": "strap-silent", "severity": "error", "since": stamp(time.time() - 65), "sensor": 2,
     "message": "Ben has sent nothing for 2 min",
     "advice": "wear it, moisten the electrodes, end its connection to phones, check its battery"}]}
server.uploads = 3
try:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": 1400, "height": 760}, device_scale_factor=0.75)
        page.goto(server.url)
        page.wait_for_selector(".card .mean", state="attached")
        page.wait_for_timeout(2500)
        boxes = [card.bounding_box() for card in page.locator("article.card").all()]
        bottom = max(box["y"] + box["height"] for box in boxes)
        page.screenshot(path=sys.argv[1], clip={
            "x": 0, "y": 0, "width": 1400, "height": bottom + 10})
        browser.close()
finally:
    server.stop()
