"""A ward on one screen."""

import os
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import processor_time
from playing_server import Strap, stamp
from test_scenes import FAULTS, SHOTS, SKIP
from waiting import until
from ward import HOSTILE_NAMES, Heart, fleet, name, ward

SIZES = {"narrow": (320, 640), "phone": (360, 740), "desktop": (1280, 800), "wall": (1920, 1080)}
# A name or a detail may end in an ellipsis; the opened tile and a screen reader have all of it.
TILE_FAULTS = """() => { const faults = [];
  for (const tile of document.querySelectorAll('.tile')) {
    const box = tile.getBoundingClientRect();
    if (box.bottom < 0 || box.top > innerHeight) continue;
    for (const part of tile.querySelectorAll('.value, .word')) {
      const inner = part.getBoundingClientRect();
      if (!inner.width) continue;
      if (inner.left < box.left - 1 || inner.right > box.right + 1 || inner.top < box.top - 1 || inner.bottom > box.bottom + 1)
        faults.push(part.className + ' sticks out of ' + tile.innerText);
      if (part.scrollWidth > part.clientWidth + 1 && part.clientWidth) faults.push(part.className + ' is cut in ' + tile.innerText);
    }
  } return faults; }"""


def even(server):
    """Nobody needs a person; every rate is known."""
    server.straps = [Heart(n, name=name(n)) for n in range(1, 13)]


def order(page):
    return page.locator(".tile .name").all_text_contents()


def tile(page, words):
    return page.locator(".tile", has=page.locator(".name", has_text=words)).first


def faults(page):
    return page.evaluate(TILE_FAULTS) + [
        fault for fault in page.evaluate(FAULTS)
        if not any(known in fault for known in ("SPAN.name", "SPAN.detail", "SPAN.advice", "SPAN.state", "B.name", "BUTTON.need", "SPAN.foot", "SPAN.note", "SPAN.extra", "SPAN.middle", "SPAN.unit", "DIALOG."))]


def judge(page, label):
    assert faults(page) == [], label
    found = Axe().run(page).response["violations"]
    assert not found, (label, [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found])
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{label}.png")


@pytest.mark.parametrize("count", [4, 12, 40, 200])
def test_a_ward_fits_every_screen_and_is_accessible(server, visit, count):
    ward(server, count)
    for scheme in ("light", "dark"):
        page = visit(server.url, "phone", scheme)
        page.wait_for_selector(".tile path[d^=M]", state="attached")
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(100)
            assert page.locator(".tile").count() == count
            if (count, scheme) in {(200, "dark"), (40, "light"), (4, "light"), (12, "light"), (12, "dark")}:
                judge(page, f"wall{count}-{size}-{scheme}")
            if size == "wall":  # all are seen at once
                assert page.locator(".tile").last.bounding_box()["y"] < height - 40


def test_two_hundred_straps_fill_a_screen_of_4k(server, visit):
    ward(server, 200)
    page = visit(server.url, (3840, 2160), "dark")
    page.wait_for_selector(".tile")
    page.wait_for_timeout(300)
    judge(page, "wall200-4k-dark")
    assert float(page.evaluate("getComputedStyle(document.querySelector('.tile .value')).fontSize.slice(0, -2)")) > 75


def test_twelve_rates_are_read_from_five_metres_and_forty_too(server, visit):
    """A digit is 0.73 em high and must be 23 mm high (16 minutes of arc at 5 m); a screen of 43 inches has
    0.496 mm a pixel."""
    for count in (12, 40):
        ward(server, count)
        page = visit(server.url, "phone")
        page.set_viewport_size({"width": 1920, "height": 1080})
        page.wait_for_selector(".tile")
        page.wait_for_timeout(200)
        size = float(page.evaluate("getComputedStyle(document.querySelector('.tile .value')).fontSize.slice(0, -2)"))
        print(f"{count} straps: {size} px, {size * 0.496 * 0.73:.0f} mm")
        assert size * 0.496 * 0.73 >= 23


def test_up_to_three_straps_are_cards_and_more_are_a_wall(server, visit):
    for count, cards, tiles in ((1, 1, 0), (3, 3, 0), (4, 0, 4), (3, 3, 0)):
        server.straps = [Strap(n) for n in range(1, count + 1)]
        page = visit(server.url)
        page.wait_for_selector("article.card, .tile")
        assert (page.locator("article.card").count(), page.locator(".tile").count()) == (cards, tiles)
    # A strap that comes while the page is open makes a wall of it, and one that goes ends it.
    server.straps = [Strap(n) for n in range(1, 6)]
    until(page, "document.querySelectorAll('.tile').length === 5 && !document.querySelector('article.card')")
    server.straps = server.straps[:2]
    until(page, "document.querySelectorAll('article.card').length === 2 && !document.querySelector('.tile')")


