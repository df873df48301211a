// What can be seen comes first.
let started = false;
const token = fragment();
function start() {
  if (started) return;
  started = true;
  setInterval(tick, TICK_MS);
  if (token) bring(token); else openStream();
}
requestAnimationFrame(() => setTimeout(start));
setTimeout(start, 1000);   // a page in the background is not painted
