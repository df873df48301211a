"""What needs attention, and what to do: on the tile, in the strip above, in the header and in the opened tile, and all of
them say the same."""

import time

import pytest

from playing_server import Strap, stamp
from test_wall import even, faults, tile
from waiting import until
from ward import ward

ADVICE = "Wear it, moisten the electrodes, end its connection to phones, check its battery"


def item(name, sensor=None, severity="error", **more):
    return {"name": name, "severity": severity, "since": stamp(time.time() - 65), "message": f"{name} it is",
            "advice": f"do this about {name}"} | ({} if sensor is None else {"sensor": sensor}) | more


def listed(page):
    return page.locator(".need").all_inner_texts()


def test_what_needs_attention_is_listed_with_what_to_do_the_worst_first(server, visit):
    even(server)
    server.straps[4].more["battery_percent"] = 9
    server.straps[7].more["contact"] = False
    server.straps[10].stop(age=125)
    server.straps[2].bpm, server.straps[2].is_unheard = None, True
    page = visit(server.url, (1920, 1080))
    until(page, "document.querySelectorAll('.need').length === 4")
    first, second, third, fourth = (" ".join(words.split()) for words in listed(page))
    assert first == f"Bed 3 No signal yet {ADVICE}" and second == f"Bed 11 No signal for 2 min {ADVICE}"
    assert third == "Bed 8 Off skin Moisten the electrodes and tighten the strap"
    assert fourth.startswith("Bed 5 Battery low Change the strap")
    assert page.locator("#state").text_content() == "4 need attention"
    # On the tile stands the same.
    words = tile(page, "Bed 11").inner_text()
    assert ADVICE in words and "No signal" in words and "for 2 min" in words and "–" in words
    assert "Moisten" in tile(page, "Bed 8").inner_text() and "9 %" in tile(page, "Bed 5").inner_text()
    # One of the list opens it.
    page.locator(".need").nth(1).click()
    page.wait_for_selector("dialog article.card")
    words = page.locator("dialog").inner_text()
    assert ADVICE in words and "No signal for 2 min" in words and page.locator("dialog h2").text_content() == "Bed 11"


@pytest.mark.parametrize("count", [2, 12])
def test_advice_is_seen_in_full_screen_too(server, visit, count):
    ward(server, 12)
    server.straps[1].stop(age=95)
    server.straps = server.straps[:count]
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile, article.card")
    page.get_by_role("button", name="Full screen").click()
    until(page, "document.fullscreenElement")
    until(page, "document.querySelector('.need')")
    assert page.locator(".need", has_text=ADVICE).first.is_visible()
    assert page.locator(".tile.alarm .advice, .head.alarm .advice").first.is_visible()
    assert page.locator("aside").is_hidden()


def test_the_advice_on_a_strap_is_that_of_the_gateway(server, visit):
    even(server)
    server.straps[10].stop(age=125)
    server.gateway |= {"well": False, "health": [item("strap-moved", 11), item("strap-intermittent", 3)]}
    page = visit(server.url, "desktop")
    until(page, "document.querySelectorAll('.need').length === 2")
    assert "Do this about strap-moved" in listed(page)[0] and "No signal for 2 min" in listed(page)[0]
    # A strap that sends, and of which the gateway says something, is marked as well.
    assert "strap-intermittent it is" in listed(page)[1]
    words = tile(page, "Bed 3").inner_text()
    assert "Not well" in words and "Do this about strap-intermittent" in words


def test_straps_that_a_radio_silences_are_not_to_be_moistened(server, visit):
    even(server)
    for strap in server.straps:
        strap.stop(age=125)
    server.gateway |= {"well": False, "health": [item("radio-off", advice="rfkill unblock bluetooth")]}
    page = visit(server.url, "desktop")
    until(page, "document.querySelector('.need')?.textContent.includes('Gateway')")
    assert "Rfkill unblock bluetooth" in listed(page)[0]
    until(page, "document.querySelectorAll('.tile.alarm').length === 12")
    assert "moisten" not in page.locator("main").inner_text().lower()
    assert page.locator("#state").text_content() == "13 need attention"