def test_a_lost_connection_marks_every_tile_and_moves_none(server, visit):
    ward(server, 12)
    page = visit(server.url, "desktop", before=SKIP)
    page.wait_for_selector(".tile")
    before = order(page)
    server.silent = True
    page.evaluate("window.skipped = 20000")
    page.wait_for_selector("#lost p")
    until(page, "document.querySelectorAll('.tile.away').length === 12")
    assert set(page.locator(".tile .value").all_text_contents()) == {"–"}
    assert set(page.locator(".tile .word").all_text_contents()) == {"Not known"}
    assert order(page) == before
    judge(page, "wall12-lost")
    page.evaluate("window.skipped = 0")
    server.silent = False
    page.wait_for_selector("#lost p", state="detached")
    until(page, "!document.querySelector('.tile.away')")
    assert "straps" not in page.locator("#said").text_content()


def test_many_straps_that_fall_silent_are_said_in_one_sentence(server, visit):
    even(server)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    page.wait_for_timeout(300)
    for strap in server.straps[:9]:
        strap.stop(age=20)
    until(page, "document.querySelector('#said').textContent")
    assert "9 straps: no signal." in page.locator("#said").text_content()
    assert page.locator("[aria-live], [role=status], [role=alert], [role=log]").evaluate_all(
        "nodes => nodes.every(node => !node.querySelector('.tile'))")


def test_a_filter_shows_who_matches_and_says_that_others_are_hidden(server, visit):
    ward(server, 40)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    field = page.get_by_label("Filter straps by name")
    field.fill("bed 1")
    assert set(order(page)) == {"Bed 1", *(name(n) for n in range(10, 20))}
    tally = page.locator(".tally").text_content()
    assert "11 of 40 straps shown" in tally and "hidden need attention" in tally
    field.fill("nobody")
    assert page.locator(".tile").count() == 0 and "nobody" in page.locator(".none-match").text_content()
    field.press("Escape")
    assert page.locator(".tile").count() == 40 and field.input_value() == ""
    page.get_by_role("button", name="Needs attention").click()
    assert "Bed 7" in order(page) and "Bed 1" not in order(page)
    judge(page, "wall40-filter")


def test_full_screen_shows_the_wall_and_nothing_beside_it(server, visit):
    ward(server, 12)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    button = page.get_by_role("button", name="Full screen")
    button.click()
    until(page, "document.fullscreenElement")
    assert page.locator("aside").is_hidden() and page.locator("footer").is_hidden()
    # The event comes after the element is set.
    expect(button).to_have_attribute("aria-pressed", "true")
    # One strap is opened above it.
    page.locator(".tile").first.click()
    assert page.locator("dialog").is_visible()
    page.get_by_role("button", name="Close").click()
    button.click()
    until(page, "!document.fullscreenElement")
    page.wait_for_selector("aside")


def test_dark_is_chosen_and_stays_chosen(server, visit):
    ward(server, 12)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    page.get_by_role("button", name="Dark").click()
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.reload()
    page.wait_for_selector(".tile")
    assert page.evaluate(ground) == dark == "rgb(15, 19, 24)"


def test_one_strap_opens_to_its_chart_and_closes_again(server, visit):
    ward(server, 12)
    server.gaps = [(400, 250, "out-of-range")]
    page = visit(server.url, "phone")
    page.wait_for_selector(".tile")
    length = page.evaluate("history.length")
    chosen = tile(page, "Bed 5")
    chosen.scroll_into_view_if_needed()
    chosen.click()
    card = page.locator("dialog article.card")
    card.locator(".mean").first.wait_for(state="attached")
    page.wait_for_selector("dialog .gap")
    assert card.locator("h2").text_content() == "Bed 5"
    first = card.locator(".bpm").text_content()
    until(page, f"document.querySelector('dialog .bpm').textContent !== '{first}'")  # it is live
    judge(page, "wall12-opened")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    until(page, "document.activeElement.querySelector('.name')?.textContent === 'Bed 5'")
    until(page, "!history.state")
    # The browser's Back closes it too, and leaves the page where it is.
    chosen.click()
    page.wait_for_selector("dialog article.card")
    page.go_back()
    page.wait_for_selector("dialog", state="hidden")
    assert page.url == server.url and page.locator(".tile").count() == 12
    until(page, "cards.size === 0")  # the dialog says a little later that it is closed
    assert page.evaluate("history.length") <= length + 1
    # One that somebody else wears, or that is forgotten meanwhile, is closed.
    chosen.click()
    page.wait_for_selector("dialog article.card")
    server.straps[4].go_to_another(999)
    page.wait_for_selector("dialog", state="hidden")
    chosen.click()
    page.wait_for_selector("dialog article.card")
    server.straps = [strap for strap in server.straps if strap.sensor != 5]
    page.wait_for_selector("dialog", state="hidden")


