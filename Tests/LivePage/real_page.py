"""Looks at the page of a running gateway in Chromium: real_page.py URL FOLDER

Sees rates change, makes the file FOLDER/seen, waits until the connection is lost, makes FOLDER/lost, and
sees rates change again. Prints one JSON object: `painted` (ms), `shown` (each new text of the first
strap's rate: `text`, `at` in ms since 1970), `card` (its words), `complaints` of scripts or policy.
"""
import json
import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

from waiting import until

# A whole start of the gateway lies in between, perhaps on a loaded machine.
PATIENCE_SECONDS = 90
CHANGES = 8
WATCH = """() => { window.shown = []; const seen = new Map();
    const look = () => { const bpm = document.querySelector('article.card .bpm');
      if (bpm && seen.get(bpm) !== bpm.textContent) { seen.set(bpm, bpm.textContent);
        window.shown.push({ text: bpm.textContent, at: Date.now() }); } };
    new MutationObserver(look).observe(document.body,
      { childList: true, characterData: true, subtree: true }); }"""


def main(url, folder):
    folder = pathlib.Path(folder)
    complaints = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " e => console.error('policy: ' + e.violatedDirective));")
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("console", lambda message: complaints.append(message.text)
                if message.type == "error" and "Failed to load resource" not in message.text
                and "ERR_" not in message.text else None)
        page.goto(url)
        page.wait_for_selector(".badge.live")
        painted = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(WATCH)
        until(page, f"window.shown.length >= {CHANGES}", PATIENCE_SECONDS)
        card = page.locator("article.card").first.inner_text()
        shown = page.evaluate("window.shown")
        (folder / "seen").touch()
        page.wait_for_selector("#lost p")
        # A value from before must not look like one of now.
        stale = page.locator("article.card .bpm").first.text_content()
        (folder / "lost").touch()
        page.wait_for_selector("#lost p", state="detached")
        page.wait_for_selector(".badge.live")
        page.evaluate("window.shown = []")
        until(page, f"window.shown.length >= {CHANGES}", PATIENCE_SECONDS)
        again = page.evaluate("window.shown")
        browser.close()
    print(json.dumps({"painted": painted, "shown": shown, "stale": stale, "again": again,
                      "card": card, "complaints": complaints}))


main(*sys.argv[1:])