def test_the_header_never_says_that_all_is_well_beside_a_tile_that_is_not(server, visit):
    """Whatever comes first, the straps' report or the gateway's: by each step of a minute of changes."""
    even(server)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    until(page, "document.querySelector('#state').textContent === 'All well'")
    page.evaluate("""() => { window.lies = []; window.seen = new Set();
        new MutationObserver(() => { const needy = document.querySelectorAll('.tile.alarm, .tile.heed').length;
          const words = document.querySelector('#state').textContent, count = parseInt(words, 10) || 0; window.seen.add(words);
          const listed = document.querySelector('.strip .quiet').textContent ? 0 : document.querySelectorAll('.need:not(.more)').length
            + (parseInt(document.querySelector('.need.more .name')?.textContent, 10) || 0);
          if (count < needy || count !== listed || needy && words === 'All well') window.lies.push([words, needy, listed]); })
        .observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); }""")
    server.straps[8].stop(age=20)
    until(page, "window.seen.has('1 needs attention')")
    server.straps[2].more["contact"] = False
    until(page, "window.seen.has('2 need attention')")
    server.gateway |= {"well": False, "health": [item("strap-silent", 9), item("exchange-unreachable")]}
    until(page, "window.seen.has('3 need attention')")
    for strap in server.straps:
        strap.stop(age=20)
    until(page, "window.seen.has('13 need attention')")
    for strap in server.straps:
        strap.last_frame = None
    server.straps[2].more["contact"] = True
    server.gateway |= {"well": True, "health": []}
    until(page, "document.querySelector('#state').textContent === 'All well'")
    assert page.evaluate("window.lies") == []
    assert "Nothing needs attention now" in page.locator(".strip").inner_text()
    assert "The gateway is well" in page.locator("aside").inner_text()


def test_the_strip_takes_the_same_room_for_one_and_for_fifty(server, visit):
    ward(server, 40)
    server.gateway |= {"well": True, "health": []}
    for strap in server.straps:
        strap.last_frame, strap.is_unheard, strap.more["contact"], strap.more["battery_percent"] = None, False, True, 50
    for size in ((320, 640), (360, 740), (1280, 800), (1920, 1080)):
        server.straps[3].last_frame = None
        for strap in server.straps:
            strap.last_frame = None
        page = visit(server.url, size)
        page.wait_for_selector(".tile")
        height = "document.querySelector('.strip').getBoundingClientRect().height"
        none = page.evaluate(height)
        server.straps[3].stop(age=20)
        until(page, "document.querySelectorAll('.need').length === 1")
        assert page.evaluate(height) == none
        for strap in server.straps:
            strap.stop(age=20)
        until(page, "document.querySelector('.need.more')")
        assert page.evaluate(height) == none and faults(page) == []
        listed = page.locator(".need").count() - 1
        assert f"{40 - listed} more" in page.locator(".need.more").inner_text()
        page.locator(".need.more").click()
        assert page.get_by_role("button", name="Needs attention").get_attribute("aria-pressed") == "true"
        assert page.locator(".tile").count() == 40


def test_who_has_reached_the_strip_by_keys_stays_there(server, visit):
    even(server)
    server.straps[10].stop(age=20)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".need")
    page.locator(".need").focus()
    words = page.locator(".need").inner_text()
    until(page, f"document.querySelector('.need').innerText !== {words!r}")  # it counts on
    assert page.evaluate("document.activeElement.className") == "need alarm"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog article.card")


def test_frames_without_a_rate_are_not_called_a_lost_signal(server, visit):
    server.straps = [Strap(1, 72), Strap(2, 80)]
    page = visit(server.url, "desktop")
    page.wait_for_selector("article.card")
    page.evaluate("""() => { const straps = [{ sensor: 1, name: 'Ada', seconds_since_frame: 0.5 }]; source.close();
        showStraps({ at: new Date().toISOString(), scope: 'full', straps }); }""")
    assert page.locator("article.card .badge").text_content() == "No heart rate"


def test_a_share_sees_what_needs_attention_and_nothing_of_the_gateway(server, visit):
    ward(server, 12)
    server.scope = "share"
    page = visit(server.url, "desktop")
    page.wait_for_selector(".need")
    words = page.locator("body").inner_text()
    assert "Strap 7 No signal for 1 min Ask the person who looks after this strap" in " ".join(words.split())
    assert page.locator("aside").is_hidden() and "edge-gateway" not in words and "Delivery" not in words
    server.straps = []
    page.wait_for_selector("#empty:not([hidden])")
    assert "edge-gateway" not in page.locator("body").inner_text() and page.locator("aside").is_hidden()
