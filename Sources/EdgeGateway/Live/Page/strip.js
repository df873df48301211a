// The strip above: what needs attention, the worst first, and what to do. It takes the same room for many and for none:
// nothing below it moves.
const NEED_WIDTH_REM = 19, ROWS_NARROW = 2;
class Strip {
  // `open(key)` shows one of those listed, `all()` those for whom there is no room.
  constructor({ open, all }) {
    this.open = open; this.all = all; this.cells = []; this.needs = []; this.none = '';
    this.node = make('section', 'strip');
    this.node.setAttribute('aria-label', 'What needs attention');
    this.quiet = make('p', 'quiet');
    this.list = make('ul');
    this.list.setAttribute('role', 'list');
    this.node.append(this.quiet, this.list);
    this.room = 0;
    addEventListener('resize', () => { this.room = 0; this.paint(); });
  }
  // `none` is said when nobody is listed.
  show(needs, none) {
    this.needs = needs.sort((a, b) => a.rank - b.rank);
    this.none = none;
    this.paint();
  }
  // How many there is room for; to know it costs a layout, so it is measured once a size.
  measure() {
    const rem = parseFloat(getComputedStyle(this.node).fontSize), wide = this.node.clientWidth;
    const columns = Math.max(1, Math.floor(wide / (NEED_WIDTH_REM * rem)));
    this.list.style.setProperty('--columns', columns);
    this.room = columns * (innerWidth < WIDE_SCREEN ? ROWS_NARROW : 1);
  }
  paint() {
    if (this.node.hidden) return;
    if (!this.room) this.measure();
    const { needs, room } = this, shown = needs.length > room ? needs.slice(0, room - 1) : needs, rest = needs.slice(shown.length);
    const lines = [...shown];
    if (rest.length) lines.push({ name: `${rest.length} more`, state: '', advice: rest.slice(0, 20).map(need => need.name).join(', '), level: 'more', act: this.all });
    text(this.quiet, lines.length ? '' : this.none);
    while (this.cells.length > lines.length) this.cells.pop().item.remove();
    while (this.cells.length < lines.length) this.cells.push(this.cell());
    // A cell is written over, not made anew: whoever has reached it by keys stays there.
    lines.forEach((need, index) => {
      const cell = this.cells[index];
      cell.need = need;
      text(cell.name, need.name); text(cell.state, need.state); text(cell.advice, need.advice);
      const look = 'need ' + need.level;
      if (cell.button.className !== look) cell.button.className = look;
    });
  }
  cell() {
    const cell = { item: make('li'), button: make('button', 'need'), name: make('b', 'name'), state: make('span', 'state'),
      advice: make('span', 'advice') };
    cell.name.dir = 'auto';
    cell.button.type = 'button';
    cell.button.addEventListener('click', () => cell.need.act ? cell.need.act() : this.open(cell.need.key));
    const top = make('span', 'who');
    top.append(mark(), cell.name, cell.state);
    cell.button.append(top, cell.advice);
    cell.item.append(cell.button);
    this.list.append(cell.item);
    return cell;
  }
}
