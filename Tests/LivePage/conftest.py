import shutil

import pytest
from playwright.sync_api import sync_playwright

from playing_server import PlayingServer

SIZES = {"phone": (360, 740), "desktop": (1280, 800)}
# What a page that the gateway refuses or that is away makes a browser say; no fault of its script.
EXPECTED = "Failed to load resource"


def pytest_configure(config):
    config.addinivalue_line("markers", "timed: judges how long something takes; run when nothing else computes")


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as driver:
        # A sandbox cannot be made by root, as which containers run.
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def server():
    server = PlayingServer()
    yield server
    server.stop()


@pytest.fixture
def visit(browser):
    """Opens pages, and fails the test if a script of theirs, or their policy, complained."""
    contexts, complaints = [], []

    def open_page(url, size="phone", scheme="light", before="", clock=False, **more):
        width, height = SIZES.get(size, size)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a last resort: a loaded machine is slow, not wrong
        if clock:
            page.clock.install()
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI));" + before)
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("console", lambda message: complaints.append(message.text)
                if message.type == "error" and EXPECTED not in message.text else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
