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


@pytest.mark.parametrize("fragment", ["", "#", "#evil.example", "#a/../b", f"#x y/{SHARE}", "#127.0.0.1:1/short"])
def test_a_link_that_is_cut_short_says_so(visit, fragment):
    page = visit(f"file://{ROOT}/deploy/firebase/public/index.html{fragment}")
    assert "not complete" in page.locator("#words").text_content()
