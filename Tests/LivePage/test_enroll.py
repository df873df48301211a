"""The page by which a patient's invitation is handed over."""

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from test_scenes import FAULTS, SHOTS
from waiting import until


def test_a_code_and_a_link_enroll(server, visit):
    page = visit(server.url + "enroll#c0de")
    assert page.url == server.url + "enroll"
    page.get_by_label("Invitation link").fill(" https://exchange.example/i/1 ")
    page.get_by_role("button", name="Enroll").click()
    page.wait_for_selector("#done:not([hidden])")
    assert server.enrolled == [{"code": "c0de", "link": "https://exchange.example/i/1"}]
    assert "peter" in page.locator("#done").inner_text()
    assert "i/1" not in page.content()


def test_a_refusal_says_what_to_do_and_may_be_mended(server, visit):
    page = visit(server.url + "enroll#c0de")
    page.get_by_label("Invitation link").fill("nonsense")
    page.get_by_role("button", name="Enroll").click()
    until(page, "document.querySelector('#problem').textContent.includes('Paste the whole link')")
    page.get_by_label("Invitation link").fill("https://exchange.example/i/1")
    page.get_by_role("button", name="Enroll").click()
    page.wait_for_selector("#done:not([hidden])")


def test_without_a_code_it_is_asked_for(server, visit):
    page = visit(server.url + "enroll")
    page.get_by_label("Code").fill("typed")
    page.get_by_label("Invitation link").fill("https://exchange.example/i/1")
    page.get_by_role("button", name="Enroll").click()
    page.wait_for_selector("#done:not([hidden])")
    assert server.enrolled[0]["code"] == "typed"


def test_it_fits_every_screen_and_is_accessible(server, visit):
    for scheme in ("light", "dark"):
        page = visit(server.url + "enroll", "phone", scheme)
        for name, size in {"narrow": (320, 640), "phone": (360, 740), "desktop": (1280, 800)}.items():
            page.set_viewport_size({"width": size[0], "height": size[1]})
            assert page.evaluate(FAULTS) == []
            assert not Axe().run(page).response["violations"]
            if SHOTS:
                page.screenshot(path=Path(SHOTS) / f"enroll-{name}-{scheme}.png", full_page=True)
