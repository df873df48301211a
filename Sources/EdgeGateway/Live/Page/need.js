// What a strap shows and what it needs: the same on its tile, on its card, in the strip and in the header.
const RANKS = { radio: -1, silent: 0, gateway: 1, contact: 2, strap: 3, battery: 4, warning: 5 };
const WEAR_IT = 'wear it, moisten the electrodes, end its connection to phones, check its battery';
const FIT_IT = 'moisten the electrodes and tighten the strap';
const ASK_FOR_IT = 'ask the person who looks after this strap';
// Items of the gateway that silence every strap: nothing is wrong with the straps then.
const RADIO_ITEMS = new Set([
  'bus-absent',
  'bluetoothd-absent',
  'bluetoothd-hung',
  'bluetoothd-refuses',
  'no-adapter',
  'radio-off',
]);

// How old a strap's newest frame is, and whether its rate is one of now. `passed` is the time since the report.
function newness(strap, passed) {
  const start = number(strap.seconds_since_frame), age = start === undefined ? undefined : start + passed;
  return { age, fresh: age !== undefined && age <= STALE_SECONDS && number(strap.bpm) !== undefined };
}
const healthItems = () => scope === 'full' && told && Array.isArray(told.health) ? told.health.filter(Boolean) : [];

// `word` and `extra` are what a tile has room for, `state` is the same in full. `level` is '' if all is well, `heed`,
// `alarm`, or `away` when nothing is known: then there is no rank either.
function faceOf(strap, passed, last) {
  const { age, fresh } = newness(strap, passed), charge = number(strap.battery_percent);
  const face = { name: strap.name, value: '–', unit: 'bpm', level: '', rank: NEEDS_NOBODY, advice: '', age, fresh: fresh && !lost };
  const remembered = last === null ? '' : 'last ' + last;
  if (lost) return { ...face, word: 'Not known', state: 'Not known', note: remembered, level: 'away', rank: undefined };
  const items = healthItems(), mine = items.filter(item => item.sensor === strap.sensor);
  const low = mine.find(item => item.name === 'battery-low'), other = mine.find(item => item !== low);
  const need = (kind, word, extra, advice) => Object.assign(face,
    { word, extra, state: [word, extra].filter(Boolean).join(' '), rank: RANKS[kind], level: kind === 'silent' ? 'alarm' : 'heed',
      advice: sentence(scope === 'full' ? advice : ASK_FOR_IT) });
  if (!fresh) {
    const cause = other || items.find(item => RADIO_ITEMS.has(item.name));
    const advice = cause ? cause.advice : WEAR_IT;
    if (age !== undefined && age <= STALE_SECONDS) need('silent', 'No rate', '', advice).state = 'No heart rate';
    else need('silent', 'No signal', age === undefined ? 'yet' : 'for ' + shortly(age), advice);
    face.note = remembered;
    return face;
  }
  face.value = String(strap.bpm);
  if (charge !== undefined) { face.note = charge + ' %'; face.noteOf = 'battery '; }
  if (strap.contact === false) need('contact', 'Off skin', low ? 'battery low' : '', FIT_IT);
  else if (other) need('strap', 'Not well', '', other.advice).state = printable(other.message, 300);
  else if (low) need('battery', 'Battery', 'low', low.advice);
  else Object.assign(face, { word: 'Live', state: 'Live', extra: strap.contact ? 'on skin' : '' });
  return face;
}
// What the gateway itself needs: its items that are about no strap on this page.
function gatewayNeeds(isShown) {
  return healthItems().filter(item => !isShown(item.sensor)).map(({ name, severity, message, advice }) => ({
    name: 'Gateway', state: printable(message, 300), advice: sentence(printable(advice, 500)),
    level: severity === 'warning' ? 'heed' : 'alarm',
    rank: RANKS[RADIO_ITEMS.has(name) ? 'radio' : severity === 'warning' ? 'warning' : 'gateway'] }));
}
