"""A line is where data is, and nowhere else."""

from waiting import until

# Pieces of lines and bands that lie in a gap, and the pieces themselves, in the chart's units.
DRAWN = """chart => {
  const gaps = [...chart.querySelectorAll('.gap')].map(node => {
    const x = Number(node.getAttribute('x')); return [x, x + Number(node.getAttribute('width'))]; });
  const inside = [], runs = [];
  for (const kind of ['mean', 'band']) for (const path of chart.querySelectorAll('.' + kind)) {
    const xs = path.getAttribute('d').match(/-?[\\d.]+ -?[\\d.]+/g).map(pair => Number(pair.split(' ')[0]));
    const span = [Math.min(...xs), Math.max(...xs)];
    if (kind === 'mean') runs.push(span);
    for (const [a, b] of gaps)
      if (Math.min(b, span[1]) - Math.max(a, span[0]) > 0.3) inside.push([kind, span, [a, b]]);
  }
  return { gaps, inside, runs, width: chart.clientWidth };
}"""


def drawn(page):
    page.wait_for_selector(".mean", state="attached")
    page.wait_for_selector(".gap")
    return page.locator(".chart").first.evaluate(DRAWN)


def test_no_line_or_band_enters_a_gap(server, visit):
    server.gaps = [(400, 250, "out-of-range"), (93, 61.5, "no-contact")]
    for size in ("phone", "desktop"):
        seen = drawn(visit(server.url, size))
        assert len(seen["gaps"]) == 2 and seen["inside"] == []
        assert len(seen["runs"]) == 3


def test_no_line_bridges_columns_that_are_missing(server, visit):
    server.missing = [(300, 240)]
    page = visit(server.url)
    # What the strap sends live may be drawn before what came earlier.
    until(page, "document.querySelectorAll('.chart')[0]?.querySelectorAll('.mean').length > 1")
    seen = page.locator(".chart").first.evaluate(DRAWN)
    assert len(seen["runs"]) == 2
    assert seen["runs"][1][0] - seen["runs"][0][1] > 0.07 * seen["width"]


# The chart and the trend mixed two patients when a strap went from one to the other.
def test_who_wears_a_strap_next_has_a_chart_and_a_trend_of_their_own(server, visit):
    page = visit(server.url)
    until(page, "cards.get('1/1')?.chart.histories[10]?.points.length > 100")
    server.straps[0].go_to_another(9)
    until(page, "cards.get('1/9')?.chart.histories[10]")
    began = server.straps[0].began * 1000
    assert not page.evaluate("cards.has('1/1') || beds.has('1/1')") and page.locator("article.card").count() == 2
    for times, span in (("cards.get('1/9').chart.histories[10].points", 5000), ("cards.get('1/9').chart.samples", 1000),
                        ("beds.get('1/9').samples", 1000)):
        assert all(at > began - span for at in page.evaluate(f"{times}.map(one => one.at)")), times


def test_a_silence_that_goes_on_reaches_the_edge(server, visit):
    server.straps[0].stop(age=60)
    server.gaps = [(60, None, "link-lost")]
    seen = drawn(visit(server.url))
    assert seen["inside"] == [] and seen["gaps"][-1][1] > seen["width"] - 8


def test_a_day_is_drawn_with_its_gaps(server, visit):
    server.gaps = [(30_000, 20_000, "gateway-off")]
    page = visit(server.url)
    page.wait_for_selector(".mean", state="attached")
    page.get_by_role("button", name="24 hours").first.click()
    page.wait_for_selector(".gap")
    seen = drawn(page)
    assert len(seen["gaps"]) == 1 and seen["inside"] == [] and len(seen["runs"]) == 2
    assert page.locator("summary").first.text_content() == "Times without data: 1"


def test_a_gap_tells_its_cause_to_pointer_keyboard_and_reader(server, visit):
    server.gaps = [(400, 200, "out-of-range")]
    page = visit(server.url)
    seen = drawn(page)
    chart = page.get_by_role("slider", name="Heart rate of Strap 1, last 10 minutes")
    box = chart.bounding_box()
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + sum(seen["gaps"][0]) / 2, box["y"] + box["height"] / 2)
    until(page, "document.querySelector('.readout').textContent.includes('not heard')")
    page.mouse.move(0, 0)
    chart.focus()
    words = chart.get_attribute("aria-valuetext")
    assert "bpm" in words or "no data" in words
    for _ in range(5):
        page.keyboard.press("PageDown")
    assert "no data, the strap is not heard" in chart.get_attribute("aria-valuetext")
    page.keyboard.press("Home")
    assert "bpm" in chart.get_attribute("aria-valuetext")
    assert chart.get_attribute("aria-valuenow") == "0"
    page.locator("summary").first.click()
    line = page.locator("details li").first.inner_text()
    assert "not heard" in line and "3 min 20 s" in line


# "03:22:30 – now" of a gap that had lasted for days.
def test_a_gap_of_days_has_a_date_and_a_length(server, visit):
    server.straps[0].stop(age=200_000)
    server.gaps = [(200_000, None, "link-lost")]
    page = visit(server.url)
    page.wait_for_selector(".gap")
    page.locator("summary").first.click()
    line = page.locator("details li").first.inner_text()
    began = page.evaluate("new Date(Date.now() - 200000000).toLocaleDateString([], { month: 'short', day: 'numeric' })")
    assert began in line and "now (2 days): no data" in line
    chart = page.get_by_role("slider", name="Heart rate of Strap 1, last 10 minutes")
    chart.focus()
    assert f"since {began}" in chart.get_attribute("aria-valuetext")


def test_a_gap_of_a_share_is_no_data_and_no_more(server, visit):
    server.scope, server.gaps = "share", [(400, 200, "out-of-range")]
    page = visit(server.url)
    drawn(page)
    page.locator("summary").first.click()
    assert page.locator("details li").first.inner_text().endswith(": no data")
