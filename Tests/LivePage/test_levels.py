"""What needs attention is told by lightness and by shape, for people who do not tell red from green, and in grey."""

import base64

import pytest

from test_wall import even
from waiting import until

# What Chromium draws for them (Machado, Oliveira, Fernandes 2009), and how many points of CIE lightness apart the
# grounds of two levels must be at least: text and its ground are 60 and more apart.
SIGHTS = ["none", "deuteranopia", "protanopia", "achromatopsia"]
LIGHTNESS_APART = 18
# Of the points of two marks, drawn one over the other, this part must differ.
SHAPE_APART = 0.2

READ = """async ([picture, boxes]) => {
  const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + picture)).blob());
  const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;
  const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const lightness = (r, g, b) => { const y = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    return y <= 0.008856 ? 903.3 * y : 116 * Math.cbrt(y) - 16; };
  return Object.fromEntries(Object.entries(boxes).map(([key, { x, y, width, height }]) => {
    const { data } = context.getImageData(Math.round(x), Math.round(y), Math.round(width), Math.round(height)), points = [];
    for (let i = 0; i < data.length; i += 4) points.push(lightness(data[i], data[i + 1], data[i + 2]));
    return [key, points]; })); }"""
# A stripe of ground between name and mark, and the square of the mark, of each level's tile.
BOXES = """() => Object.fromEntries([['live', '.tile:not(.alarm):not(.heed)'], ['heed', '.tile.heed'], ['alarm', '.tile.alarm'], ['away', '.tile.away']]
  .filter(([, which]) => document.querySelector(which)).flatMap(([level, which]) => {
    const tile = document.querySelector(which), name = tile.querySelector('.name').getBoundingClientRect(), box = tile.getBoundingClientRect();
    const side = parseFloat(getComputedStyle(tile.querySelector('.name')).fontSize) * 0.9;
    const right = box.right - 3 - parseFloat(getComputedStyle(tile).paddingRight);
    return [[level + ' ground', { x: box.left + box.width * 0.62, y: name.top + 2, width: box.width * 0.12, height: name.height - 4 }],
      [level + ' mark', { x: right - side, y: name.top + (name.height - side) / 2, width: side, height: side }]]; }))"""


def median(points):
    return sorted(points)[len(points) // 2]


def shape(points, ground):
    return [abs(point - ground) > 30 for point in points]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_levels_differ_in_lightness_and_shape_for_every_eye(server, visit, scheme):
    even(server)
    server.straps[4].more["contact"] = False
    server.straps[7].stop(age=95)
    page = visit(server.url, (1280, 800), scheme)
    reader = visit("about:blank")
    until(page, "document.querySelector('.tile.heed') && document.querySelector('.tile.alarm')")
    session = page.context.new_cdp_session(page)

    def look(sight):
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
        page.wait_for_timeout(100)
        boxes = page.evaluate(BOXES)
        return reader.evaluate(READ, [base64.b64encode(page.screenshot()).decode(), boxes])

    for sight in SIGHTS:
        seen = look(sight)
        ground = {level: median(seen[level + " ground"]) for level in ("live", "heed", "alarm")}
        shapes = {level: shape(seen[level + " mark"], ground[level]) for level in ground}
        print(scheme, sight, {level: round(value) for level, value in ground.items()},
              {level: round(sum(points) / len(points), 2) for level, points in shapes.items()})
        for one, two in (("live", "heed"), ("heed", "alarm"), ("live", "alarm")):
            assert abs(ground[one] - ground[two]) >= LIGHTNESS_APART, (sight, one, two, ground)
            apart = sum(a != b for a, b in zip(shapes[one], shapes[two])) / len(shapes[one])
            assert apart >= SHAPE_APART, (sight, one, two, apart)
    # Three edges: whole, double, dashed.
    edges = [page.evaluate(f"getComputedStyle(document.querySelector('{which}')).borderStyle")
             for which in (".tile:not(.alarm):not(.heed)", ".tile.heed", ".tile.alarm")]
    assert edges == ["solid", "double", "dashed"]
    # Without a connection: a ring and a dashed edge, and no rate.
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    server.silent = True
    page.evaluate("{ const now = Date.now.bind(Date); Date.now = () => now() + 20000; }")
    until(page, "document.querySelectorAll('.tile.away').length === 12")
    seen = look("achromatopsia")
    ring = shape(seen["away mark"], median(seen["away ground"]))
    side = round(len(ring) ** 0.5)
    middle = ring[(side // 2) * side + side // 2]
    assert 0.2 < sum(ring) / len(ring) < 0.8 and not middle
