// One tile opened above the wall. Escape, Close, a click beside it and the browser's Back close it.
class Opened {
  constructor(closed) {
    this.key = null; this.backs = 0; this.closed = closed;
    this.dialog = make('dialog', 'opened');
    const close = make('button', 'close', 'Close');
    close.type = 'button';
    close.addEventListener('click', () => this.close());
    this.inside = make('div');
    this.dialog.append(close, this.inside);
    this.dialog.addEventListener('click', event => { if (event.target === this.dialog) this.close(); });
    this.dialog.addEventListener('close', () => this.wasClosed());
    document.body.append(this.dialog);
    if (history.state) history.replaceState(null, '');
    addEventListener('popstate', () => { if (this.backs) this.backs -= 1; else this.close(); });
  }
  show(key, label, node) {
    this.key = key;
    this.inside.replaceChildren(node);
    this.dialog.setAttribute('aria-label', label);
    this.dialog.showModal();
    if (!this.backs) history.pushState({ opened: true }, '');
  }
  close() { if (this.dialog.open) this.dialog.close(); }
  wasClosed() {
    const key = this.key;
    this.key = null;
    this.inside.replaceChildren();
    if (history.state && history.state.opened) { this.backs += 1; history.back(); }
    this.closed(key);
  }
}
