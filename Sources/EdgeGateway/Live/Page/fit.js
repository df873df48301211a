// How large tiles and their type are.
const TILE_GAP = 6, TILE_BORDERS = 6, TIGHT_WIDTH = 150, UNIT_WIDTH = 230, ADVICE_LINE = 1.15, DASH_EM = 1.3, WIDE_SCREEN = 768;
const SMALLEST = { screen: { wide: 84, high: 76 }, phone: { wide: 136, high: 104 } };

// The type of a tile, CSS pixels: the rate takes what name, trend and foot leave, and `chars` digits must fit its
// width (a digit of the widest usual face is 0.7 em wide).
function typeSizes(wide, high, chars) {
  const between = (low, value, most) => Math.min(Math.max(low, value), most);
  const pad = Math.round(between(3, wide * 0.03, 12));
  const name = between(12, Math.min(high * 0.16, wide * 0.11), 64), foot = between(12, Math.min(high * 0.11, wide * 0.075), 44);
  const trend = between(12, high * 0.17, 150), nameRow = name * 1.35, footRow = foot * 1.35;
  const tight = wide < TIGHT_WIDTH, hasUnit = wide >= UNIT_WIDTH;
  const middle = high - 2 * pad - TILE_BORDERS - nameRow - footRow, across = wide - 2 * pad - TILE_BORDERS - (hasUnit ? foot * 3.2 : 0);
  // Lines of advice: where the trend is, and in all of the middle but the dash of a tile without a rate.
  const lines = space => Math.max(1, Math.floor(space / foot / ADVICE_LINE));
  return { tight, bare: !hasUnit, counts: { chars, lines: lines(trend), 'lines-alarm': lines(middle - foot * DASH_EM) },
    px: { high, pad, name, foot, trend, 'name-row': nameRow, 'foot-row': footRow,
      rate: Math.max(14, Math.min((middle - trend) * 0.98, across / (chars * 0.7))) } };
}
// The number of columns that shows all tiles at once with the largest rates; if even the smallest tiles cannot be
// seen at once, as many columns of those as there is room for, and the page scrolls.
function fitTiles(count, wide, high, chars, smallest) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const w = (wide - (columns - 1) * TILE_GAP) / columns;
    const h = Math.min((high - (rows - 1) * TILE_GAP) / rows, w * 1.1);
    if (w < smallest.wide) break;
    if (h < smallest.high) continue;
    const size = typeSizes(w, h, chars);
    if (!best || size.px.rate > best.px.rate + 0.5) best = { columns, ...size };
  }
  if (best) return best;
  const columns = Math.max(1, Math.floor((wide + TILE_GAP) / (smallest.wide + TILE_GAP)));
  const w = (wide - (columns - 1) * TILE_GAP) / columns;
  return { columns, ...typeSizes(w, Math.max(smallest.high, Math.min(w * 0.8, 200)), chars) };
}
