"""A bed stays where it is, unless a person chose that the worst come first."""

import random

from test_scenes import SKIP
from test_wall import even, order, tile
from waiting import until
from ward import name

WORST_FIRST = "localStorage.setItem('worst-first', 'true');"
BOXES = """() => Object.fromEntries([...document.querySelectorAll('.tile')].map(tile => {
    const { x, y, width, height } = tile.getBoundingClientRect();
    return [tile.querySelector('.name').textContent, [x, y, width, height].map(Math.round).join()]; }))"""
# Reports past the stream; the page's clock goes on by five seconds before each.
FEED = """([reports, gateway, isSilent]) => {
    if (gateway) showGateway(gateway);
    const faults = [];
    for (const straps of reports) {
      window.skipped += 5000;
      if (isSilent) { tick(); } else showStraps({ at: new Date(Date.now()).toISOString(), scope: 'full', straps });
      wall.pending = true; wall.paint(); wall.pending = false;
    }
    return [document.querySelectorAll('.tile.alarm, .tile.heed').length, document.querySelector('#state').textContent]; }"""


def test_no_bed_of_a_ward_of_forty_moves_in_an_hour_of_events(server, visit):
    """A report every five seconds, in which straps fall silent, leave the skin, run out of battery, go on; the gateway loses its radio and
    its exchange; and the connection is lost."""
    for size in ((1920, 1080), (1024, 768), (360, 740)):
        chance = random.Random(7)
        server.straps = []
        page = visit(server.url, size, before=SKIP)
        page.wait_for_selector("#empty:not([hidden])")
        page.evaluate("""() => { source.close(); source = { close() {}, readyState: 1 }; window.openStream = () => {};
            window.fetch = () => Promise.reject(new Error('none')); }""")
        beds = [{"silent": 0, "off": 0, "battery": chance.randint(10, 99)} for _ in range(40)]
        home, needy, said = None, set(), set()
        for minute in range(60):
            for bed in beds:
                for trouble, odds, most in (("silent", 0.03, 8), ("off", 0.04, 3)):
                    bed[trouble] = max(0, bed[trouble] - 1) or (chance.randint(1, most) if chance.random() < odds else 0)
                bed["battery"] = max(1, bed["battery"] - (chance.random() < 0.1))
            reports = [[{"sensor": n + 1, "name": name(n + 1), "contact": not bed["off"], "battery_percent": bed["battery"], "link": "streaming"}
                        | ({"seconds_since_frame": 60 * (9 - bed["silent"]) + second} if bed["silent"]
                           else {"seconds_since_frame": 0.3, "bpm": chance.randint(45, 190)})
                        for n, bed in enumerate(beds)] for second in range(5, 65, 5)]
            items = [{"name": "battery-low", "severity": "warning", "sensor": n + 1, "since": "2026-11-24T03:22:30Z",
                      "message": f"Bed {n + 1} has {bed['battery']} % of its battery left", "advice": "change the strap's battery"}
                     for n, bed in enumerate(beds) if bed["battery"] < 15]
            for at, item, severity in ((10, "radio-off", "error"), (25, "exchange-unreachable", "error"), (40, "clock-untrusted", "warning")):
                if at <= minute < at + 5:
                    items.append({"name": item, "severity": severity, "since": "2026-11-24T03:22:30Z", "message": item * 4, "advice": item * 9})
            gateway = server.gateway | {"well": not items, "health": items}
            count, words = page.evaluate(FEED, [reports, gateway, minute in (30, 31)])
            needy.add(count)
            said.add(words)
            boxes = page.evaluate(BOXES)
            home = home or boxes
            assert boxes == home, (size, minute, [bed for bed in home if boxes[bed] != home[bed]])
            assert page.evaluate("scrollY") == 0
        assert len(home) == 40 and len(needy) > 8 and "Not connected" in said and len(said) > 8, (needy, said)


def test_beds_are_in_the_order_that_the_gateway_gives_on_every_screen(server, visit):
    even(server)
    chosen = [server.straps[n] for n in (11, 3, 0, 7, 5, 1, 2, 4, 6, 8, 9, 10)]
    server.straps = list(chosen)
    names = [name(strap.sensor) for strap in chosen]
    for size in ("phone", "desktop"):
        page = visit(server.url, size)
        page.wait_for_selector(".tile")
        assert order(page) == names
        page.reload()
        page.wait_for_selector(".tile")
        assert order(page) == names
    # A strap that is paired meanwhile takes the place that the gateway gives it; few straps are in that order as well.
    server.straps = [chosen[4], *chosen[:3]]
    until(page, "document.querySelectorAll('.tile').length === 4")
    assert order(page) == [names[4], *names[:3]]
    server.straps = [chosen[1], chosen[4]]
    until(page, "document.querySelectorAll('article.card').length === 2")
    assert page.locator("article.card h2").all_text_contents() == [names[1], names[4]]


