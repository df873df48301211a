// One strap with its chart: on the page if there are few straps, or opened above the wall.
class Card {
  constructor(bed) {
    this.shown = null;
    this.node = make('article', 'card strap');
    this.title = make('h2', '', bed.strap.name);
    this.title.id = 'strap-' + bed.strap.sensor;
    this.title.dir = 'auto';
    this.node.setAttribute('aria-labelledby', this.title.id);
    this.badge = make('span', 'badge');
    const top = make('div', 'top'), rate = make('p', 'rate');
    top.append(mark(), this.title, this.badge);
    this.bpm = make('span', 'bpm', '–');
    rate.append(this.bpm, make('span', 'unit', 'bpm'));
    this.age = make('p', 'age');
    this.advice = make('p', 'advice');
    this.head = make('div', 'head');
    this.facts = make('dl', 'facts');
    this.head.append(top, rate, this.age, this.advice, this.facts);
    this.chart = new Chart(bed.strap.assignment, bed.strap.name);
    this.node.append(this.head, this.chart.node);
    this.update(bed);
  }
  // Takes the newest report of its strap.
  update({ strap }) {
    const age = number(strap.seconds_since_frame), bpm = number(strap.bpm);
    if (this.title.textContent !== strap.name) { text(this.title, strap.name); this.chart.rename(strap.name); }
    if (age !== undefined && bpm !== undefined && age <= STALE_SECONDS) this.chart.add(heardAt - age * 1000, bpm);
    this.facts.hidden = scope !== 'full';
    if (scope === 'full') this.tellFacts(strap);
  }
  tellFacts(strap) {
    const charge = number(strap.battery_percent), up = number(strap.link_seconds), isUp = strap.link === 'streaming' && up >= 60;
    const facts = [['Skin contact', strap.contact === undefined ? 'not told' : strap.contact ? 'yes' : 'none'],
      ['Battery', charge === undefined ? 'not told' : charge + ' %'],
      ['Link', (LINKS[strap.link] || strap.link || 'not told') + (isUp ? ' for ' + lasting(Math.floor(up / 60) * 60) : '')]];
    if (this.told === (this.told = facts.join())) return;
    this.facts.replaceChildren(...facts.map(([words, value]) => {
      const pair = make('div');
      pair.append(make('dt', '', words), make('dd', '', value));
      return pair;
    }));
  }
  // Shows a face (need.js).
  show(face) {
    const { age, fresh } = face;
    text(this.bpm, face.value);
    const ago = age === undefined ? '' : age < 1 ? 'just now' : lasting(Math.floor(age)) + ' ago';
    text(this.age, fresh ? ago : age === undefined ? 'no sample yet' : (face.note ? face.note + ', ' : 'last sample ') + ago);
    text(this.badge, face.state);
    text(this.advice, face.advice);
    if (this.shown === face.level) return;
    this.shown = face.level;
    this.badge.className = 'badge ' + (fresh ? 'live' : 'stale');
    this.head.className = ('head ' + face.level).trim();
    this.node.classList.toggle('stale', !fresh);
  }
}
