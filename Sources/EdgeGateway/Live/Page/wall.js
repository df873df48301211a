// A wall of tiles, of straps or of gateways: sizes, places, filter, keys, and the one that is opened.

// How long a tile must need a person, or no longer, before its place changes. Words and colours change at once.
const PLACE_SECONDS = 5;
// And while somebody points or types, no tile moves away from under the finger.
const POINTED_SECONDS = 3;
// Between two paints: 2 ms a tile, so that forty tiles are painted with each report and two hundred with every other.
// A paint costs the same whether a few tiles changed or many; a rate must be seen half a second after its beat.
const PAINT_MS_A_TILE = 2, PAINT_MS_MAX = 400;
const TILE_GAP = 6, TIGHT_WIDTH = 150, UNIT_WIDTH = 230, WIDE_SCREEN = 768;
const SMALLEST = { screen: { wide: 84, high: 76 }, phone: { wide: 136, high: 104 } };
const NEEDS_NOBODY = 9;      // the rank of who is well; lower ranks come first

// The type of a tile, CSS pixels: the rate takes what name, trend and foot leave, and `chars` digits must fit its
// width (a digit of the widest usual face is 0.7 em wide).
function typeSizes(wide, high, chars) {
  const between = (low, value, most) => Math.min(Math.max(low, value), most);
  const pad = Math.round(between(3, wide * 0.03, 12));
  const name = between(12, Math.min(high * 0.16, wide * 0.11), 64), foot = between(12, Math.min(high * 0.11, wide * 0.075), 44);
  const trend = between(12, high * 0.17, 150), nameRow = name * 1.35, footRow = foot * 1.35;
  const tight = wide < TIGHT_WIDTH, hasUnit = wide >= UNIT_WIDTH;
  const left = high - 2 * pad - 4 - nameRow - footRow - trend, across = wide - 2 * pad - 4 - (hasUnit ? foot * 3.2 : 0);
  return { chars, pad, name, foot, trend, nameRow, footRow, tight, hasUnit, high, rate: Math.max(14, Math.min(left * 0.98, across / (chars * 0.7))) };
}
// The number of columns that shows all tiles at once with the largest rates; if even the smallest tiles cannot be
// seen at once, as many columns of those as there is room for, and the page scrolls.
function fitTiles(count, wide, high, chars, smallest) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const w = (wide - (columns - 1) * TILE_GAP) / columns;
    const h = Math.min((high - (rows - 1) * TILE_GAP) / rows, w * 1.1);
    if (w < smallest.wide) break;
    if (h < smallest.high) continue;
    const size = typeSizes(w, h, chars);
    if (!best || size.rate > best.rate + 0.5) best = { columns, ...size };
  }
  if (best) return best;
  const columns = Math.max(1, Math.floor((wide + TILE_GAP) / (smallest.wide + TILE_GAP)));
  const w = (wide - (columns - 1) * TILE_GAP) / columns;
  return { columns, ...typeSizes(w, Math.max(smallest.high, Math.min(w * 0.8, 200)), chars) };
}
// Who needs a person has the first places, the worst first. Everybody else stays at the own place; who is at home
// in one of the first gives way, to the place of one who went there.
function places(beds, needy) {
  const first = new Set(needy), giveWay = beds.slice(0, needy.length).filter(key => !first.has(key));
  return needy.concat(beds.slice(needy.length).map(key => first.has(key) ? giveWay.shift() : key));
}
const folded = words => words.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();