def test_every_tile_is_reached_by_keys(server, visit):
    even(server)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    page.get_by_role("button", name="Full screen").focus()
    page.keyboard.press("Tab")
    at = "document.activeElement.querySelector('.name').textContent"
    columns = page.evaluate("wall.size.columns")
    assert page.evaluate(at) == "Bed 1"
    for key, bed in (("ArrowRight", 2), ("ArrowDown", 2 + columns), ("ArrowLeft", 1 + columns), ("ArrowUp", 1), ("ArrowUp", 1),
                     ("End", 12), ("ArrowRight", 12), ("Home", 1)):
        page.keyboard.press(key)
        assert page.evaluate(at) == name(bed), key
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "4px"
    # One stop for Tab, however many straps there are.
    assert page.locator(".tile[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog article.card")
    # A tile that moves, as a person wanted it to, keeps the focus.
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    until(page, "document.activeElement.querySelector('.name')")
    page.get_by_role("button", name="Worst first").click()
    tile(page, "Bed 12").focus()
    server.straps[11].stop(age=20)
    until(page, "document.querySelector('.tile .name').textContent === 'Bed 12'")
    assert page.evaluate(at) == "Bed 12"


def test_hostile_names_are_text_of_one_tile_each(server, visit):
    server.straps = [Heart(n, name=hostile) for n, hostile in enumerate(HOSTILE_NAMES, 1)]
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    page.wait_for_timeout(300)
    assert page.locator(".tile").count() == len(HOSTILE_NAMES)
    assert page.locator(".tile img").count() == 0
    names = order(page)
    assert "Strap 5" in names and "Strap 11" in names and "Bed 1" in names and "evil 7" in names
    assert "👩‍👩‍👧‍👦 Bed 🛏️" in names and max(len(words) for words in names) <= 400
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)
        assert faults(page) == []
    judge(page, "wall-names")
    for n in range(len(HOSTILE_NAMES)):
        page.locator(".tile").nth(n).click()
        page.wait_for_selector("dialog article.card")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="hidden")


def test_the_wall_of_a_share_shows_rates_and_no_more(server, visit):
    ward(server, 12)
    server.scope = "share"
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    page.wait_for_timeout(500)
    assert set(server.asked) <= {"/", "/v1/live", "/v1/live/history"}
    words = page.locator("body").inner_text().lower()
    for hidden in ("battery", "contact", "skin", "%", "delivery", "upload", "health", "gateway", "bed"):
        assert hidden not in words, hidden
    page.locator(".tile").nth(5).click()
    page.wait_for_selector("dialog article.card")
    assert "battery" not in page.locator("dialog").inner_text().lower()


def test_a_link_that_ends_takes_the_wall_away(server, visit):
    ward(server, 12)
    server.token = "t" * 43
    page = visit(server.url + "#" + server.token, "desktop")
    page.wait_for_selector(".tile")
    page.locator(".tile").first.click()
    page.wait_for_selector("dialog article.card")
    server.token = "u" * 43
    server.stop()
    server.start()
    page.wait_for_selector("#token:not([hidden])")
    assert page.locator(".tile, dialog[open]").count() == 0


def test_rates_that_change_shift_nothing(server, visit):
    even(server)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile path[d^=M]", state="attached")
    page.wait_for_timeout(300)
    page.evaluate("""() => { window.shifts = [];
        new PerformanceObserver(list => { for (const entry of list.getEntries()) for (const { node } of entry.sources)
          if (node && node.nodeType === 1 && node.closest('header, main')) window.shifts.push(node.className); })
          .observe({ type: 'layout-shift' }); }""")
    boxes = "[...document.querySelectorAll('.tile span, .tile svg')].map(n => JSON.stringify(n.getBoundingClientRect()))"
    before = page.evaluate(boxes)
    for strap, bpm in zip(server.straps, (7, 42, 99, 100, 111, 188, 200, 255, 60, 61, 62, 63)):
        strap.bpm = bpm
    until(page, "[...document.querySelectorAll('.value')].some(node => node.textContent === '255')")
    assert page.evaluate(boxes) == before
    assert page.evaluate("window.shifts") == []


