// The mark of a level: its shape says in any colour what the colour says (wall.css).
function mark() {
  const node = make('span', 'mark');
  node.setAttribute('aria-hidden', 'true');
  return node;
}
// One tile of a wall. Its face is all it shows: `name`, `value` to read from afar with its `unit`, `trend` (a path in 60 by
// 100) or `detail` (a line of text), `advice` in their place, `word`, `extra` and `note` at its foot, and `level`, a class:
// '', 'heed', 'alarm' or 'away'. `noteOf` tells a screen reader what the note is.
class Tile {
  constructor(key, hasTrend) {
    this.key = key; this.shown = {};
    this.node = make('li');
    this.button = make('button', 'tile');
    this.button.type = 'button'; this.button.tabIndex = -1;
    this.texts = {};
    const span = (className, ...inside) => {
      const node = make('span', className);
      node.append(...inside);
      return node;
    };
    const words = (className, field = className) =>
      span(className, this.texts[field] = document.createTextNode(''));
    const name = words('name');
    name.dir = 'auto';
    const line = hasTrend ? shape('svg', { viewBox: '0 0 60 100', preserveAspectRatio: 'none', 'aria-hidden': 'true',
      focusable: 'false' }) : words('detail');
    if (hasTrend) line.append(this.path = shape('path', {})); else line.dir = 'auto';
    this.button.append(name, mark(), span('middle', words('value'), words('unit')), line, words('advice'),
      span('foot', words('word'), words('extra'), span('note', words('unseen', 'noteOf'), this.texts.note = document.createTextNode(''))));
    this.node.append(this.button);
  }
  // Writes what changed, and nothing else: each write costs a layout of this tile.
  paint(face) {
    const shown = this.shown;
    for (const field in this.texts) {
      const words = face[field] || '';
      if (shown[field] !== words) this.texts[field].data = shown[field] = words;
    }
    if (this.path && shown.trend !== face.trend) this.path.setAttribute('d', shown.trend = face.trend);
    const look = `tile ${face.level}${face.advice ? ' advised' : ''}`;
    if (this.look !== look) this.button.className = this.look = look;
  }
}