def test_the_worst_come_first_if_a_person_wants_it_and_the_choice_is_kept(server, visit):
    even(server)
    server.straps[4].more["battery_percent"] = 9
    server.straps[7].more["contact"] = False
    server.straps[10].stop(age=95)
    page = visit(server.url, "desktop")
    page.wait_for_selector(".tile")
    home = [name(n) for n in range(1, 13)]
    until(page, "document.querySelectorAll('.tile.alarm, .tile.heed').length === 3")
    assert order(page) == home
    page.get_by_role("button", name="Worst first").click()
    moved = ["Bed 11", "Bed 8", "Bed 5", "Bed 4", "Bed 1", "Bed 6", "Bed 7", "Bed 2", "Bed 9", "Bed 10", "Bed 3", "Bed 12"]
    until(page, "document.querySelectorAll('.tile .name')[2].textContent === 'Bed 5'")
    assert order(page) == moved
    page.reload()
    until(page, "document.querySelectorAll('.tile .name')[2]?.textContent === 'Bed 5'")
    assert order(page) == moved
    page.get_by_role("button", name="Worst first").click()
    assert order(page) == home


def test_the_worst_bed_takes_the_first_place_and_nobody_else_moves(server, visit):
    even(server)
    page = visit(server.url, "desktop", before=WORST_FIRST)
    page.wait_for_selector(".tile")
    home = [name(n) for n in range(1, 13)]
    assert order(page) == home
    server.straps[8].stop(age=20)
    until(page, "document.querySelector('.tile .name').textContent === 'Bed 9'")
    # Who was at home in the first place has that of the one who went there.
    assert order(page) == ["Bed 9", *home[1:8], "Bed 1", *home[9:]]
    server.straps[8].last_frame = None
    until(page, "document.querySelector('.tile .name').textContent === 'Bed 1'")
    assert order(page) == home


def test_a_strap_that_touches_the_skin_again_at_once_moves_nothing(server, visit):
    even(server)
    page = visit(server.url, "desktop", clock=True, before=WORST_FIRST)
    page.wait_for_selector(".tile")
    page.evaluate("""() => { window.moves = 0; new MutationObserver(() => { window.moves += 1; })
        .observe(document.querySelector('.tiles'), { childList: true }); }""")
    server.straps[5].more["contact"] = False
    page.wait_for_selector(".tile.heed")
    server.straps[5].more["contact"] = True
    until(page, "!document.querySelector('.tile.heed')")
    page.clock.run_for(6000)
    assert page.evaluate("window.moves") == 0


def test_places_are_given_by_a_rule_that_holds_for_any_needs(server, visit):
    """For 300 random needs: the needy first, in their order; whatever is not needy and not in the way is at home."""
    page = visit(server.url)
    assert page.evaluate("""() => { let seed = 7; const random = n => (seed = seed * 48271 % 2147483647) % n;
      for (let round = 0; round < 300; round++) {
        const n = 1 + random(60), beds = [...Array(n).keys()];
        const needy = beds.filter(() => random(4) === 0).sort(() => random(2) - 0.5);
        const order = places(beds, needy);
        if (new Set(order).size !== n || needy.some((key, i) => order[i] !== key)) return 'lost ' + order;
        for (const key of beds.slice(needy.length)) if (!needy.includes(key) && order[key] !== key) return 'moved ' + order;
      } return 'held'; }""") == "held"


def test_no_tile_moves_away_from_under_a_finger(server, visit):
    even(server)
    page = visit(server.url, "desktop", clock=True, before=WORST_FIRST)
    page.wait_for_selector(".tile")
    server.straps[8].stop(age=20)
    page.wait_for_selector(".tile.alarm")
    for _ in range(10):  # somebody points for ten seconds
        page.locator(".tile").nth(3).dispatch_event("pointermove")
        page.clock.run_for(1000)
    assert order(page)[0] == "Bed 1"
    page.clock.run_for(5000)
    until(page, "document.querySelector('.tile .name').textContent === 'Bed 9'")
