// The fleet's page: one tile a gateway.
const ASK_SECONDS = 3, ANSWER_SECONDS = 10, OLD_SECONDS = 15;
const LISTED_MAX = 50, LABELS_MAX = 20;
const STATES = { gone: { word: 'Gone', level: 'alarm', rank: 0 }, 'not-well': { word: 'Not well', level: 'heed', rank: 1 },
  well: { word: 'Well', level: '', rank: NEEDS_NOBODY } };

const list = value => Array.isArray(value) ? value : [];
const count = value => number(value) === undefined ? '–' : value.toLocaleString();
const gateways = new Map();  // by their names, which hosts.yaml has once
let asking = false, askedAt = -Infinity, refusal = '', lost = false, isOld = false, inView = null;

const wall = new Wall({
  label: 'Gateways', things: 'gateways', hasTrend: false,
  look: faces,
  open(name) {
    inView = { name, node: make('article', 'card gateway'), told: '' };
    showOpened();
    return inView.node;
  },
  closed() { inView = null; },
});
const strip = new Strip({ open: name => wall.show(name), all: () => wall.choice.showNeedy(true) });
strip.node.hidden = true;
$('page').before(strip.node);
$('page').querySelector('main').append(wall.node);
document.querySelector('header').append(wall.tools);

function stateOf(gateway) { return STATES[gateway.state] || { word: printable(gateway.state, 20) || 'Not known', level: 'heed', rank: 1 }; }
function secondsSince(stamp) {
  const at = Date.parse(stamp);
  return Number.isFinite(at) ? Math.max(0, (gatewayNow() - at) / 1000) : undefined;
}
const byName = new Intl.Collator('en', { numeric: true });
// All faces, by name; the strip says what they say.
function faces() {
  const names = [...gateways.keys()].sort((a, b) => byName.compare(a, b) || (a < b ? -1 : 1));
  const all = new Map(names.map(name => [name, faceOf(gateways.get(name))]));
  strip.show([...all].filter(([, face]) => face.rank < NEEDS_NOBODY).map(([key, face]) => ({ ...face, key })),
    lost ? 'Not known without a connection.' : 'Nothing needs attention now.');
  return all;
}
function faceOf(gateway) {
  const { word, level, rank } = stateOf(gateway), sensors = gateway.sensors || {}, site = printable(gateway.site);
  const since = secondsSince(gateway.since), waits = number(gateway.oldest_undelivered_seconds);
  const items = list(gateway.items), silent = list(sensors.silent).map(name => printable(name)).filter(Boolean);
  const face = { name: printable(gateway.name) || 'No name', unit: 'straps', word, level, rank,
    value: gateway.state === 'gone' || number(sensors.paired) === undefined ? '–' : `${number(sensors.streaming) ?? 0}/${sensors.paired}`,
    found: [site, ...Object.values(gateway.labels || {}).slice(0, LABELS_MAX).map(label => printable(label))].join(' ') };
  if (lost) return { ...face, word: 'Not known', level: 'away', rank: undefined };
  face.detail = gateway.state === 'gone' ? site : silent.length ? 'silent: ' + silent.slice(0, 5).join(', ')
    : items.length ? printable(items[0] && items[0].name) : site;
  face.extra = waits !== undefined && waits >= 60 ? 'waits ' + shortly(waits) : '';
  if (rank === NEEDS_NOBODY) return face;
  if (since !== undefined) { face.note = shortly(since); face.noteOf = 'for '; }
  const item = items.find(Boolean) || {};
  face.state = printable(item.detail, 300) || word + (face.note ? ' for ' + face.note : '');
  face.advice = sentence(printable(item.remedy, 500)) || (gateway.state === 'gone' ? 'Check its power and its network' : '');
  return face;
}
function showFleet() {
  wall.refresh();
  if (inView) showOpened();
}
// All of one gateway. It is written again only if something of it changed: who reads it keeps the place.
function showOpened() {
  const gateway = gateways.get(inView.name);
  if (!gateway) return;
  const told = JSON.stringify([gateway, lost]);
  if (told === inView.told) return;
  inView.told = told;
  const { word, rank } = stateOf(gateway), sensors = gateway.sensors || {};
  const top = make('div', 'top'), title = make('h2', '', printable(gateway.name) || 'No name');
  title.dir = 'auto';
  top.append(title, make('span', 'badge ' + (rank < NEEDS_NOBODY || lost ? 'stale' : 'live'), lost ? 'Not known' : word));
  const waits = number(gateway.oldest_undelivered_seconds);
  const figures = [['Since', gateway.since && moment(gateway.since)], ['Site', printable(gateway.site)], ['Version', printable(gateway.version, 40)],
    ['Straps that send', `${count(sensors.streaming)} of ${count(sensors.paired)}`],
    ['Silent', list(sensors.silent).slice(0, LISTED_MAX).map(name => printable(name) || 'no name').join(', ')],
    ['Oldest that waits', waits === undefined ? '' : lasting(waits)], ['Last answer', gateway.last_answer && moment(gateway.last_answer)],
    ...Object.entries(gateway.labels || {}).slice(0, LABELS_MAX).map(([key, label]) => [printable(key, 40), printable(label)])];
  const facts = make('dl', 'figures');
  facts.append(...figures.filter(([, value]) => value).flatMap(([key, value]) => [make('dt', '', key), make('dd', '', value)]));
  const items = make('ul', 'items'), backlog = make('ul', 'items');
  items.append(...list(gateway.items).filter(Boolean).slice(0, LISTED_MAX).map(item => {
    const line = make('li'), of = printable(item.sensor);
    line.append(make('p', 'name warn', '⚠ ' + (printable(item.detail, 500) || printable(item.name))), make('p', '', printable(item.remedy, 500)),
      make('p', 'soft', printable(item.name) + (of ? ' of ' + of : '') + (item.since ? ', since ' + moment(item.since) : '')));
    return line;
  }));
  backlog.append(...list(gateway.backlog).filter(Boolean).slice(0, LISTED_MAX).map(one =>
    make('li', '', `${printable(one.destination)} (${printable(one.kind, 40)}): ${count(one.samples)} waiting`)));
  inView.node.replaceChildren(top, facts, ...[items, backlog].filter(part => part.children.length));
}
function take(report) {
  const at = Date.parse(report && report.time);
  if (!report || !Array.isArray(report.gateways) || !Number.isFinite(at)) throw new Error('no answer of a fleet');
  heard = instant(); heardAt = at;
  isOld = report.old === true;
  const seen = new Set();
  const change = { worse: [], better: [] };
  for (const gateway of report.gateways) {
    if (!gateway || typeof gateway !== 'object') continue;
    const key = String(gateway.name), before = gateways.get(key);
    seen.add(key);
    gateways.set(key, gateway);
    const isWell = gateway.state === 'well';
    if (before && (before.state === 'well') !== isWell) change[isWell ? 'better' : 'worse'].push(printable(key, 60));
  }
  for (const key of gateways.keys()) if (!seen.has(key)) gateways.delete(key);
  for (const [kind, words] of [['worse', 'need attention'], ['better', 'well again']]) {
    const names = change[kind];
    if (names.length) say(`${names.length > 3 ? names.length + ' gateways' : names.join(', ')}: ${words}.`);
  }
  $('empty').hidden = gateways.size > 0;
  strip.node.hidden = !gateways.size;
  wall.use(gateways.size > 0);
}
async function ask() {
  if (asking || document.hidden && heard || performance.now() - askedAt < ASK_SECONDS * 1000) return;
  asking = true; askedAt = performance.now();
  try {
    const answer = await fetch('/v1/fleet/hosts', { cache: 'no-store', signal: AbortSignal.timeout(ANSWER_SECONDS * 1000) });
    const report = await answer.json();
    if (answer.ok) { take(report); refusal = ''; } else refusal = printable(report && report.message);
  } catch { /* Asked again; the age of the last answer tells. */ }
  asking = false;
  watch();
  showFleet();
}
function watch() {
  const silence = since(heard || opened);
  if (lost !== (isOld || silence > OLD_SECONDS)) {
    lost = !lost;
    const line = make('p', '', 'No answer from the fleet command. What is shown may be old. '), age = make('span');
    age.setAttribute('aria-hidden', 'true');
    line.append(age);
    $('lost').replaceChildren(...(lost ? [line] : []));
    document.title = lost ? 'No connection – Gateways' : 'Gateways';
    if (!lost) say('Connected again.');
    showFleet();
  }
  if (lost) text($('lost').querySelector('span'), isOld ? '(it asks no gateway any more)' : `(${refusal ? refusal + '; ' : ''}silent for ${lasting(silence)})`);
  let unwell = 0;
  for (const gateway of gateways.values()) if (gateway.state !== 'well') unwell += 1;
  text($('state'), lost ? 'Not connected' : !heard ? 'Connecting…' : unwell ? `${unwell} ${unwell === 1 ? 'needs' : 'need'} attention` : 'All well');
  $('state').className = lost || unwell ? 'warn' : 'soft';
}
function tick() { watch(); ask(); }
setInterval(tick, 1000);
for (const kind of ['pageshow', 'online']) addEventListener(kind, tick);
document.addEventListener('visibilitychange', tick);
tick();
