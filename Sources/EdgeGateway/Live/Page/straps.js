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
  const seen = new Set();
  for (const strap of report.straps) {
    if (!strap || number(strap.sensor) === undefined) continue;
    strap.name = String(strap.name || 'Strap ' + strap.sensor);
    seen.add(strap.sensor);
    let card = cards.get(strap.sensor);
    const isNew = !card;
    if (isNew) { card = new Card(strap); cards.set(strap.sensor, card); $('straps').append(card.node); }
    card.update(strap);
    if (isNew) { card.chart.draw(); card.chart.refresh(); }
  }
  for (const [sensor, card] of cards) if (!seen.has(sensor)) { card.node.remove(); cards.delete(sensor); }
  justBack = false;
  $('empty').hidden = cards.size > 0;
  if (scope !== 'full') {
    text($('empty-text'), 'There is nothing to show for this link now.');
    $('empty-steps').hidden = true;
    $('side').hidden = true;
    $('page').classList.remove('wide');
    text($('state'), 'Connected');
    $('state').className = 'soft';
  }
}
