"""What is on the page is now, or is not on the page."""

import re
import time

import pytest

from test_scenes import SKIP
from waiting import until


def card(page, number=0):
    return page.locator("article.card").nth(number)


@pytest.mark.timed
def test_a_new_rate_is_on_the_screen_within_half_a_second(server, visit):
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    # Seen by the page itself: what the driver adds to it is not the page's.
    page.evaluate("""() => { window.when = {}; const bpm = document.querySelector('.bpm');
        new MutationObserver(() => { window.when[bpm.textContent] = Date.now(); })
          .observe(bpm, { childList: true, characterData: true, subtree: true }); }""")
    delays = []
    for bpm in (101, 103, 107):
        server.straps[0].bpm, began = bpm, time.time()
        until(page, f"window.when[{bpm}]")
        delays.append(page.evaluate(f"window.when[{bpm}]") - began * 1000)
        time.sleep(0.3)
    print("rate to screen, ms:", [round(delay) for delay in delays])
    assert sorted(delays)[1] <= 500  # of three; the machine may hold one up


def test_a_strap_that_falls_silent_is_stale_after_ten_seconds(server, visit):
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    server.straps[0].stop(age=7.5)
    until(page, "/^[89] s ago/.test(document.querySelector('.age').textContent)")
    assert card(page).locator(".bpm").text_content() == "72"
    page.wait_for_selector("article.stale")
    assert card(page).locator(".bpm").text_content() == "–"
    assert re.fullmatch("No signal for 1[0-9] s", card(page).locator(".badge").text_content())
    assert re.match("last 72, 1[0-9] s ago", card(page).locator(".age").text_content())
    assert page.evaluate("getComputedStyle(document.querySelector('article.stale .head')).borderStyle") == "dashed"
    assert card(page, 1).locator(".badge").text_content() == "Off skin battery low"
    assert "Strap 1: no signal" in page.locator("#said").text_content()
    server.straps[0].last_frame = None
    until(page, "document.querySelector('.bpm').textContent === '72'")


def test_a_stream_that_says_nothing_for_six_seconds_is_lost(server, visit):
    page = visit(server.url, clock=True)
    page.wait_for_selector(".badge.live")
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    server.silent = True
    # By the page's own clock, a quarter of a second at a time; a report that was on its way begins the
    # silence anew.
    silence = lost = 0
    while not lost:
        page.clock.run_for(250)
        before, (silence, lost) = silence, page.evaluate(
            "[since(heard), document.querySelectorAll('#lost p').length]")
        assert silence < 7, "nothing was lost"
    assert before <= 6 < silence
    assert page.locator("article.stale").count() == 2
    assert "No connection" in page.title()
    page.clock.resume()
    server.silent = False
    page.wait_for_selector("#lost p", state="detached")
    until(page, "document.querySelectorAll('.badge.live').length === 2")


# Reports were shown as of just now when a proxy held them up.
def test_a_report_that_was_held_up_is_as_old_as_it_is(server, visit):
    page = visit(server.url, clock=True)
    page.wait_for_selector(".badge.live")
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    age = """opened => { if (opened) isFirst = true;
        showStraps({ at: new Date(heardAt + 1000).toISOString(), scope: 'full', straps: [{ sensor: 1, seconds_since_frame: 0.5, bpm: 72 }] });
        source.close(); source = { close() {}, readyState: 1 }; return since(heard); }"""
    page.evaluate(age, True)
    for seconds, late in ((1, 0), (5, 4), (1, 4), (0.5, 3.5), (0, 2.5), (0, 1.5), (0.1, 0.6), (0.1, 0)):
        page.clock.run_for(seconds * 1000)
        assert abs(page.evaluate(age, False) - late) < 0.05, (seconds, late)
    page.clock.run_for(5000)
    assert page.evaluate(age, True) == 0
    page.clock.run_for(4000)
    page.evaluate(age, False)
    assert card(page).locator(".age").text_content() == "3 s ago"


def test_a_phone_that_slept_shows_no_rate_from_before(server, visit):
    page = visit(server.url, before=SKIP)
    page.wait_for_selector(".badge.live")
    server.silent = True
    page.evaluate("performance.now = (still => () => still)(performance.now())")
    page.evaluate("window.skipped = 45000")
    until(page, "document.querySelectorAll('article.stale').length === 2", within=4)
    # A loaded machine may look some seconds later.
    assert re.search("last 72, (4[5-9]|5[0-4]) s ago", card(page).locator(".age").text_content())


