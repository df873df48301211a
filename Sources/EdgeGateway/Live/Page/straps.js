// A report of straps. Of those of one stream, one may come later than those before, held up by a network or a proxy: by as
// much as the gateway's time has advanced less than the page's. Clocks that run apart by CLOCKS_APART are no lateness.
const CLOCKS_APART = 2e-4;
let scope = null, lost = false, isFirst = true;
function showStraps(report) {
  const at = Date.parse(report.at);
  if (!Array.isArray(report.straps) || !Number.isFinite(at)) return;
  heard = instant(isFirst ? 0 : Math.max(0, since(heard) * (1 - CLOCKS_APART) - (at - heardAt) / 1000));
  heardAt = at; isFirst = false;
  scope = report.scope === 'full' ? 'full' : 'share';
  $('token').hidden = true;
  const straps = report.straps.filter(strap => strap && number(strap.sensor) !== undefined);
  const keys = straps.map(keyOf);
  forgetBeds(new Set(keys));
  for (const strap of straps) takeBed({ ...strap, name: printable(strap.name) || 'Strap ' + strap.sensor });
  sortBeds(keys);
  for (const [key, card] of cards) if (beds.has(key)) card.update(beds.get(key)); else dropCard(key);
  const isWalled = beds.size > CARDS_MAX;
  if (isWalled === wall.node.hidden) { wall.use(isWalled); dropCards(); }
  if (!isWalled) showCards();
  showEmpty();
  if (scope !== 'full') $('side').hidden = true;
  if (isWalled) wall.refresh(); else faces();
}
function showCards() {
  for (const [key, bed] of beds) {
    if (cards.has(key)) continue;
    const card = new Card(bed);
    cards.set(key, card);
    card.chart.refresh();
  }
  const nodes = [...beds.keys()].map(key => cards.get(key).node), there = $('straps').children;
  if (nodes.some((node, place) => there[place] !== node)) { $('straps').replaceChildren(...nodes); fitCards(); }
}
// Cards fill the screen, as tiles do.
function fitCards() {
  const top = $('straps').getBoundingClientRect().top + scrollY;
  $('straps').style.setProperty('--room', Math.max(0, innerHeight - top - 8) + 'px');
}
addEventListener('resize', fitCards);
function showEmpty() {
  $('empty').hidden = beds.size > 0;
  text($('empty-text'), scope === 'full' ? 'Put a strap on, then type on the gateway:' : 'There is nothing to show for this link now.');
  $('empty-steps').hidden = scope !== 'full';
}
function dropCard(key) { cards.get(key).node.remove(); cards.delete(key); }
function dropCards() { for (const key of [...cards.keys()]) dropCard(key); }
