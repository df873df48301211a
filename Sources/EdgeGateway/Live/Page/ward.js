// The straps of this page: tiles on a wall, or cards as long as they are few.
const CARDS_MAX = 3;
// The trend of a minute is drawn again every 6 s, not joined over missing seconds (the chart's columns are 5 s long), and
// at least 20 bpm high: a calm heart looks calm.
const TREND_MS = 60000, TREND_DRAWN_MS = 6000, TREND_BREAK_MS = 7500, TREND_BPM = 20, TREND_SAMPLES = 200;
const MINUTE_ASKED_MS = 100; // between two requests for what was before the page was opened

const beds = new Map();      // by `keyOf`, in the order of their places, which is the report's
const cards = new Map();     // those on the page, or the one that is opened
// A strap on one person: who wears it next has a bed of their own, with a trend and a chart of their own.
const keyOf = strap => `${strap.sensor}/${strap.assignment ?? ''}`;
let trendsAt = -Infinity, minuteAsked = 0, minuteBusy = false;
const wall = new Wall({
  label: 'Straps', things: 'straps', hasTrend: true, look: faces,
  open(key) {
    const bed = beds.get(key);
    if (!bed) return null;
    const card = new Card(bed);
    cards.set(key, card);
    card.show(faceNow(bed));
    requestAnimationFrame(() => { card.chart.draw(); card.chart.refresh(); });
    return card.node;
  },
  closed() { if (!wall.node.hidden) cards.clear(); },
});
const strip = new Strip({
  open: key => beds.has(key) && !wall.node.hidden ? wall.show(key) : (cards.get(key)?.node ?? $('side')).scrollIntoView(),
  all: () => wall.node.hidden ? $('side').scrollIntoView() : wall.choice.showNeedy(true),
});
strip.node.hidden = true;
$('page').before(strip.node);
$('page').querySelector('main').append(wall.node);
document.querySelector('header').append(wall.tools);

function takeBed(strap) {
  let bed = beds.get(keyOf(strap));
  if (!bed) beds.set(keyOf(strap), bed = { samples: [], trend: '', isDrawn: false, last: null, fresh: null, asked: false });
  bed.strap = strap;
  const { age, fresh } = newness(strap, 0);
  if (!fresh) return;
  bed.last = strap.bpm;
  let newest = bed.samples[bed.samples.length - 1];
  const at = heardAt - age * 1000;
  if (newest && newest.at - at > TREND_MS) { bed.samples = []; newest = null; }   // the gateway's clock was set
  if (newest && at - newest.at < 150) return;                                     // the same frame
  bed.samples.push({ at, bpm: strap.bpm });
  if (bed.samples.length > TREND_SAMPLES) bed.samples.shift();
}
function drawTrend(bed, now) {
  bed.isDrawn = true;
  while (bed.samples.length && now - bed.samples[0].at > TREND_MS) bed.samples.shift();
  let low = Infinity, high = -Infinity, path = '', before = -Infinity;
  for (const { bpm } of bed.samples) { low = Math.min(low, bpm); high = Math.max(high, bpm); }
  const spare = Math.max(0, TREND_BPM - (high - low)) / 2, span = high - low + 2 * spare;
  for (const { at, bpm } of bed.samples) {
    path += (at - before > TREND_BREAK_MS ? 'M' : 'L') + (60 - (now - at) / 1000).toFixed(1) + ' '
      + (95 - (bpm - low + spare) / span * 90).toFixed(0);
    before = at;
  }
  bed.trend = path;
}
// How long ago the newest report came: its ages are as much older now.
const reportAge = () => heard ? since(heard) : 0;
const faceNow = bed => ({ ...faceOf(bed.strap, reportAge(), bed.last), trend: bed.trend });
// All faces now. The strip, the header, cards and those who listen learn from the same.
function faces() {
  watch();                   // after a jump of the clock: straps are silent only while the connection is there
  const all = new Map(), sensors = new Set([...beds.values()].map(bed => bed.strap.sensor));
  const needs = gatewayNeeds(sensor => sensors.has(sensor)), now = gatewayNow(), gone = [], back = [];
  // All trends in one paint: one that changes has the compositor arrange all tiles anew.
  const areDue = performance.now() - trendsAt >= TREND_DRAWN_MS;
  if (areDue) trendsAt = performance.now();
  for (const [key, bed] of beds) {
    if (areDue || !bed.isDrawn) drawTrend(bed, now);
    const face = faceNow(bed);
    if (face.rank < NEEDS_NOBODY) needs.push({ ...face, key });
    if (bed.fresh !== null && bed.fresh !== face.fresh && !lost) (face.fresh ? back : gone).push(face.name);
    bed.fresh = lost ? null : face.fresh;
    all.set(key, face);
    const card = cards.get(key);
    if (card) card.show(face);
  }
  for (const [names, one, many] of [[gone, ': no signal.', ' straps: no signal.'], [back, ' sends again.', ' straps send again.']]) {
    if (names.length) say(names.length > 3 ? names.length + many : names.map(name => name + one).join(' '));
  }
  tellNeeds(needs);
  return all;
}
// The strip and the header say what the tiles say.
function tellNeeds(needs) {
  const count = lost ? 0 : needs.length, isKnown = heard && !lost && !asking;
  const wasHidden = strip.node.hidden;
  strip.node.hidden = asking || !heard || !beds.size && !count;
  strip.show(lost ? [] : needs, lost ? 'Not known without a connection.'
    : beds.size ? 'Nothing needs attention now.' : '');
  if (strip.node.hidden !== wasHidden) { wall.fit(); fitCards(); }
  if (!isKnown) return;
  tellState(count ? `${count} ${count === 1 ? 'needs' : 'need'} attention` : told?.next_step?.message || (beds.size ? 'All well' : 'Connected'), count > 0);
}
function tellState(words, isWarning) { text($('state'), words); $('state').className = isWarning ? 'warn' : 'soft'; }
function sortBeds(order) {
  if ([...beds.keys()].every((key, place) => key === order[place])) return;
  const known = new Map(beds);
  beds.clear();
  for (const key of order) beds.set(key, known.get(key));
}
function forgetBeds(seen) { for (const key of beds.keys()) if (!seen.has(key)) beds.delete(key); }
// The minute before the page was opened, one strap after the other, from the gateway's chart.
async function askMinute() {
  if (wall.node.hidden || minuteBusy || lost || document.hidden || performance.now() - minuteAsked < MINUTE_ASKED_MS) return;
  const bed = wall.order.map(key => beds.get(key)).find(bed => bed && !bed.asked);
  if (!bed) return;
  bed.asked = minuteBusy = true;
  const first = bed.samples.length ? bed.samples[0].at : heardAt;
  if (gatewayNow() - first < TREND_MS) {
    try {
      const answer = await fetch(`/v1/live/history?assignment=${bed.strap.assignment}&minutes=10`, { cache: 'no-store' });
      if (answer.ok) {
        const { points, bucket } = Chart.read(await answer.json());
        bed.samples.unshift(...points.map(p => ({ at: p.at + bucket / 2, bpm: p.mean }))
          .filter(p => p.at < first - 500 && gatewayNow() - p.at < TREND_MS).slice(-12));
        bed.isDrawn = false;
      }
    } catch { /* A minute later the stream has told it. */ }
  }
  minuteAsked = performance.now(); minuteBusy = false;
}
