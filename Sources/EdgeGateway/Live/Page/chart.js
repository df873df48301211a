// The chart of one strap, of the person who wears it now.
class Chart {
  constructor(assignment, name) {
    this.assignment = assignment; this.minutes = 10; this.histories = {}; this.asked = {}; this.samples = [];
    this.cursor = null; this.listed = '';
    this.node = make('div', 'history');
    const span = make('div', 'span');
    span.setAttribute('role', 'group');
    this.span = span;
    this.buttons = [[10, '10 minutes'], [1440, '24 hours']].map(([minutes, words]) => {
      const button = make('button', '', words);
      button.type = 'button';
      button.addEventListener('click', () => { this.minutes = minutes; this.cursor = null; this.choose(); });
      button.minutes = minutes;
      span.append(button);
      return button;
    });
    this.area = make('div', 'chart');
    this.area.tabIndex = 0;
    for (const [key, value] of [['role', 'slider'], ['aria-readonly', 'true'], ['aria-valuemin', 0],
      ['aria-valuemax', 1], ['aria-valuenow', 1]]) this.area.setAttribute(key, value);
    this.svg = shape('svg', { 'aria-hidden': 'true', focusable: 'false' });
    this.area.append(this.svg);
    this.readout = make('p', 'readout soft');
    this.summary = make('p', 'summary');
    this.details = make('details');
    this.gapsTitle = make('summary');
    this.gapsList = make('ul');
    this.details.append(this.gapsTitle, this.gapsList);
    this.node.append(span, this.area, this.readout, this.summary, this.details);
    this.area.addEventListener('pointermove', event => this.point(event));
    this.area.addEventListener('pointerdown', event => this.point(event));
    this.area.addEventListener('pointerleave', () => {
      if (document.activeElement !== this.area) { this.cursor = null; this.draw(); }
    });
    this.area.addEventListener('focus', () => { if (this.cursor === null) this.move(0); });
    this.area.addEventListener('blur', () => { this.cursor = null; this.draw(); });
    this.area.addEventListener('keydown', event => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.area);
    this.rename(name);
    this.choose();
  }
  rename(name) { this.name = name; this.span.setAttribute('aria-label', 'Time shown for ' + name); this.label(); }
  label() {
    this.area.setAttribute('aria-label', 'Heart rate of ' + this.name + ', last '
      + (this.minutes === 10 ? '10 minutes' : '24 hours'));
  }
  choose() {
    for (const button of this.buttons) button.setAttribute('aria-pressed', button.minutes === this.minutes);
    this.label(); this.draw(); this.refresh();
  }
  add(at, bpm) {
    let last = this.samples[this.samples.length - 1];
    if (last && last.at - at > 60000) { this.samples = []; last = null; }   // the gateway's clock was set
    // The same frame is repeated until the next one comes.
    if (last && at - last.at < 150) return;
    this.samples.push({ at, bpm });
    if (this.samples.length > SAMPLES_MAX) this.samples.splice(0, this.samples.length - SAMPLES_MAX);
  }
  async refresh() {
    const minutes = this.minutes, asked = this.asked[minutes];
    if (!heard || document.hidden || this.assignment === undefined || asked && (asked.busy || since(asked.at) < asked.wait)) return;
    const ask = this.asked[minutes] = { busy: true, at: instant(), wait: RETRY_SECONDS };
    try {
      const answer = await fetch('/v1/live/history?assignment=' + this.assignment + '&minutes=' + minutes,
        { cache: 'no-store' });
      if (!answer.ok) throw new Error('refused');
      this.histories[minutes] = Chart.read(await answer.json());
      ask.wait = HISTORY_SECONDS[minutes];
      this.draw();
    } catch { /* The stream tells whether the gateway is there; this is asked again. */ }
    ask.busy = false;
  }
  static read(report) {
    const bucket = Math.max(1, number(report.bucket_seconds) || 5) * 1000;
    const points = (report.points || []).map(p => ({ at: Date.parse(p.at), low: p.low, mean: p.mean, high: p.high }))
      .filter(p => [p.at, p.low, p.mean, p.high].every(Number.isFinite)).sort((a, b) => a.at - b.at);
    const gaps = (report.gaps || []).map(g => ({ from: Date.parse(g.from),
      until: g.until ? Date.parse(g.until) : undefined, cause: g.cause }))
      .filter(g => Number.isFinite(g.from) && !Number.isNaN(g.until)).sort((a, b) => a.from - b.from);
    return { bucket, points, gaps, until: Date.parse(report.until) };
  }
  // What is known now: the gateway's columns, then those of samples that came by the stream since.
  known() {
    const bucket = this.minutes === 10 ? 5000 : 120000;
    const history = this.histories[this.minutes] || { bucket, points: [], gaps: [], until: 0 };
    const end = gatewayNow(), from = end - this.minutes * 60000;
    const last = history.points[history.points.length - 1];
    const after = last ? last.at + history.bucket : 0;
    const live = new Map();
    for (const sample of this.samples) {
      if (sample.at < Math.max(after, from) || sample.at > end + 1000) continue;
      const at = after ? after + Math.floor((sample.at - after) / history.bucket) * history.bucket
        : Math.floor(sample.at / history.bucket) * history.bucket;
      const column = live.get(at) || { at, low: Infinity, high: -Infinity, sum: 0, count: 0 };
      column.low = Math.min(column.low, sample.bpm); column.high = Math.max(column.high, sample.bpm);
      column.sum += sample.bpm; column.count += 1; column.mean = column.sum / column.count;
      live.set(at, column);
    }
    const newest = this.samples[this.samples.length - 1];
    const gaps = [];
    for (const gap of history.gaps) {
      let until = gap.until, open = until === undefined;
      if (open) {
        const resumed = this.samples.find(s => s.at > Math.max(gap.from, history.until));
        until = resumed ? resumed.at : end;
        open = !resumed;
      }
      if (until > from && gap.from < end) {
        gaps.push({ from: Math.max(gap.from, from), until: Math.min(until, end), began: gap.from, open, cause: gap.cause });
      }
    }
    // A silence without a known cause yet.
    const covered = gaps.reduce((most, gap) => Math.max(most, gap.until), 0);
    const lastSeen = Math.max(newest ? newest.at : 0, last ? Math.min(last.at + history.bucket, end) : 0, covered);
    if (lastSeen && end - lastSeen > STALE_SECONDS * 1000) {
      gaps.push({ from: Math.max(lastSeen, from), until: end, began: lastSeen, open: true, cause: undefined });
    }
    return { from, end, bucket: history.bucket, gaps,
      points: history.points.filter(p => p.at + history.bucket > from).concat([...live.values()]) };
  }
  // The part of each column that no gap covers.
  static pieces(known) {
    const pieces = [];
    for (const point of known.points) {
      let free = [[Math.max(point.at, known.from), Math.min(point.at + known.bucket, known.end)]];
      for (const gap of known.gaps) {
        free = free.flatMap(([a, b]) => gap.until <= a || gap.from >= b ? [[a, b]]
          : [[a, gap.from], [gap.until, b]].filter(([c, d]) => d > c));
      }
      free = free.filter(([a, b]) => b > a).sort((p, q) => (q[1] - q[0]) - (p[1] - p[0]));
      if (free.length) pieces.push({ from: free[0][0], until: free[0][1], point });
    }
    return pieces.sort((a, b) => a.from - b.from);
  }
  draw() {
    const width = this.area.clientWidth, height = this.area.clientHeight;
    if (!width || !height) return;
    const known = this.shown = this.known();
    const pieces = Chart.pieces(known);
    const left = 30, right = width - 4, top = 8, bottom = height - 18;
    const x = ms => left + (ms - known.from) / (known.end - known.from) * (right - left);
    let low = Infinity, high = -Infinity, sum = 0;
    for (const { point } of pieces) {
      low = Math.min(low, point.low); high = Math.max(high, point.high); sum += point.mean;
    }
    let floor = Number.isFinite(low) ? Math.floor((low - 3) / 10) * 10 : 40;
    let ceiling = Number.isFinite(high) ? Math.ceil((high + 3) / 10) * 10 : 120;
    if (ceiling - floor < 40) { floor = Math.max(0, floor - 10); ceiling = floor + 40; }
    const y = bpm => bottom - (bpm - floor) / (ceiling - floor) * (bottom - top);
    const step = ceiling - floor <= 60 ? 20 : ceiling - floor <= 120 ? 40 : 60;
    const parts = [];
    for (let bpm = Math.ceil(floor / step) * step; bpm <= ceiling; bpm += step) {
      parts.push(shape('line', { class: 'grid', x1: left, x2: right, y1: y(bpm), y2: y(bpm) }));
      parts.push(shape('text', { x: left - 5, y: y(bpm) + 4, 'text-anchor': 'end' }, String(bpm)));
    }
    const every = (this.minutes === 10 ? (width < 300 ? 5 : 2) : (width < 300 ? 480 : 240)) * 60000;
    const shift = new Date(known.end).getTimezoneOffset() * 60000;
    for (let at = Math.ceil((known.from - shift) / every) * every + shift; at <= known.end; at += every) {
      if (x(at) < left + 14 || x(at) > right - 14) continue;
      parts.push(shape('line', { class: 'grid', x1: x(at), x2: x(at), y1: top, y2: bottom }));
      parts.push(shape('text', { x: x(at), y: height - 4, 'text-anchor': 'middle' }, clock(at, false)));
    }
    for (const gap of known.gaps) {
      parts.push(shape('rect', { class: 'gap', x: x(gap.from), y: top,
        width: Math.max(1, x(gap.until) - x(gap.from)), height: bottom - top }));
    }
    const runs = [];
    for (const piece of pieces) {
      const run = runs[runs.length - 1];
      if (run && piece.from - run[run.length - 1].until < 1) run.push(piece); else runs.push([piece]);
    }
    const f = value => value.toFixed(1);
    for (const run of runs) {
      const forth = run.map(p => `${f(x(p.from))} ${f(y(p.point.high))}L${f(x(p.until))} ${f(y(p.point.high))}`);
      const back = [...run].reverse()
        .map(p => `${f(x(p.until))} ${f(y(p.point.low))}L${f(x(p.from))} ${f(y(p.point.low))}`);
      parts.push(shape('path', { class: 'band', d: 'M' + forth.concat(back).join('L') + 'Z' }));
      const first = run[0], last = run[run.length - 1];
      const middle = run.map(p => `${f(x((p.from + p.until) / 2))} ${f(y(p.point.mean))}`);
      parts.push(shape('path', { class: 'mean', d: `M${f(x(first.from))} ${f(y(first.point.mean))}L`
        + middle.join('L') + `L${f(x(last.until))} ${f(y(last.point.mean))}` }));
    }
    if (this.cursor !== null) {
      parts.push(shape('line', { class: 'cursor', x1: x(this.at()), x2: x(this.at()), y1: top, y2: bottom }));
    }
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    this.tell();
    text(this.summary, pieces.length ? `Low ${low}, mean ${Math.round(sum / pieces.length)}, high ${high} bpm`
      : 'No heart rate in this time');
    this.list(known);
  }
  list(known) {
    const gaps = known.gaps.filter(gap => gap.until - gap.from >= 1000).reverse();
    const lines = gaps.slice(0, GAPS_LISTED_MAX).map(gap => `${momentOf(gap.began)} – `
      + `${gap.open ? 'now' : momentOf(gap.until)} (${lasting((gap.until - gap.began) / 1000)}): ${this.reason(gap)}`);
    if (gaps.length > GAPS_LISTED_MAX) lines.push(`and ${gaps.length - GAPS_LISTED_MAX} earlier`);
    const joined = lines.join('\n');
    if (joined === this.listed && this.gapsTitle.textContent) return;
    this.listed = joined;
    text(this.gapsTitle, gaps.length ? `Times without data: ${gaps.length}` : 'No time without data');
    this.gapsList.replaceChildren(...(lines.length ? lines : ['Nothing is missing here.']).map(l => make('li', '', l)));
  }
  reason(gap) {
    if (scope !== 'full') return 'no data';
    return gap.cause ? 'no data, ' + (CAUSES[gap.cause] || gap.cause) : 'no data, cause not yet known';
  }
  // The cursor stays at its time while the chart moves on under it.
  at() { return Math.min(Math.max(this.cursor, this.shown.from), this.shown.end); }
  columns() { return Math.round(this.minutes * 60000 / this.shown.bucket); }
  move(columns) {
    if (!this.shown) this.shown = this.known();
    this.cursor = Math.min(Math.max((this.cursor === null ? this.shown.end - this.shown.bucket / 2 : this.cursor)
      + columns * this.shown.bucket, this.shown.from), this.shown.end);
    this.draw();
  }
  key(event) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -12, PageUp: 12,
      Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (Number.isFinite(steps[event.key])) this.move(steps[event.key]);
    else { this.cursor = event.key === 'Home' ? 0 : Number.MAX_SAFE_INTEGER; this.move(0); }
  }
  point(event) {
    if (!this.shown) return;
    const box = this.area.getBoundingClientRect();
    const part = (event.clientX - box.left - 30) / (box.width - 34);
    this.cursor = this.shown.from + Math.min(1, Math.max(0, part)) * (this.shown.end - this.shown.from);
    this.draw();
  }
  tell() {
    if (this.cursor === null) {
      text(this.readout, isTouched ? 'Tap the chart for a time and its rate.' : 'Point at the chart, or use the arrow keys.');
      if (!this.area.hasAttribute('aria-valuetext')) this.area.setAttribute('aria-valuetext', 'newest');
      return;
    }
    const at = this.at(), known = this.shown;
    const gap = known.gaps.find(g => at >= g.from && at <= g.until);
    const piece = Chart.pieces(known).find(p => at >= p.from && at <= p.until);
    let words = clock(at, this.minutes === 10) + ': ';
    if (gap) words += this.reason(gap) + (gap.open ? `, since ${momentOf(gap.began)}`
      : `, for ${lasting((gap.until - gap.began) / 1000)}`);
    else if (piece) words += `${Math.round(piece.point.mean)} bpm`
      + (piece.point.low < piece.point.high ? ` (${piece.point.low} to ${piece.point.high})` : '');
    else words += 'no data';
    text(this.readout, words);
    const index = Math.round((at - known.from) / known.bucket);
    for (const [key, value] of [['valuemax', this.columns()], ['valuenow', Math.min(index, this.columns())],
      ['valuetext', words]]) {
      if (this.area.getAttribute('aria-' + key) !== String(value)) this.area.setAttribute('aria-' + key, value);
    }
  }
}
