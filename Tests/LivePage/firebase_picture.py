"""Takes the picture of docs/use/destinations.md: firebase_picture.py FILE. The page of deploy/firebase with a shared rate."""

import math
import shutil
import sys

from firebase_database import running_database
from playwright.sync_api import sync_playwright
from waiting import until

with running_database() as database, sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 390, "height": 520}, device_scale_factor=1)
    database.history({ago: round(74 + 6 * math.sin(ago / 400) + 3 * math.sin(ago / 37), 1) for ago in range(0, 3600, 10)
                      if not 1500 < ago < 1900})
    page.goto(database.link())
    database.rate(72)
    page.wait_for_selector("#hour .mean")
    until(page, "rate.textContent === '72' && words.textContent === 'Now'")
    page.screenshot(path=sys.argv[1])
    browser.close()
