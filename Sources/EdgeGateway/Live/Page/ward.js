// Straps on a wall.
const CARDS_MAX = 3;         // what a desktop shows at once; more straps are a wall
const LOW_BATTERY = 15;
// The trend of a minute: drawn again every 6 s, not joined over missing seconds (the chart's columns are 5 s long),
// and at least 20 bpm high, so that a calm heart looks calm.
const TREND_MS = 60000, TREND_DRAWN_MS = 6000, TREND_BREAK_MS = 7500, TREND_BPM = 20, TREND_SAMPLES = 200;
const MINUTE_ASKED_MS = 100; // between two requests for what was before the page was opened
const RANKS = { silent: 0, contact: 1, battery: 2 };

const beds = new Map();
let trendsAt = -Infinity, minuteAsked = 0, minuteBusy = false;
const wall = new Wall({
  label: 'Straps', things: 'straps', hasTrend: true, look: faces,
  open(sensor) {
    const bed = beds.get(sensor);
    if (!bed) return null;
    const card = new Card(bed.strap);
    card.isQuiet = true;       // the wall tells
    card.last = bed.last;
    cards.set(sensor, card);
    card.update(bed.strap);
    requestAnimationFrame(() => { card.chart.draw(); card.chart.refresh(); });
    return card.node;
  },
  closed() { for (const sensor of cards.keys()) if (!wall.node.hidden) cards.delete(sensor); },
});
$('page').querySelector('main').append(wall.node);
document.querySelector('header').append(wall.tools);

function takeBed(strap) {
  let bed = beds.get(strap.sensor);
  if (!bed) beds.set(strap.sensor, bed = { samples: [], trend: '', isDrawn: false, last: null, fresh: null, asked: false });
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
function faceOf(bed, passed) {
  const { strap, trend } = bed, { age, fresh } = newness(strap, passed);
  const charge = number(strap.battery_percent), low = charge !== undefined && charge < LOW_BATTERY;
  const face = { name: strap.name, value: '–', unit: 'bpm', trend, level: '', rank: NEEDS_NOBODY };
  if (!fresh || lost) {
    face.word = age === undefined ? 'No data' : 'Stale';
    face.note = age === undefined ? '' : shortly(age);
    face.extra = bed.last === null ? '' : 'last ' + bed.last;
    face.level = lost ? 'away' : 'alarm';
    face.rank = lost ? undefined : RANKS.silent;
    return face;
  }
  face.value = String(strap.bpm);
  face.word = 'Live';
  face.extra = strap.contact ? 'on skin' : '';
  if (charge !== undefined) { face.note = charge + ' %'; face.noteOf = 'battery '; }
  if (low) { face.word = 'Battery'; face.noteOf = ''; face.level = 'heed'; face.rank = RANKS.battery; }
  if (strap.contact === false) {
    face.word = 'Off skin'; face.level = 'heed'; face.rank = RANKS.contact;
    if (low) face.extra = 'battery';
  }
  return face;
}
function faces() {
  watch();                   // after a jump of the clock: straps are silent only while the connection is there
  const all = new Map(), now = gatewayNow(), passed = heard ? since(heard) : 0, gone = [], back = [];
  // All trends in one paint: one that changes has the compositor arrange all tiles anew.
  const areDue = performance.now() - trendsAt >= TREND_DRAWN_MS;
  if (areDue) trendsAt = performance.now();
  for (const [sensor, bed] of beds) {
    if (areDue || !bed.isDrawn) drawTrend(bed, now);
    const face = faceOf(bed, passed), fresh = face.value !== '–';
    if (bed.fresh !== null && bed.fresh !== fresh && !lost) (fresh ? back : gone).push(face.name);
    bed.fresh = lost ? null : fresh;
    all.set(sensor, face);
  }
  for (const [names, one, many] of [[gone, ': no data.', ' straps: no data.'], [back, ' sends again.', ' straps send again.']]) {
    if (names.length) say(names.length > 3 ? names.length + many : names.map(name => name + one).join(' '));
  }
  return all;
}
function forgetWard(seen) { for (const sensor of beds.keys()) if (!seen.has(sensor)) beds.delete(sensor); }
// The minute before the page was opened, one strap after the other, from the chart that the gateway has anyway.
async function askMinute() {
  if (wall.node.hidden || minuteBusy || lost || document.hidden || performance.now() - minuteAsked < MINUTE_ASKED_MS) return;
  const sensor = wall.order.find(key => beds.has(key) && !beds.get(key).asked);
  if (sensor === undefined) return;
  const bed = beds.get(sensor);
  bed.asked = minuteBusy = true;
  const first = bed.samples.length ? bed.samples[0].at : heardAt;
  if (gatewayNow() - first < TREND_MS) {
    try {
      const answer = await fetch(`/v1/live/history?sensor=${sensor}&minutes=10`, { cache: 'no-store' });
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
