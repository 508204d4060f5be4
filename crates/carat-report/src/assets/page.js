// Adds to a page that is complete without it: cursor, zoom, hiding variants, sorting, copying, theme.
(() => {
  'use strict';
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, attributes = {}, text = '') => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const draw = (name, attributes, parent) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  };
  const data = JSON.parse(document.getElementById('carat-data').textContent);
  const hidden = new Set();

  const format = (value, [divisor, unit]) => {
    const amount = value / divisor;
    const size = Math.abs(amount);
    const digits = size === 0 || Number.isInteger(amount) && !unit ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
    return amount.toFixed(digits).replace('-', '−') + (unit ? ' ' + unit : '');
  };

  // Scales as `AxisScale` in the report: [low, high, place of low, place of high].
  const forward = ([low, high, from, to], log) => (value) =>
    from + (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)) * (to - from);
  const backward = ([low, high, from, to], log) => (place) => {
    const share = (place - from) / (to - from);
    return log ? low * Math.pow(high / low, share) : low + share * (high - low);
  };
  const nearest = (sorted, value) => {
    let low = 0;
    let high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle; else high = middle;
    }
    return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
  };
  const niceTicks = (low, high, wanted) => {
    const rough = (high - low) / wanted;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const lead = rough / power;
    const step = power * (lead < 1.5 ? 1 : lead < 3 ? 2 : lead < 7 ? 5 : 10);
    const ticks = [];
    for (let at = Math.ceil(low / step); at * step <= high && ticks.length < 40; at++) ticks.push(at * step);
    return [ticks, step];
  };

  const tip = make('div', { class: 'tip', hidden: '' });
  const spoken = make('div', { class: 'spoken', 'aria-live': 'polite', role: 'status' });
  document.body.append(tip, spoken);

  const place = (chart, x, y, lines) => {
    tip.replaceChildren(...lines.map(([kind, text]) => make('div', { class: kind }, text)));
    tip.hidden = false;
    const box = chart.svg.getBoundingClientRect();
    const scale = box.width / chart.svg.viewBox.baseVal.width;
    const left = box.left + x * scale;
    const width = tip.offsetWidth;
    const wide = document.documentElement.clientWidth;
    tip.style.left = window.scrollX + Math.max(4, left + 14 + width > wide ? left - 14 - width : left + 14) + 'px';
    tip.style.top = window.scrollY + box.top + y * scale - 10 + 'px';
  };

  class Lines {
    constructor(svg, spec) {
      Object.assign(this, { svg, spec, view: spec.x.slice(), at: null });
      this.clip = svg.querySelector('.clip');
      this.cursor = draw('g', { class: 'cursor' }, svg);
    }
    series() { return this.spec.series.filter((one) => !hidden.has(one.v) && one.x.length); }
    move(x) {
      const value = backward(this.view, this.spec.xlog)(x);
      const [first] = this.series();
      if (!first) return this.leave();
      this.show(first.x[nearest(first.x, value)]);
    }
    step(by) {
      const [first] = this.series();
      if (!first) return;
      const now = this.at === null ? (by > 0 ? -1 : first.x.length) : nearest(first.x, this.at);
      this.show(first.x[Math.max(0, Math.min(first.x.length - 1, now + by))]);
    }
    show(value) {
      this.at = value;
      const toX = forward(this.view, this.spec.xlog);
      const toY = forward(this.spec.y, this.spec.ylog);
      const x = toX(value);
      this.cursor.replaceChildren();
      const [, , from, to] = this.spec.y;
      draw('path', { class: 'hair', d: `M${x} ${from}V${to}` }, this.cursor);
      const rows = [];
      for (const one of this.series()) {
        const index = nearest(one.x, value);
        if (Math.abs(toX(one.x[index]) - x) > 12) continue;
        draw('circle', { class: 'v' + one.v, cx: toX(one.x[index]), cy: toY(one.y[index]), r: 3.5 }, this.cursor);
        rows.push(['v' + one.v, one.name + ' ' + format(one.y[index], this.spec.yunit), one.y[index]]);
      }
      rows.sort((one, other) => other[2] - one[2]);
      const name = this.spec.xticks ? this.rarity(value) : this.spec.xunit[1] ? format(value, this.spec.xunit) + ' ' + this.spec.xname : this.spec.xname + ' ' + format(value, this.spec.xunit);
      place(this, x, to, [['head', name], ...rows]);
    }
    rarity(nines) { return 'p' + +(100 * (1 - Math.pow(10, -nines))).toFixed(3); }
    leave() { this.at = null; this.cursor.replaceChildren(); tip.hidden = true; }
    zoom(from, to) {
      if (!this.spec.zoom || !this.clip) return;
      const [low, high, left, right] = this.spec.x;
      from = Math.max(low, from); to = Math.min(high, to);
      if (to - from < (high - low) / 200) return;
      this.view = [from, to, left, right];
      const toX = forward(this.spec.x, false);
      const box = this.clip;
      const [, y, , height] = (box.dataset.all ||= box.getAttribute('viewBox')).split(' ');
      box.setAttribute('viewBox', `${toX(from)} ${y} ${toX(to) - toX(from)} ${height}`);
      this.ticks(from, to);
      for (const marker of all('.marker,.marker-name', this.svg)) marker.classList.toggle('gone', from > low || to < high);
      this.leave();
    }
    ticks(from, to) {
      const group = this.svg.querySelector('.xticks');
      const y = group.querySelector('text').getAttribute('y');
      const [ticks, step] = niceTicks(from, to, 6);
      const digits = Math.max(0, -Math.floor(Math.log10(step / this.spec.xunit[0])));
      group.replaceChildren();
      for (const tick of ticks) {
        const text = draw('text', { class: 'tick', x: forward(this.view, false)(tick), y, 'text-anchor': 'middle' }, group);
        text.textContent = (tick / this.spec.xunit[0]).toFixed(digits);
      }
    }
    reset() { this.zoom(this.spec.x[0], this.spec.x[1]); }
    around(factor) {
      const [from, to] = this.view;
      const { at } = this;
      const middle = at ?? (from + to) / 2;
      this.zoom(middle - (middle - from) * factor, middle + (to - middle) * factor);
      if (at !== null) this.show(at);
    }
  }

  class Dots {
    constructor(svg, spec) {
      Object.assign(this, { svg, spec, row: 0, index: null });
      this.orders = spec.rows.map((row) => row.x.map((_, at) => at).sort((a, b) => row.x[a] - row.x[b]));
      this.cursor = draw('g', { class: 'cursor' }, svg);
    }
    move(x, y) {
      const row = this.spec.bottoms.findIndex((bottom) => y < bottom);
      const order = this.orders[row];
      if (!order || !order.length) return this.leave();
      const xs = order.map((at) => this.spec.rows[row].x[at]);
      this.row = row;
      this.show(nearest(xs, backward(this.spec.x)(x)));
    }
    step(by, rows) {
      this.row = Math.max(0, Math.min(this.orders.length - 1, this.row + (rows || 0)));
      const order = this.orders[this.row];
      if (order.length) this.show(Math.max(0, Math.min(order.length - 1, (this.index ?? -1) + by)));
    }
    show(index) {
      this.index = index;
      const row = this.spec.rows[this.row];
      const at = this.orders[this.row][index];
      const x = forward(this.spec.x)(row.x[at]);
      const middle = this.spec.middles[this.row];
      this.cursor.replaceChildren();
      draw('path', { class: 'hair', d: `M${x} ${middle - 17}V${middle + 17}` }, this.cursor);
      place(this, x, middle - 35, [['head', 'block ' + row.block[at]], ['v' + row.v, row.name + ' ' + format(row.x[at], this.spec.xunit)]]);
    }
    leave() { this.index = null; this.cursor.replaceChildren(); tip.hidden = true; }
    zoom() {}
    reset() {}
    around() {}
  }

  const attach = (svg, spec) => {
    const chart = spec.kind === 'lines' ? new Lines(svg, spec) : new Dots(svg, spec);
    const user = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let start = null;
    let box = null;
    svg.tabIndex = 0;
    svg.addEventListener('pointermove', (event) => {
      const { x, y } = user(event);
      if (start !== null && spec.zoom && event.buttons === 1) {
        box ||= draw('rect', { class: 'choice', y: Math.min(spec.y[2], spec.y[3]), height: Math.abs(spec.y[2] - spec.y[3]) }, svg);
        box.setAttribute('x', Math.min(start, x));
        box.setAttribute('width', Math.abs(x - start));
      }
      chart.move(x, y);
    });
    svg.addEventListener('pointerleave', () => chart.leave());
    svg.addEventListener('pointerdown', (event) => { start = user(event).x; });
    addEventListener('pointerup', (event) => {
      if (box) {
        const end = user(event).x;
        const value = backward(chart.view, spec.xlog);
        chart.zoom(value(Math.min(start, end)), value(Math.max(start, end)));
        box.remove();
      }
      start = box = null;
    });
    svg.addEventListener('dblclick', () => chart.reset());
    svg.addEventListener('blur', () => chart.leave());
    svg.addEventListener('keydown', (event) => {
      const keys = {
        ArrowLeft: () => chart.step(-1), ArrowRight: () => chart.step(1),
        ArrowUp: () => chart.step(0, -1), ArrowDown: () => chart.step(0, 1),
        Escape: () => { chart.reset(); chart.leave(); },
        '+': () => chart.around(0.5), '-': () => chart.around(2),
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
      spoken.textContent = tip.hidden ? '' : [...tip.children].map((line) => line.textContent).join(', ');
    });
  };
  for (const [id, spec] of Object.entries(data.charts)) {
    const svg = document.getElementById(id);
    if (svg) attach(svg, spec);
  }

  const tools = document.querySelector('.tools');
  if (tools && data.variants.length > 1 && data.variants.length <= 8) {
    data.variants.forEach((name, at) => {
      const chip = make('button', { type: 'button', class: 'chip v' + at, 'aria-pressed': 'true' }, name);
      chip.addEventListener('click', () => {
        const off = !hidden.has(at);
        if (off) hidden.add(at); else hidden.delete(at);
        chip.setAttribute('aria-pressed', String(!off));
        document.body.classList.toggle('off' + at, off);
      });
      tools.append(chip);
    });
    tools.hidden = false;
  }

  for (const table of all('main table')) {
    const body = table.tBodies[0];
    if (!table.tHead || !body || body.rows.length < 3) continue;
    all('th', table.tHead).forEach((head, column) => {
      const button = make('button', { type: 'button', class: 'sort' }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        all('th', table.tHead).forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const key = (row) => {
          const cell = row.cells[column];
          const number = parseFloat(cell.dataset.v ?? cell.textContent);
          return Number.isNaN(number) ? cell.textContent : number;
        };
        const compare = (one, other) => typeof one === 'number' && typeof other === 'number'
          ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
        const rows = [...body.rows].sort((one, other) => compare(key(one), key(other)) * (down ? -1 : 1));
        body.append(...rows);
      });
    });
  }

  for (const table of all('main details table')) {
    const copy = make('button', { type: 'button', class: 'copy' }, 'Copy as Markdown');
    copy.addEventListener('click', async () => {
      const cell = (c) => c.textContent.trim().replace(/[\\|]/g, '\\$&').replace(/\s+/g, ' ');
      const rows = [...table.rows].map((row) => '| ' + [...row.cells].map(cell).join(' | ') + ' |');
      rows.splice(1, 0, '|' + '---|'.repeat(table.rows[0].cells.length));
      try { await navigator.clipboard.writeText(rows.join('\n')); copy.textContent = 'Copied'; } catch { copy.textContent = 'Not allowed here'; }
    });
    (table.parentElement.matches('.scroll') ? table.parentElement : table).after(copy);
  }

  const contents = document.querySelector('.contents');
  if (contents) {
    const parts = all('details.part');
    const open = make('button', { type: 'button' }, 'Open all');
    open.addEventListener('click', () => {
      const shut = parts.some((part) => !part.open);
      for (const part of parts) part.open = shut;
    });
    contents.append(open);
    const label = () => { open.textContent = parts.some((part) => !part.open) ? 'Open all' : 'Close all'; };
    for (const part of parts) part.addEventListener('toggle', label);
  }

  const themes = ['auto', 'light', 'dark'];
  const remembered = (() => { try { return localStorage.getItem('carat-theme'); } catch { return null; } })();
  let theme = themes.includes(remembered) ? remembered : 'auto';
  const button = make('button', { type: 'button', id: 'theme' });
  const apply = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = 'Theme: ' + theme;
  };
  button.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem('carat-theme', theme); } catch { /* a file's page may have no storage */ }
    apply();
  });
  apply();
  document.querySelector('.top').append(button);

  let opened = [];
  addEventListener('beforeprint', () => {
    opened = all('details:not([open]):not(.part):not(.fold)');
    for (const one of opened) one.open = true;
  });
  addEventListener('afterprint', () => { for (const one of opened) one.open = false; });
})();