def test_the_minute_before_the_page_was_opened_is_asked_once_a_strap(server, visit):
    even(server)
    page = visit(server.url, "desktop")
    until(page, "beds.size === 12 && [...beds.values()].every(bed => bed.asked && bed.samples.length > 8)")
    page.wait_for_timeout(400)
    assert server.asked.count("/v1/live/history") == 12


def test_an_hour_of_two_hundred_straps_leaves_memory_flat(server, visit):
    """An hour of reports by the page's own clock, without the stream: the heap after a collection, each quarter of an hour."""
    server.straps = []
    page = visit(server.url, "desktop", clock=True)
    page.wait_for_selector("#empty:not([hidden])")
    page.evaluate("""() => { source.close(); source = { close() {}, readyState: 1 }; window.openStream = () => {};
        window.fetch = () => Promise.reject(new Error('none')); }""")
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    session = page.context.new_cdp_session(page)

    def heap():
        session.send("HeapProfiler.collectGarbage")
        return session.send("Runtime.getHeapUsage")["usedSize"] / 2**20

    feed = """([from, seconds]) => { for (let s = from; s < from + seconds; s++) {
        const straps = [];
        for (let n = 1; n <= 200; n++) straps.push({ sensor: n, name: 'Bed ' + n, bpm: 60 + (s * n) % 50,
          seconds_since_frame: n % 7 === 0 && s % 300 < 60 ? 30 : 0.2, contact: (s + n) % 90 > 12, battery_percent: n % 100,
          link: 'streaming', link_seconds: s, rr_ms: [812, 799] });
        showStraps({ at: new Date(Date.now() + (s - from) * 1000).toISOString(), scope: 'full', straps });
        wall.pending = true; wall.paint(); wall.pending = false;
      } }"""
    used = []
    for minute in range(61):
        page.evaluate(feed, [minute * 60, 60])
        page.clock.fast_forward(60_000)
        if minute % 15 == 0:
            used.append(heap())
    nodes = page.evaluate("document.querySelectorAll('*').length")
    print("heap, MiB, each quarter of an hour:", [round(mib, 1) for mib in used], "nodes:", nodes)
    assert page.locator(".tile").count() == 200
    assert max(used[2:]) - used[1] < 1  # MiB; the first quarter fills the minutes of trends
    assert page.evaluate("Math.max(...[...beds.values()].map(bed => bed.samples.length))") <= 200


@pytest.mark.timed
def test_a_rate_on_a_wall_of_two_hundred_is_on_the_screen_within_half_a_second(server, visit):
    ward(server, 200)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    delays = []
    for bpm in (201, 203, 207, 209):
        strap = server.straps[3]
        page.evaluate("""bpm => { window.when = undefined; const value = [...document.querySelectorAll('.tile')]
            .find(tile => tile.querySelector('.name').textContent === 'Bed 4').querySelector('.value');
            new MutationObserver(() => { if (value.textContent === String(bpm)) window.when = window.when || Date.now(); })
              .observe(value, { characterData: true, subtree: true }); }""", bpm)
        strap.bpm, began = bpm, time.time()
        until(page, "window.when")
        delays.append(page.evaluate("window.when") - began * 1000)
        time.sleep(0.37)
    print("rate to wall, ms:", [round(delay) for delay in delays])
    assert sorted(delays)[2] <= 500  # three of four; the machine may hold one up


@pytest.mark.timed
@pytest.mark.skipif("WALL_SECONDS" not in os.environ, reason="judges the machine as well: WALL_SECONDS=60 measures it")
def test_two_hundred_straps_take_a_tenth_of_a_core(server, browser, visit):
    """All processes of the browser, beside an empty page in the same run, on a screen of 1920 by 1080."""
    watched = float(os.environ["WALL_SECONDS"])
    root = processor_time.browser_process(browser)

    def share():
        began, used = time.monotonic(), processor_time.seconds(root)
        time.sleep(watched)
        return 100 * (processor_time.seconds(root) - used) / (time.monotonic() - began)

    ward(server, 200)
    idle = share()
    page = visit(server.url, (1920, 1080))
    page.wait_for_selector(".tile")
    until(page, "beds.size === 200 && [...beds.values()].every(bed => bed.asked)")
    wall = share()
    print(f"percent of a core: {wall:.1f}, without the page {idle:.1f}")
    assert wall - idle <= 10


# The fleet's page.

