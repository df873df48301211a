"""One to three straps fill the screen as twelve do, and a finger is told about taps."""

import pytest

from playing_server import Strap
from test_scenes import FAULTS, SHOTS
from waiting import until


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [(1920, 1080), (1280, 800), (3840, 2160)])
def test_few_straps_fill_the_screen_as_twelve_do(server, visit, count, size):
    server.straps = [Strap(n, 60 + n, name=f"Bed {n}") for n in range(1, count + 1)]
    page = visit(server.url, size)
    page.wait_for_selector("article.card .mean", state="attached")
    page.wait_for_timeout(200)
    boxes = [card.bounding_box() for card in page.locator("article.card").all()]
    filled = sum(box["width"] * box["height"] for box in boxes) / (size[0] * size[1])
    rate = float(page.evaluate("getComputedStyle(document.querySelector('.bpm')).fontSize.slice(0, -2)"))
    print(count, size, f"{filled:.0%} of the screen, rate {rate} px")
    assert filled > 0.8 and all(box["y"] + box["height"] <= size[1] for box in boxes)
    assert len({round(box["y"]) for box in boxes}) == 1 and len({round(box["width"]) for box in boxes}) == 1
    # As large as on a wall of twelve of that size at least: 122 px of 1080.
    assert rate >= 0.113 * size[1]
    assert page.evaluate(FAULTS) == []
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/few{count}-{size[0]}.png")


def test_few_straps_fill_the_whole_screen_too_and_turn_dark(server, visit):
    page = visit(server.url, "desktop")
    page.wait_for_selector("article.card")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
    page.get_by_role("button", name="Full screen").click()
    until(page, "document.fullscreenElement")
    assert page.locator("aside").is_hidden() and page.locator("footer").is_hidden()
    assert page.get_by_label("Filter straps by name").is_hidden()


def test_a_phone_is_told_to_tap_and_a_mouse_to_point(server, visit):
    for words, more in (("Tap the chart", {"has_touch": True, "is_mobile": True}), ("Point at the chart", {})):
        page = visit(server.url, **more)
        page.wait_for_selector(".mean", state="attached")
        assert words in page.locator(".readout").first.text_content()
        if more:
            assert "keys" not in page.locator("body").inner_text() and "oint at" not in page.locator("body").inner_text()
            page.locator(".chart").first.tap()
            until(page, "/bpm|no data/.test(document.querySelector('.readout').textContent)")
