let told = null, uploadsAsked = null, uploadsOpen = false, uploadsFor = '';
function showGateway(report) {
  if (scope === 'share') return;
  told = report;
  $('side').hidden = false;
  const health = Array.isArray(report.health) ? report.health : [];
  const next = report.next_step;
  text($('health-well'), next ? `${next.message}: ${next.advice}`
    : health.length ? '' : report.well ? 'The gateway is well.' : 'The gateway is not well.');
  $('health-well').className = report.well ? 'good' : 'warn';
  $('health').hidden = !health.length;
  $('health').replaceChildren(...health.map(item => {
    const line = make('li');
    line.append(make('p', 'name warn', '⚠ ' + item.message), make('p', '', item.advice),
      make('p', 'soft', `${item.name}, since ${moment(item.since)}`));
    return line;
  }));
  const figures = [['Waiting', report.pending], ['Held for a person', report.held], ['Refused for good', report.dead],
    ['Delivered', report.delivered]].map(([words, count]) => [words, (number(count) || 0).toLocaleString()]);
  if (report.oldest_unsent) figures.push(['Oldest that waits', moment(report.oldest_unsent)]);
  figures.push(['Last delivery', report.last_delivery ? moment(report.last_delivery) : 'none yet']);
  figures.push(['Clock', report.clock_trusted === false ? 'not trusted' : 'trusted']);
  $('delivery').replaceChildren(...figures.flatMap(([words, value]) => [make('dt', '', words), make('dd', '', value)]));
  showDestinations(Array.isArray(report.destinations) ? report.destinations : []);
  if (wall.node.hidden) faces(); else wall.refresh();
  askUploads();
}
function showDestinations(all) {
  $('destinations').hidden = !all.length;
  $('destinations').replaceChildren(...all.map(one => {
    const line = make('li'), trouble = one.trouble || (one.state === 'active' ? '' : one.state);
    const counts = [[one.pending, 'waiting'], [one.dead, 'refused for good'], [one.delivered, 'delivered']]
      .filter(([count, words]) => count || words !== 'refused for good')
      .map(([count, words]) => `${(number(count) || 0).toLocaleString()} ${words}`).join(', ');
    line.append(make('p', trouble ? 'warn' : '', `${trouble ? '⚠ ' : ''}${one.name}: ${counts}`));
    if (trouble) line.append(make('p', '', trouble));
    line.append(make('p', 'soft', `${one.kind}, last delivery `
      + (one.last_delivery ? moment(one.last_delivery) : 'none yet')));
    return line;
  }));
}
async function askUploads() {
  if (scope !== 'full' || !told || document.hidden) return;
  const state = [told.delivered, told.dead, told.held].join();
  const age = uploadsAsked ? since(uploadsAsked) : Infinity;
  if (age < UPLOADS_SECONDS || state === uploadsFor && age < UPLOADS_AGE_MAX) return;
  uploadsAsked = instant();
  try {
    const answer = await fetch('/v1/live/uploads', { cache: 'no-store' });
    if (!answer.ok) return;
    const report = await answer.json();
    uploadsFor = state;
    showUploads(report);
  } catch { /* Asked again. */ }
}
let uploads = { uploads: [], more: false };
function showUploads(report) {
  if (!Array.isArray(report.uploads)) return;
  uploads = report;
  const all = report.uploads, shown = uploadsOpen ? all : all.slice(0, UPLOADS_FIRST);
  $('uploads-none').hidden = all.length > 0;
  $('uploads-list').hidden = !all.length;
  $('uploads-list').replaceChildren(...shown.map(upload => {
    const line = make('li'), good = upload.outcome === 'delivered';
    const count = number(upload.samples) || 0;
    line.append(make('p', good ? '' : 'warn', `${upload.at ? moment(upload.at) : 'time not known'}: `
      + `${count} ${count === 1 ? 'sample' : 'samples'}, ${upload.outcome}`));
    line.append(make('p', 'soft', upload.enrollment + (upload.first && upload.last
      ? `, of ${moment(upload.first)} – ${moment(upload.last)}` : '')));
    return line;
  }));
  $('uploads-all').hidden = all.length <= UPLOADS_FIRST;
  text($('uploads-all'), uploadsOpen ? 'Show the newest only' : `Show all ${all.length}`);
  $('uploads-all').setAttribute('aria-expanded', uploadsOpen);
  $('uploads-more').hidden = !report.more || !uploadsOpen && all.length > UPLOADS_FIRST;
}
$('uploads-all').addEventListener('click', () => { uploadsOpen = !uploadsOpen; showUploads(uploads); });
