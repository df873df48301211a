// A wall of tiles, of straps or of gateways: which are there, where, and the keys that move between them.

// Between two paints: 2 ms a tile, so that forty tiles are painted with each report and two hundred with every other.
// A paint costs the same for few tiles as for many.
const PAINT_MS_A_TILE = 2, PAINT_MS_MAX = 400;

class Wall {
  // `look()` gives the faces by key, in the order of their places, when they are painted; a face without a rank keeps
  // its place, for nothing is known of it now. `open(key)` gives what the opened tile shows, or null; `closed()` is
  // called when it is closed again.
  constructor({ label, things, hasTrend, look, open, closed }) {
    Object.assign(this, { things, hasTrend, look, open });
    this.tiles = new Map(); this.beds = []; this.order = []; this.size = {};
    this.pointedAt = -Infinity; this.paintedAt = 0;
    this.choice = new Choice(things, () => this.arrange(true));
    this.list = make('ul', 'tiles');
    this.list.setAttribute('role', 'list');
    this.none = make('p', 'none-match');
    this.node = make('section');
    this.node.setAttribute('aria-label', label);
    this.node.append(make('p', 'unseen', isTouched ? 'Tap a tile to open it.' : 'Arrow keys move between tiles, Enter opens one.'),
      this.list, this.none);
    this.node.hidden = this.none.hidden = true;
    this.tools = make('div', 'tools');
    this.tools.append(...this.choice.tools, ...screenTools());
    this.list.addEventListener('keydown', event => this.key(event));
    this.list.addEventListener('click', event => this.clicked(event));
    this.list.addEventListener('focusin', event => this.reach(event.target));
    for (const kind of ['pointermove', 'pointerdown', 'keydown']) {
      this.list.addEventListener(kind, () => { this.pointedAt = performance.now(); }, { passive: true });
    }
    this.opened = new Opened(key => {
      const tile = this.tiles.get(key);
      if (tile && tile.node.isConnected && document.activeElement === document.body) tile.button.focus({ preventScroll: true });
      closed();
    });
    addEventListener('resize', () => this.fit());
    this.showTools();
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
      if (key === this.opened.key) this.opened.close();
    }
    const refit = chars !== this.chars, before = this.beds;
    this.chars = chars;
    this.beds = [...faces.keys()];
    if (named) for (const tile of this.tiles.values()) tile.folded = folded(tile.shown.name + ' ' + (tile.found || ''));
    if (named || moved || this.beds.some((key, place) => key !== before[place])) this.arrange(false);
    if (refit) this.fit();
    this.count();
  }
  // Gives every tile its place; by what holds now, if a person has just chosen something (`again`).
  arrange(again) {
    if (again) for (const tile of this.tiles.values()) tile.rank = tile.wanted;
    const { filter, onlyNeedy, worstFirst, field } = this.choice;
    const matching = this.beds.filter(key => this.tiles.get(key).folded.includes(filter));
    let needy = matching.filter(key => this.tiles.get(key).rank < NEEDS_NOBODY);
    if (worstFirst) {
      needy = needy.map((key, bed) => [this.tiles.get(key), bed])
        .sort(([a, i], [b, j]) => a.rank - b.rank || a.rankedAt - b.rankedAt || i - j).map(([tile]) => tile.key);
    }
    this.order = onlyNeedy ? needy : worstFirst ? places(matching, needy) : matching;
    const nodes = this.order.map(key => this.tiles.get(key).node), wanted = new Set(nodes);
    const focused = document.activeElement;
    for (const node of [...this.list.children]) if (!wanted.has(node)) node.remove();
    nodes.forEach((node, place) => { if (this.list.children[place] !== node) this.list.insertBefore(node, this.list.children[place] || null); });
    if (focused && focused !== document.activeElement && this.list.contains(focused)) focused.focus({ preventScroll: true });
    if (!nodes.some(node => node.firstChild.tabIndex === 0) && nodes.length) this.reach(nodes[0].firstChild);
    this.none.hidden = nodes.length > 0 || !this.beds.length;
    text(this.none, filter ? `No name has “${field.value.trim()}” in it.` : 'Nothing needs attention now.');
    if (again) this.count();
    if (this.fitted !== nodes.length || again) this.fit();
  }
  count() {
    const shown = new Set(this.order), all = this.tiles.size, { tally } = this.choice;
    let hidden = 0;
    for (const tile of this.tiles.values()) if (tile.wanted < NEEDS_NOBODY && !shown.has(tile.key)) hidden += 1;
    text(tally, (this.order.length < all ? `${this.order.length} of ${all} ${this.things} shown` : `${all} ${this.things}`)
      + (hidden ? `; ${hidden} hidden ${hidden === 1 ? 'needs' : 'need'} attention` : ''));
    tally.classList.toggle('warn', hidden > 0);
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
    set('--columns', size.columns);
    for (const name in size.counts) set('--' + name, size.counts[name]);
    for (const name in size.px) set('--' + name, size.px[name].toFixed(1) + 'px');
    for (const look of ['tight', 'bare']) this.list.classList.toggle(look, size[look]);
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
    if (tile) this.show(tile.key);
  }
  // Opens a tile.
  show(key) {
    const tile = this.tiles.get(key), node = tile && this.open(key);
    if (node) this.opened.show(key, tile.shown.name, node);
  }
  use(isUsed) {
    if (this.node.hidden !== isUsed) return;
    this.node.hidden = !isUsed;
    this.showTools();
    if (isUsed) return this.fit();
    this.opened.close();
    for (const tile of this.tiles.values()) tile.node.remove();
    this.tiles.clear(); this.beds = []; this.order = [];
  }
  showTools() { for (const tool of this.choice.tools) tool.hidden = this.node.hidden; }
}
