// How old a strap's newest frame is, and whether its rate is one of now. `passed` is the time since the report.
function newness(strap, passed) {
  const start = number(strap.seconds_since_frame), age = start === undefined ? undefined : start + passed;
  return { age, fresh: age !== undefined && age <= STALE_SECONDS && number(strap.bpm) !== undefined };
}
// One strap.
class Card {
  constructor(strap) {
    this.sensor = strap.sensor; this.last = null; this.fresh = null; this.isQuiet = false;
    this.node = make('article', 'card');
    this.title = make('h2', '', strap.name);
    this.title.id = 'strap-' + strap.sensor;
    this.node.setAttribute('aria-labelledby', this.title.id);
    this.badge = make('span', 'badge');
    const top = make('div', 'top');
    top.append(this.title, this.badge);
    const rate = make('p', 'rate');
    this.bpm = make('span', 'bpm', '–');
    rate.append(this.bpm, make('span', 'unit', 'bpm'));
    this.age = make('p', 'age');
    this.node.append(top, rate, this.age);
    this.facts = null;
    this.chart = new Chart(strap.sensor, strap.name);
    this.node.append(this.chart.node);
  }
  update(strap) {
    this.strap = strap; this.received = heard;
    const age = number(strap.seconds_since_frame), bpm = number(strap.bpm);
    if (this.title.textContent !== strap.name) { text(this.title, strap.name); this.chart.rename(strap.name); }
    if (age !== undefined && bpm !== undefined && age <= STALE_SECONDS) {
      this.last = bpm;
      this.chart.add(heardAt - age * 1000, bpm);
    }
    if (scope === 'full') this.tellFacts(strap);
    else if (this.facts) { this.facts.remove(); this.facts = null; }
    this.show();
  }
  tellFacts(strap) {
    if (!this.facts) {
      this.facts = make('dl', 'facts');
      this.fact = {};
      for (const [key, words] of [['contact', 'Skin contact'], ['battery', 'Battery'], ['link', 'Link']]) {
        const pair = make('div');
        this.fact[key] = make('dd');
        pair.append(make('dt', '', words), this.fact[key]);
        this.facts.append(pair);
      }
      this.age.after(this.facts);
    }
    const { contact, battery, link } = this.fact;
    text(contact, strap.contact === undefined ? 'not told' : strap.contact ? 'yes' : 'none');
    contact.className = strap.contact === false ? 'warn' : '';
    const charge = number(strap.battery_percent);
    text(battery, charge === undefined ? 'not told' : charge + ' %' + (charge < 15 ? ', low' : ''));
    battery.className = charge !== undefined && charge < 15 ? 'warn' : '';
    const up = number(strap.link_seconds);
    text(link, (LINKS[strap.link] || strap.link || 'not told')
      + (up === undefined || up < 60 || strap.link !== 'streaming' ? '' : ' for ' + lasting(Math.floor(up / 60) * 60)));
  }
  show() {
    const { age, fresh: isNow } = newness(this.strap, since(this.received)), fresh = isNow && !lost;
    text(this.bpm, fresh ? String(this.strap.bpm) : '–');
    const ago = age === undefined ? '' : age < 1 ? 'just now' : lasting(Math.floor(age)) + ' ago';
    text(this.age, fresh ? ago : age === undefined ? 'no sample yet'
      : (this.last === null ? 'last sample ' : `last ${this.last}, `) + ago);
    if (fresh === this.fresh) return;
    if (this.fresh !== null && !lost && !justBack && !this.isQuiet) {
      say(this.title.textContent + (fresh ? ' sends again.' : ': no data.'));
    }
    this.fresh = fresh;
    this.node.classList.toggle('stale', !fresh);
    this.badge.className = 'badge ' + (fresh ? 'live' : 'stale');
    text(this.badge, fresh ? 'Live' : age === undefined ? 'No data' : 'Stale');
  }
}
