"""Takes the picture of docs/destinations.md: firebase_picture.py FILE. The page of deploy/firebase with a shared rate."""

import shutil
import sys

from firebase_database import running_database
from playwright.sync_api import sync_playwright
from waiting import until

with running_database() as database, sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 390, "height": 430}, device_scale_factor=1)
    page.goto(database.link())
    database.rate(72)
    until(page, "rate.textContent === '72' && words.textContent === 'Now'")
    page.screenshot(path=sys.argv[1])
    browser.close()
