"""deploy/firebase/public/index.html against what a Realtime Database does under deploy/firebase/database.rules.json."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from firebase_database import ROOT, SHARE, running_database
from waiting import until


@pytest.fixture
def database():
    with running_database() as database:
        yield database


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_shared_heart_rate_is_seen_as_it_comes_and_no_longer_when_it_is_old(database, visit, scheme):
    page = visit(database.link(), "phone", scheme)
    until(page, "words.textContent === 'Nothing has been shared yet.'")
    database.rate(72)
    until(page, "rate.textContent === '72' && words.textContent === 'Now'")
    assert not Axe().run(page).response["violations"]
    database.rate(80.6)
    until(page, "rate.textContent === '81'")
    page.evaluate("{ const now = performance.now.bind(performance); performance.now = () => now() + 600000; }")
    until(page, "rate.textContent === '–' && words.textContent === 'No heart rate for 10 min'")


def test_a_phone_whose_clock_is_ahead_sees_the_rate_that_comes(database, visit):
    page = visit(database.link())
    until(page, "words.textContent === 'Nothing has been shared yet.'")
    page.evaluate("{ const now = Date.now.bind(Date); Date.now = () => now() + 3600000; }")
    database.rate(72)
    until(page, "rate.textContent === '72' && words.textContent === 'Now'")


def test_who_has_the_link_sees_that_sharing_has_ended(database, visit):
    database.rate(72)
    page = visit(database.link())
    until(page, "rate.textContent === '72'")
    database.end()
    until(page, "rate.textContent === '–' && words.textContent === 'This heart rate is no longer shared.'")


def test_a_heart_rate_from_before_an_outage_is_not_shown_as_the_present_one(database, visit):
    database.rate(72, age=3600 * 5)
    page = visit(database.link())
    until(page, "words.textContent.startsWith('No heart rate since')")
    assert page.locator("#rate").text_content() == "–"


def runs(page):
    """The lines that are drawn, each from where to where, in parts of the hour."""
    return page.evaluate("""() => { const wide = hour.clientWidth - 34;
        return [...hour.querySelectorAll('.mean')].map(path => {
          const xs = path.getAttribute('d').match(/-?[\\d.]+ -?[\\d.]+/g).map(pair => (parseFloat(pair) - 30) / wide);
          return [Math.min(...xs), Math.max(...xs)]; }); }""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_hour_that_was_shared_is_drawn_and_nothing_where_nothing_was_measured(database, visit, scheme):
    # An hour and a half, a value a second, and ten minutes in the middle of the last hour in which the strap was off.
    database.history({ago: 60 + ago % 40 for ago in range(30, 5400, 3) if not 1500 < ago < 2100})
    database.rate(72)
    for size in ("phone", "desktop"):
        page = visit(database.link(), size, scheme)
        until(page, "hour.querySelectorAll('.mean').length === 2")
        (begin, gap), (again, end) = runs(page)
        assert begin < 0.02 and end > 0.96 and 8.9 / 60 < again - gap < 10.1 / 60, runs(page)
        assert "low 60, mean" in page.locator("#summary").text_content() and "high 99" in page.locator("#summary").text_content()
        assert "low 60" in hour_label(page) and not Axe().run(page).response["violations"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def hour_label(page):
    return page.locator("#hour").get_attribute("aria-label")


def test_the_history_goes_on_and_takes_what_a_gateway_adds_later(database, visit):
    database.history({ago: 70 for ago in range(30, 600, 5)})
    database.rate(72)
    page = visit(database.link())
    until(page, "summary.textContent.includes('high 70')")
    page.evaluate("{ const now = performance.now.bind(performance); window.passed = 0; performance.now = () => now() + window.passed; }")
    database.history({1: 90})
    page.evaluate("window.passed = 61000")
    until(page, "summary.textContent.includes('high 90')")
    # What the gateway had kept while it was offline is older than what is known.
    database.history({ago: 120 for ago in range(1200, 1500, 5)})
    page.evaluate("window.passed = 700000")
    until(page, "summary.textContent.includes('high 120')")
    database.end()
    until(page, "hour.hasAttribute('hidden') && !summary.textContent")


def test_a_phone_whose_clock_is_wrong_sees_the_history_too(database, visit):
    database.history({ago: 70 for ago in range(30, 600, 5)})
    page = visit(database.link(), before="{ const now = Date.now.bind(Date); Date.now = () => now() + 86400000; }")
    until(page, "hour.querySelectorAll('.mean').length === 1")


def test_a_hostile_history_is_text_or_nothing(database, visit):
    database.ask("PATCH", f"/.json?auth={database.token}", {f"publicStreams/{SHARE}/heartRate/{key}": value for key, value in {
        "a": {"bpm": "<img src=x>", "start": "2026-11-24T03:22:30.324Z"}, "b": {"bpm": 1e308, "start": "x"}, "c": 3, "d": {"start": 7},
        "1764000000000-0": {"bpm": 71, "start": "2026-11-24T03:22:30.324Z"}, "__proto__": {"bpm": 72, "start": "2026-11-24T03:23:30Z"}}.items()})
    page = visit(database.link())
    until(page, "summary.textContent.includes('low 71')")
    assert page.locator("img").count() == 0 and "Nothing has been shared yet." in page.locator("#words").text_content()


@pytest.mark.parametrize("fragment", ["", "#", "#evil.example", "#a/../b", f"#x y/{SHARE}", "#127.0.0.1:1/short"])
def test_a_link_that_is_cut_short_says_so(visit, fragment):
    page = visit(f"file://{ROOT}/deploy/firebase/public/index.html{fragment}")
    assert "not complete" in page.locator("#words").text_content()
