// Tokens come in the fragment, which no server and no log sees, and leave the address bar at once.
function needToken(problem) {
  asking = true;
  if (source) { source.close(); source = null; }
  wall.use(false);
  beds.clear();
  dropCards();
  watch();
  $('empty').hidden = true; $('side').hidden = true; $('token').hidden = false;
  strip.node.hidden = true;
  tellState('Not connected');
  text($('token-problem'), problem);
}
async function bring(token) {
  let problem;
  try {
    const answer = await fetch('/v1/session', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }) });
    if (answer.status === 204) {
      asking = false; heard = null; reopenMs = 1000;
      Object.assign(opened, instant());
      $('token').hidden = true; $('token-text').value = '';
      tellState('Connecting…');
      return openStream();
    }
    if (answer.status === 429) {
      problem = `Too many tries. Wait ${parseInt(answer.headers.get('Retry-After'), 10) || 60} s and try again.`;
    } else {
      const report = await answer.json();
      problem = `${report.message}: ${report.advice}.`;
    }
  } catch { problem = 'The gateway does not answer. Try again in a moment.'; }
  needToken(problem);
}
function fragment() {
  const token = location.hash.slice(1);
  if (location.hash || location.href.endsWith('#')) history.replaceState(null, '', location.pathname);
  return token;
}
$('token-form').addEventListener('submit', event => {
  event.preventDefault();
  const words = $('token-text').value.trim();
  bring(words.slice(words.lastIndexOf('#') + 1));
});
addEventListener('hashchange', () => { const token = fragment(); if (token) bring(token); });
document.addEventListener('visibilitychange', tick);
addEventListener('pageshow', tick);
addEventListener('online', tick);
