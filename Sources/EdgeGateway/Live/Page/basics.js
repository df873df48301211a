'use strict';
// Ages and silences, seconds. A strap sends once a second; the stream repeats itself every 2 s.
const STALE_SECONDS = 10, LOST_SECONDS = 6;
const TICK_MS = 250, REOPEN_MS_MAX = 5000;
const HISTORY_SECONDS = { 10: 15, 1440: 120 }, RETRY_SECONDS = 5, UPLOADS_SECONDS = 5, UPLOADS_AGE_MAX = 60;
const SAMPLES_MAX = 3600, GAPS_LISTED_MAX = 50, UPLOADS_FIRST = 5;
const CAUSES = {
  'no-contact': 'the strap does not touch skin',
  'out-of-range': 'the strap is not heard',
  'connecting': 'the strap is being connected',
  'link-lost': 'the link was lost and the strap has not been heard since',
  'silent': 'the strap is connected and sends nothing, or no cause is known',
  'undecodable': 'the strap sends frames without a readable measurement; they are kept',
  'no-rate': 'the strap sends frames without a usable heart rate; they are kept',
  'adapter-down': 'the Bluetooth adapter is off or missing',
  'adapter-full': 'the adapter carries no further link',
  'daemon-gone': 'bluetoothd or the system bus did not answer',
  'gateway-off': 'the gateway was stopped, updated, suspended or without power',
  'queue-full': 'neither disk nor memory could take the frames',
  'store-lost': 'the store broke, with the samples of that time',
  'clock-unknown': 'an unknown time between two boots: the clock of one is not trusted',
};
const LINKS = { absent: 'not heard', seen: 'heard', connecting: 'connecting', resolving: 'connecting',
  subscribing: 'connecting', streaming: 'connected', suspended: 'paused' };

// Words for a finger or for a pointer and keys.
const isTouched = matchMedia('(hover: none)').matches;
const $ = id => document.getElementById(id);
function text(node, words) { if (node.textContent !== words) node.textContent = words; }
function make(tag, className, words) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (words !== undefined) node.textContent = words;
  return node;
}
const SVG = 'http://www.w3.org/2000/svg';
function shape(tag, attributes, words) {
  const node = document.createElementNS(SVG, tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (words !== undefined) node.textContent = words;
  return node;
}
// A name as it is drawn: without characters that steer the text around it or cannot be seen.
const UNSEEN = /[\p{Cc}\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;
function printable(words, length = 200) {
  const seen = String(words ?? '').replace(UNSEEN, '').trim();
  return /[^\s\u200c\u200d\p{M}]/u.test(seen) ? [...seen.slice(0, 2 * length)].slice(0, length).join('') : '';
}
const sentence = words => words ? words[0].toUpperCase() + words.slice(1) : '';
const number = value => typeof value === 'number' && Number.isFinite(value) ? value : undefined;

// Time. A phone's steady clock may stand still while it sleeps and a wall clock may be set: the longer
// of the two is how old something is.
const instant = (ago = 0) => ({ steady: performance.now() - ago * 1000, wall: Date.now() - ago * 1000 });
const since = then => Math.max(performance.now() - then.steady, Date.now() - then.wall, 0) / 1000;
let heard = null;            // when the newest report came, or would have come had it not been late
let heardAt = 0;             // and the gateway's time in it, ms
const opened = instant();    // when the page began to wait for it
const gatewayNow = () => heard ? heardAt + since(heard) * 1000 : Date.now();
const clock = (ms, seconds) => new Date(ms).toLocaleTimeString([],
  { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined, hourCycle: 'h23' });
const moment = stamp => momentOf(Date.parse(stamp));
function momentOf(ms) {
  if (!Number.isFinite(ms)) return '–';
  const day = new Date(ms);
  return day.toDateString() === new Date(gatewayNow()).toDateString() ? clock(ms, true)
    : day.toLocaleDateString([], { month: 'short', day: 'numeric' }) + ' ' + clock(ms, false);
}
function lasting(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s % 60 && s < 600 ? ' ' + s % 60 + ' s' : '');
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' days';
}
function shortly(seconds) {  // where there is room for six characters
  const s = Math.max(0, Math.floor(seconds));
  return s < 60 ? s + ' s' : s < 3600 ? Math.floor(s / 60) + ' min' : s < 172800 ? Math.floor(s / 3600) + ' h'
    : Math.floor(s / 86400) + ' d';
}
let saidAt = 0;
function say(words) {        // for screen readers, sparingly
  if (performance.now() - saidAt < 1500) words = $('said').textContent + ' ' + words;
  saidAt = performance.now();
  text($('said'), words.trim().slice(-300));
}