class Wall {
  // `look()` gives the faces by key when they are painted; a face without a rank keeps its place, for nothing is known
  // of it now. `open(key)` gives what the opened tile shows, or null; `closed()` is called when it is closed again.
  constructor({ label, things, hasTrend, look, open, closed }) {
    Object.assign(this, { things, hasTrend, look, open, closed });
    this.tiles = new Map(); this.beds = []; this.order = []; this.size = {};
    this.openKey = null; this.pointedAt = -Infinity; this.paintedAt = 0; this.filter = ''; this.onlyNeedy = false; this.backs = 0;
    const button = (words, act) => {
      const node = make('button', '', words);
      node.type = 'button';
      node.addEventListener('click', act);
      return node;
    };
    this.field = make('input');
    this.field.type = 'search'; this.field.placeholder = 'Filter by name'; this.field.maxLength = 64;
    for (const [key, value] of [['aria-label', `Filter ${things} by name`], ['autocomplete', 'off'], ['spellcheck', 'false']]) {
      this.field.setAttribute(key, value);
    }
    this.field.addEventListener('input', () => { this.filter = folded(this.field.value.trim()); this.arrange(true); });
    this.field.addEventListener('keydown', event => {
      if (event.key !== 'Escape' || !this.field.value) return;
      event.preventDefault();
      this.field.value = this.filter = '';
      this.arrange(true);
    });
    this.needy = button('Needs a person', () => {
      this.onlyNeedy = !this.onlyNeedy;
      this.needy.setAttribute('aria-pressed', this.onlyNeedy);
      this.arrange(true);
    });
    this.needy.setAttribute('aria-pressed', false);
    const dark = button('Dark', () => scheme(!isDark()));
    const full = button('Full screen', () => document.fullscreenElement ? document.exitFullscreen()
      : document.documentElement.requestFullscreen().catch(() => {}));
    full.hidden = !document.fullscreenEnabled;
    const pressed = () => {
      dark.setAttribute('aria-pressed', isDark());
      full.setAttribute('aria-pressed', Boolean(document.fullscreenElement));
    };
    const isDark = () => (document.documentElement.style.colorScheme || (matchMedia('(prefers-color-scheme: dark)').matches
      ? 'dark' : 'light')) === 'dark';
    const scheme = wanted => {
      document.documentElement.style.colorScheme = wanted ? 'dark' : 'light';
      try { localStorage.setItem('scheme', wanted ? 'dark' : 'light'); } catch { /* Not kept, then. */ }
      pressed();
    };
    this.tally = make('p', 'tally');
    this.tools = make('div', 'tools');
    this.tools.append(this.tally, this.field, this.needy, dark, full);
    this.list = make('ul', 'tiles');
    this.list.setAttribute('role', 'list');
    this.none = make('p', 'none-match');
    this.node = make('section');
    this.node.setAttribute('aria-label', label);
    const hint = make('p', 'unseen', 'Arrow keys move between tiles, Enter opens one.');
    this.node.append(hint, this.list, this.none);
    this.tools.hidden = this.node.hidden = this.none.hidden = true;
    this.list.addEventListener('keydown', event => this.key(event));
    this.list.addEventListener('click', event => this.clicked(event));
    this.list.addEventListener('focusin', event => this.reach(event.target));
    for (const kind of ['pointermove', 'pointerdown', 'keydown']) {
      this.list.addEventListener(kind, () => { this.pointedAt = performance.now(); }, { passive: true });
    }
    this.dialog = make('dialog', 'opened');
    const close = button('Close', () => this.dialog.close());
    close.className = 'close';
    this.inside = make('div');
    this.dialog.append(close, this.inside);
    this.dialog.addEventListener('click', event => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener('close', () => this.wasClosed());
    document.body.append(this.dialog);
    // The browser's Back closes what was opened, as on a phone everybody expects.
    if (history.state) history.replaceState(null, '');
    addEventListener('popstate', () => { if (this.backs) this.backs -= 1; else if (this.dialog.open) this.dialog.close(); });
    addEventListener('resize', () => this.fit());
    document.addEventListener('fullscreenchange', () => { pressed(); this.fit(); });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', pressed);
    try { const kept = localStorage.getItem('scheme'); if (kept) scheme(kept === 'dark'); } catch { /* As the device is set. */ }
    pressed();
  }
  refresh() {
    if (this.pending || this.node.hidden) return;
    this.pending = true;
    const paint = () => requestAnimationFrame(() => { this.pending = false; this.paintedAt = performance.now(); this.paint(); });
    const wait = this.paintedAt + Math.min(PAINT_MS_MAX, PAINT_MS_A_TILE * this.tiles.size) - performance.now();
    if (wait > 0) setTimeout(paint, wait); else paint();
  }
  paint() {
    if (this.node.hidden) return;
    const faces = this.look(), now = performance.now(), away = now - this.pointedAt > POINTED_SECONDS * 1000;
    let chars = 3, named = false, moved = false;
    for (const [key, face] of faces) {
      let tile = this.tiles.get(key);
      const isNew = !tile;
      if (isNew) {
        this.tiles.set(key, tile = new Tile(key, this.hasTrend));
        tile.rank = tile.wanted = face.rank ?? NEEDS_NOBODY; tile.since = tile.rankedAt = now;
      }
      if (isNew || tile.shown.name !== face.name || tile.found !== face.found) { named = true; tile.found = face.found; }
      tile.paint(face);
      chars = Math.max(chars, face.value.length);
      const rank = face.rank ?? tile.rank;
      if (rank !== tile.wanted) { tile.wanted = rank; tile.since = now; }
      if (tile.rank !== tile.wanted && away && now - tile.since >= PLACE_SECONDS * 1000) {
        tile.rank = tile.wanted; tile.rankedAt = now; moved = true;
      }
    }
    for (const [key, tile] of this.tiles) {
      if (faces.has(key)) continue;
      this.tiles.delete(key); tile.node.remove(); named = true;
      if (key === this.openKey) this.dialog.close();
    }
    const refit = chars !== this.chars;
    this.chars = chars;
    if (named || !this.beds.length) {
      const collator = new Intl.Collator('en', { numeric: true });
      for (const tile of this.tiles.values()) tile.folded = folded(tile.shown.name + ' ' + (tile.found || ''));
      this.beds = [...this.tiles.keys()].sort((a, b) => collator.compare(this.tiles.get(a).shown.name, this.tiles.get(b).shown.name)
        || (a < b ? -1 : a > b ? 1 : 0));
    }
    if (named || moved) this.arrange(false);
    if (refit) this.fit();
    this.count();
  }
  // Gives every tile its place.
  arrange(again) {
    const matching = this.beds.filter(key => this.tiles.get(key).folded.includes(this.filter));
    const needy = matching.filter(key => this.tiles.get(key).rank < NEEDS_NOBODY).map((key, bed) => [this.tiles.get(key), bed])
      .sort(([a, i], [b, j]) => a.rank - b.rank || a.rankedAt - b.rankedAt || i - j).map(([tile]) => tile.key);
    this.order = this.onlyNeedy ? needy : places(matching, needy);
    const nodes = this.order.map(key => this.tiles.get(key).node), wanted = new Set(nodes);
    const focused = document.activeElement;
    for (const node of [...this.list.children]) if (!wanted.has(node)) node.remove();
    // Only those whose place is another one are moved.
    const there = [...this.list.children];
    if (there.length === nodes.length) {
      nodes.forEach((node, place) => { if (there[place] !== node) there[place].remove(); });
    }
    nodes.forEach((node, place) => { if (this.list.children[place] !== node) this.list.insertBefore(node, this.list.children[place] || null); });
    if (focused && focused !== document.activeElement && this.list.contains(focused)) focused.focus({ preventScroll: true });
    if (!nodes.some(node => node.firstChild.tabIndex === 0) && nodes.length) this.reach(nodes[0].firstChild);
    this.none.hidden = nodes.length > 0 || !this.beds.length;
    text(this.none, this.filter ? `No name has “${this.field.value.trim()}” in it.` : 'Nobody needs a person now.');
    if (again) this.count();
    if (this.fitted !== nodes.length || again) this.fit();
  }
  count() {
    let needy = 0;
    const shown = new Set(this.order);
    let hidden = 0;
    for (const tile of this.tiles.values()) {
      if (tile.wanted >= NEEDS_NOBODY) continue;
      needy += 1;
      if (!shown.has(tile.key)) hidden += 1;
    }
    const all = this.tiles.size, some = this.order.length < all;
    text(this.tally, (some ? `${this.order.length} of ${all} ${this.things} shown` : `${all} ${this.things}`)
      + (hidden ? `; ${hidden} of those hidden need a person` : ''));
    this.tally.classList.toggle('warn', hidden > 0);
    text(this.needy, needy ? `Needs a person: ${needy}` : 'Needs a person: none');
  }
  fit() {
    if (this.node.hidden || !this.order.length) return;
    const wide = this.node.clientWidth, top = this.node.getBoundingClientRect().top + scrollY;
    const kind = innerWidth >= WIDE_SCREEN ? 'screen' : 'phone';
    const size = fitTiles(this.order.length, wide, innerHeight - top - 8, this.chars || 3, SMALLEST[kind]);
    this.fitted = this.order.length;
    if (JSON.stringify(size) === JSON.stringify(this.size)) return;
    this.size = size;
    const set = (name, value) => this.list.style.setProperty(name, value);
    set('--columns', size.columns); set('--chars', size.chars);
    for (const [name, value] of [['high', size.high], ['pad', size.pad], ['name', size.name], ['name-row', size.nameRow],
      ['rate', size.rate], ['trend', size.trend], ['foot', size.foot], ['foot-row', size.footRow]]) set('--' + name, value.toFixed(1) + 'px');
    this.list.classList.toggle('tight', size.tight);
    this.list.classList.toggle('bare', !size.hasUnit);
  }
  // One tile is reached by Tab, the others by arrow keys.
  reach(button) {
    if (!button.classList.contains('tile') || this.reached === button && button.tabIndex === 0) return;
    if (this.reached) this.reached.tabIndex = -1;
    this.reached = button;
    button.tabIndex = 0;
  }
  key(event) {
    const tiles = this.list.children, at = [...tiles].indexOf(event.target.closest('li')), columns = this.size.columns;
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: tiles.length - 1 };
    if (at < 0 || !(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = tiles[steps[event.key]];
    if (next) next.firstChild.focus();
  }
  clicked(event) {
    const button = event.target.closest('.tile');
    const tile = button && [...this.tiles.values()].find(one => one.button === button);
    const node = tile && this.open(tile.key);
    if (!node) return;
    this.openKey = tile.key;
    this.inside.replaceChildren(node);
    this.dialog.setAttribute('aria-label', tile.shown.name);
    this.dialog.showModal();
    if (!this.backs) history.pushState({ opened: true }, '');
  }
  wasClosed() {
    const key = this.openKey;
    this.openKey = null;
    this.inside.replaceChildren();
    if (history.state && history.state.opened) { this.backs += 1; history.back(); }
    const tile = this.tiles.get(key);
    if (tile && tile.node.isConnected && document.activeElement === document.body) tile.button.focus({ preventScroll: true });
    this.closed();
  }
  use(isUsed) {
    if (this.node.hidden !== isUsed) return;
    this.node.hidden = this.tools.hidden = !isUsed;
    document.body.classList.toggle('walled', isUsed);
    if (isUsed) return this.fit();
    if (this.dialog.open) this.dialog.close();
    for (const tile of this.tiles.values()) tile.node.remove();
    this.tiles.clear(); this.beds = []; this.order = [];
  }
}
