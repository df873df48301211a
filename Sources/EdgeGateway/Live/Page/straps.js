// A report of straps.
let scope = null, lost = false;
function showStraps(report) {
  const at = Date.parse(report.at);
  if (!Array.isArray(report.straps) || !Number.isFinite(at)) return;
  heard = instant(); heardAt = at;
  scope = report.scope === 'full' ? 'full' : 'share';
  $('token').hidden = true;
  const straps = report.straps.filter(strap => strap && number(strap.sensor) !== undefined);
  forgetBeds(new Set(straps.map(strap => strap.sensor)));
  for (const strap of straps) takeBed({ ...strap, name: printable(strap.name) || 'Strap ' + strap.sensor });
  sortBeds(straps.map(strap => strap.sensor));
  for (const [sensor, card] of cards) if (beds.has(sensor)) card.update(beds.get(sensor)); else dropCard(sensor);
  const isWalled = beds.size > CARDS_MAX;
  if (isWalled === wall.node.hidden) { wall.use(isWalled); dropCards(); }
  if (!isWalled) showCards();
  showEmpty();
  if (scope !== 'full') $('side').hidden = true;
  if (isWalled) wall.refresh(); else faces();
}
function showCards() {
  for (const bed of beds.values()) {
    if (cards.has(bed.strap.sensor)) continue;
    const card = new Card(bed);
    cards.set(bed.strap.sensor, card);
    card.chart.refresh();
  }
  const nodes = [...beds.keys()].map(sensor => cards.get(sensor).node), there = $('straps').children;
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
function dropCard(sensor) { cards.get(sensor).node.remove(); cards.delete(sensor); }
function dropCards() { for (const sensor of [...cards.keys()]) dropCard(sensor); }