@pytest.mark.parametrize("count", [3, 200])
def test_a_fleet_fits_every_screen_and_is_accessible(server, visit, count):
    server.fleet = fleet(count)
    for scheme in ("light", "dark"):
        page = visit(server.url + "fleet", "phone", scheme)
        page.wait_for_selector(".tile")
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(100)
            assert page.locator(".tile").count() == count
            if scheme == "dark" or count == 3:
                judge(page, f"fleet{count}-{size}-{scheme}")


def test_gateways_are_listed_the_worst_first_and_stay_at_their_places(server, visit):
    server.fleet = fleet(40)
    page = visit(server.url + "fleet", "desktop")
    page.wait_for_selector(".tile")
    assert order(page) == sorted(gateway["name"] for gateway in server.fleet)
    listed = page.locator(".need").all_inner_texts()
    assert "ward1-07" in listed[0] and "Gone for 2 h" in listed[0] and "Check its power and its network" in listed[0]
    assert "ward0-05" in listed[1] and "nothing for 11 min" in listed[1] and "moisten" in listed[1].lower()
    page.get_by_role("button", name="Worst first").click()
    assert page.locator(".tile .word").all_text_contents()[:3] == ["Gone", "Not well", "Well"]
    assert "Wear it, moisten the electrodes" in page.locator(".tile").nth(1).inner_text()
    assert "11/12" in page.locator(".tile").nth(1).inner_text()
    page.get_by_label("Filter gateways by name").fill("clinic 2")
    assert 12 <= page.locator(".tile").count() <= 14
    assert "2 need attention" in page.locator("#state").text_content()


def test_a_gateway_opens_to_what_is_wrong_and_what_to_do(server, visit):
    server.fleet = fleet(40)
    page = visit(server.url + "fleet", "phone")
    page.wait_for_selector(".tile")
    tile(page, "ward0-05").click()
    words = page.locator("dialog").inner_text()
    for part in ("Bed 7 has sent nothing for 11 min", "moisten the electrodes", "strap-silent of Bed 7", "11 of 12",
                 "e1 (exchange): 14 waiting", "0.1.0", "Clinic", "floor"):
        assert part in words, part
    judge(page, "fleet40-opened")
    server.fleet[4] |= {"state": "well", "items": []}
    until(page, "!document.querySelector('dialog').innerText.includes('moisten')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    server.fleet = []
    page.wait_for_selector("#empty:not([hidden])")


def test_a_fleet_command_that_is_away_is_said(server, visit):
    server.fleet = fleet(12)
    page = visit(server.url + "fleet", "desktop", before=SKIP)
    page.wait_for_selector(".tile")
    server.fleet = None
    page.evaluate("window.skipped = 20000")
    page.wait_for_selector("#lost p")
    until(page, "document.querySelectorAll('.tile.away').length === 12")
    server.fleet = fleet(12)
    page.evaluate("window.skipped = 0")
    page.wait_for_selector("#lost p", state="detached")


def test_a_fleet_command_that_asks_no_more_is_said(server, visit):
    server.fleet = fleet(12)
    page = visit(server.url + "fleet", "desktop")
    page.wait_for_selector(".tile")
    server.is_fleet_old = True
    page.wait_for_selector("#lost p")
    until(page, "document.querySelectorAll('.tile.away').length === 12")
    server.is_fleet_old = False
    page.wait_for_selector("#lost p", state="detached")


def test_a_hostile_fleet_is_text(server, visit):
    server.fleet = [gateway | {"name": hostile, "site": hostile, "labels": {hostile: hostile}, "version": hostile, "items": [
        {"name": hostile, "detail": hostile, "remedy": hostile, "sensor": hostile, "since": stamp(0)}], "state": "not-well",
        "sensors": {"paired": 12, "streaming": 2, "silent": [hostile] * 200},
        "backlog": [{"destination": hostile, "kind": hostile, "samples": 10**15}] * 200}
        for gateway, hostile in zip(fleet(40), HOSTILE_NAMES)]
    server.fleet += [None, 3, {"name": "bare"}, {"name": "odd", "state": 3, "items": "x", "sensors": None, "labels": 7,
                                               "backlog": [None], "since": 4}]
    page = visit(server.url + "fleet", "phone")
    page.wait_for_selector(".tile")
    assert page.locator(".tile").count() == len(HOSTILE_NAMES) + 2
    assert page.locator(".tile img, dialog img").count() == 0
    assert faults(page) == []
    for n in range(page.locator(".tile").count()):
        page.locator(".tile").nth(n).click()
        page.wait_for_selector("dialog .gateway")
        assert page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="hidden")
