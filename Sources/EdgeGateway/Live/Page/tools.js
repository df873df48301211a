// What the browser remembers of a person's choices; without it, nothing is kept.
const kept = {
  get(key) { try { return localStorage.getItem(key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(key, value); } catch { /* Not kept, then. */ } },
};
function toolButton(words, act) {
  const node = make('button', '', words);
  node.type = 'button';
  node.addEventListener('click', act);
  return node;
}
// Dark and Full screen.
function screenTools() {
  const system = matchMedia('(prefers-color-scheme: dark)'), root = document.documentElement;
  const isDark = () => (root.style.colorScheme || (system.matches ? 'dark' : 'light')) === 'dark';
  const dark = toolButton('Dark', () => {
    root.style.colorScheme = isDark() ? 'light' : 'dark';
    kept.set('scheme', root.style.colorScheme);
    pressed();
  });
  const full = toolButton('Full screen', () => document.fullscreenElement ? document.exitFullscreen()
    : root.requestFullscreen().catch(() => {}));
  full.hidden = !document.fullscreenEnabled;
  const pressed = () => {
    dark.setAttribute('aria-pressed', isDark());
    full.setAttribute('aria-pressed', Boolean(document.fullscreenElement));
  };
  document.addEventListener('fullscreenchange', pressed);
  system.addEventListener('change', pressed);
  if (['dark', 'light'].includes(kept.get('scheme'))) root.style.colorScheme = kept.get('scheme');
  pressed();
  return [dark, full];
}
const folded = words => words.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
// Which tiles a wall shows, and whether the worst come first. `changed` is called after each choice.
class Choice {
  constructor(things, changed) {
    this.changed = changed; this.filter = ''; this.onlyNeedy = false; this.worstFirst = kept.get('worst-first') === 'true';
    this.tally = make('p', 'tally');
    this.field = make('input');
    this.field.type = 'search'; this.field.placeholder = 'Filter by name'; this.field.maxLength = 64;
    for (const [key, value] of [['aria-label', `Filter ${things} by name`], ['autocomplete', 'off'], ['spellcheck', 'false']]) {
      this.field.setAttribute(key, value);
    }
    this.field.addEventListener('input', () => { this.filter = folded(this.field.value.trim()); changed(); });
    this.field.addEventListener('keydown', event => {
      if (event.key !== 'Escape' || !this.field.value) return;
      event.preventDefault();
      this.field.value = this.filter = '';
      changed();
    });
    this.needy = toolButton('Needs attention', () => this.showNeedy(!this.onlyNeedy));
    this.worst = toolButton('Worst first', () => {
      this.worstFirst = !this.worstFirst;
      kept.set('worst-first', this.worstFirst);
      this.tell();
    });
    this.tools = [this.tally, this.field, this.needy, this.worst];
    this.needy.setAttribute('aria-pressed', false);
    this.worst.setAttribute('aria-pressed', this.worstFirst);
  }
  showNeedy(isWanted) { this.onlyNeedy = isWanted; this.tell(); }
  tell() {
    this.needy.setAttribute('aria-pressed', this.onlyNeedy);
    this.worst.setAttribute('aria-pressed', this.worstFirst);
    this.changed();
  }
}
