// The page.
let scope = null, lost = false, justBack = false;
const cards = new Map();
function showStraps(report) {
  const at = Date.parse(report.at);
  if (!Array.isArray(report.straps) || !Number.isFinite(at)) return;
  heard = instant(); heardAt = at;
  scope = report.scope === 'full' ? 'full' : 'share';
  $('token').hidden = true;
  justBack = lost;
  watch();
  const straps = report.straps.filter(strap => strap && number(strap.sensor) !== undefined);
  const seen = new Set(straps.map(strap => strap.sensor)), walled = straps.length > CARDS_MAX;
  if (walled !== !wall.node.hidden) { wall.use(walled); dropCards(); if (!walled) beds.clear(); }
  for (const strap of straps) {
    strap.name = printable(strap.name) || 'Strap ' + strap.sensor;
    if (walled) takeBed(strap);
    let card = cards.get(strap.sensor);
    const isNew = !card && !walled;
    if (isNew) { card = new Card(strap); cards.set(strap.sensor, card); $('straps').append(card.node); }
    if (card) card.update(strap);
    if (isNew) { card.chart.draw(); card.chart.refresh(); }
  }
  for (const [sensor, card] of cards) if (!seen.has(sensor)) { card.node.remove(); cards.delete(sensor); }
  if (walled) { forgetWard(seen); wall.refresh(); }
  justBack = false;
  $('empty').hidden = seen.size > 0;
  if (scope !== 'full') {
    text($('empty-text'), 'There is nothing to show for this link now.');
    $('empty-steps').hidden = true;
    $('side').hidden = true;
    $('page').classList.remove('wide');
    text($('state'), 'Connected');
    $('state').className = 'soft';
  }
}
function dropCards() {
  for (const card of cards.values()) card.node.remove();
  cards.clear();
}