def test_the_page_comes_back_after_a_restart(server, visit):
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    server.stop()
    page.wait_for_selector("#lost p")
    assert set(page.locator(".bpm").all_text_contents()) == {"–"}
    server.straps[0].bpm = 99
    server.start()
    until(page, "document.querySelector('.bpm').textContent === '99'")
    assert page.locator("#lost p").count() == 0


def test_an_answer_that_is_no_stream_is_asked_again(server, visit):
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    server.full = True
    server.stop()
    server.start()
    page.wait_for_selector("#lost p")
    # Nothing said so but the stream, whose answer an EventSource does not tell.
    until(page, "document.querySelector('#lost').textContent.includes('viewers')")
    server.full = False
    page.wait_for_selector(".badge.live")


def test_rubbish_on_the_stream_changes_nothing(server, visit):
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    for rubbish in ('{"at":"x","straps":[]}', "{", "null", '{"straps":3}'):
        page.evaluate("""data => source.dispatchEvent(new MessageEvent('straps', { data }))""", rubbish)
    assert page.locator("article").count() == 2
    server.straps[0].more["link"] = "<img src=x onerror=alert(1)>"
    until(page, "document.querySelector('.facts').textContent.includes('<img')")
    assert page.locator(".facts img").count() == 0


def test_who_may_see_rates_only_asks_for_no_more(server, visit):
    server.scope = "share"
    page = visit(server.url)
    page.wait_for_selector(".mean", state="attached")
    page.wait_for_timeout(500)
    assert set(server.asked) <= {"/", "/v1/live", "/v1/live/history"}
    words = page.locator("body").inner_text().lower()
    for hidden in ("battery", "contact", "link", "delivery", "upload", "health", "gateway"):
        assert hidden not in words, hidden
    assert page.locator("aside").is_hidden()


def test_a_link_leaves_the_address_bar_and_opens_the_page(server, visit):
    server.token = "t" * 43
    page = visit(server.url + "#" + server.token)
    page.wait_for_selector(".badge.live")
    assert page.url == server.url
    page.reload()
    page.wait_for_selector(".badge.live")
    assert "token" not in page.evaluate("document.cookie")


def test_a_wrong_link_says_so_and_a_right_one_can_be_pasted(server, visit):
    server.token = "t" * 43
    page = visit(server.url + "#wrong")
    until(page, "document.querySelector('#token-problem').textContent.includes('share')")
    assert page.url == server.url
    page.get_by_label("Link or token").fill(f"{server.url}#{server.token}")
    page.keyboard.press("Enter")
    page.wait_for_selector(".badge.live")
    # A share that is stopped ends where it is displayed.
    server.token = "u" * 43
    server.stop()
    server.start()
    page.wait_for_selector("#token:not([hidden])")
    assert page.locator("article").count() == 0


def test_each_destination_tells_its_own_counts_and_trouble(server, visit):
    server.gateway["destinations"] = [
        {"name": "ward", "kind": "influx", "state": "active", "pending": 1, "delivered": 2, "dead": 0,
         "last_delivery": None},
        {"name": "home", "kind": "webhook", "state": "paused", "trouble": "paused", "pending": 5,
         "delivered": 0, "dead": 4, "last_delivery": None}]
    page = visit(server.url)
    page.wait_for_selector("#destinations li")
    lines = page.locator("#destinations li").all_inner_texts()
    assert lines[0].split("\n\n") == [
        "ward: 1 waiting, 2 delivered", "influx, last delivery none yet"]
    assert "5 waiting, 4 refused for good, 0 delivered" in lines[1] and "paused" in lines[1]
    server.gateway["destinations"] = []
    until(page, "document.querySelector('#destinations').hidden")


def test_uploads_show_five_and_then_all(server, visit):
    page = visit(server.url, "desktop")
    page.wait_for_selector("#uploads-list li")
    assert page.locator("#uploads-list li").count() == 5
    page.get_by_role("button", name="Show all 12").press("Enter")
    assert page.locator("#uploads-list li").count() == 12
    assert "refused" in page.locator("#uploads-list li").nth(1).inner_text()


def test_the_chart_is_live(server, visit):
    server.gaps = [(700, 0, "gateway-off")]
    page = visit(server.url)
    page.wait_for_selector(".badge.live")
    page.wait_for_selector(".mean", state="attached")
    until(page, "document.querySelector('.summary').textContent.includes('72')")
