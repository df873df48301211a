"""Takes the picture of docs/use/live-page.md: wall_picture.py FILE. A ward of twelve beds, four of which need attention."""

import shutil
import sys
import time

from playwright.sync_api import sync_playwright

from playing_server import PlayingServer, stamp
from waiting import until
from ward import Heart, name

server = PlayingServer()
server.straps = [Heart(n, name=name(n), battery_percent=20 + 13 * n % 80) for n in range(1, 13)]
server.straps[4].stop(age=95)
server.straps[7].more["contact"] = False
server.straps[9].more["battery_percent"] = 9
server.straps[11].is_unheard = True
# As the real gateway says it of the two that are silent.
server.gateway |= {"well": False, "health": [
    {"name": "strap-silent", "severity": "error", "since": stamp(time.time() - 35), "sensor": sensor,
     "message": f"{name(sensor)} has sent nothing for {since}",
     "advice": "wear it, moisten the electrodes, end its connection to phones, check its battery"}
    for sensor, since in ((5, "95 s (absent)"), (12, "10 min (absent)"))]}
try:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720}, device_scale_factor=0.75)
        page.route("**/v1/live/history*", lambda route: route.abort())  # the minute is the stream's
        page.goto(server.url)
        page.wait_for_selector(".tile")
        until(page, "[...beds.values()].some(bed => bed.samples.length > 55)", within=90)
        said = page.locator("#state").text_content()
        assert said == "4 need attention", said
        page.screenshot(path=sys.argv[1])
        browser.close()
finally:
    server.stop()
