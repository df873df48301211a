// The stream. A browser gives up on an answer that is none (a proxy's, "too many viewers"), and may
// wait on a connection that is long gone: both are opened anew.
let source = null, openedStream = null, reopenMs = 1000, reopenAt = 0, refusal = '';
function openStream() {
  if (source) source.close();
  openedStream = instant();
  const mine = source = new EventSource('/v1/live');
  const receive = show => event => {
    if (mine !== source) return;
    let report;
    try { report = JSON.parse(event.data); } catch { return; }
    if (!report || typeof report !== 'object') return;
    reopenMs = 1000; refusal = '';
    show(report);
  };
  mine.addEventListener('open', () => { isFirst = true; });
  mine.addEventListener('straps', receive(showStraps));
  mine.addEventListener('gateway', receive(showGateway));
  mine.addEventListener('error', async () => {
    if (mine !== source || mine.readyState !== EventSource.CLOSED) return;
    source = null;
    later();
    // The same again, for an EventSource does not tell the answer.
    const asked = new AbortController();
    try {
      const answer = await fetch('/v1/live', { cache: 'no-store', signal: asked.signal });
      if (answer.status === 401) return needToken('');
      refusal = answer.ok ? '' : (await answer.json()).message || '';
    } catch { refusal = ''; /* The gateway is away. */ }
    asked.abort();
  });
}
function later() { reopenAt = performance.now() + reopenMs; reopenMs = Math.min(reopenMs * 2, REOPEN_MS_MAX); }
let asking = false;          // a token is wanted: there is nothing to reconnect with
function watch() {
  const silence = since(heard || opened);
  const nowLost = !asking && silence > LOST_SECONDS;
  if (nowLost !== lost) {
    lost = nowLost;
    document.title = lost ? 'No connection – Heart rates' : 'Heart rates';
    if (lost) {
      const line = make('p', '', 'No connection to the gateway. Heart rates are hidden until it is back. ');
      const count = make('span', 'count');
      count.setAttribute('aria-hidden', 'true');
      line.append(count);
      $('lost').replaceChildren(line);
      tellState('Not connected');
    } else {
      $('lost').replaceChildren();
      if (heard) say('Connected again.');
    }
  }
  if (lost) text($('lost').querySelector('.count'), `(${refusal ? refusal + '; ' : ''}silent for ${lasting(silence)})`);
}
let drawnAt = 0;
function tick() {
  watch();
  if (wall.node.hidden) faces(); else wall.refresh();
  askMinute();
  if (!asking && started) {
    if (source && lost && since(openedStream) > LOST_SECONDS) { source.close(); source = null; later(); }
    if (!source && performance.now() >= reopenAt) openStream();
  }
  if (document.hidden || performance.now() - drawnAt < 1000) return;
  drawnAt = performance.now();
  for (const card of cards.values()) {
    if (!lost) card.chart.refresh();
    card.chart.draw();
  }
  if (!lost) askUploads();
}
