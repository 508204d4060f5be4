// Checks pages in a real browser. Usage: node check.mjs BROWSER AXE FOLDER
// FOLDER has NAME.html and NAME.json (what `carat report --format json` writes) for every page; AXE is the path of
// axe.min.js or `-`. Prints one line per finding and ends with 1 if there is any.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [, , program, axe, folder] = process.argv;
// Sheets of A4 that a page takes in print at most.
const SHEETS = 6;
const PHONE = { width: 360, height: 740 };
const findings = [];
let checks = 0;
// Places of elements on the pages before: their names, classes, roles and colours from the body down.
const seenPlaces = new Set();
const expect = (name, fine, seen = '') => {
  checks++;
  if (!fine) findings.push(`${name}: ${typeof seen === 'string' ? seen : JSON.stringify(seen)}`);
};

const near = (one, other, share = 1e-9) => Math.abs(one - other) <= share * Math.max(Math.abs(one), Math.abs(other)) + 1e-12;
const printed = (text) => {
  const [, number, unit] = text.replace(/^\u2212/, '-').match(/^(-?[\d.]+)\s*(\S*)$/) ?? [];
  const factor = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, 'µs': 1e-6, ms: 1e-3, s: 1, '/s': 1, '%': 0.01, '×': 1, '': 1 }[unit];
  return Number(number) * factor;
};

const browser = new Browser(program);
try {
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.html')).sort()) {
    await checkPage(file.replace('.html', ''));
  }
} catch (error) {
  findings.push(String(error.stack ?? error));
} finally {
  await browser.close();
}
for (const finding of findings) console.log(finding);
console.log(`${checks} checks, ${findings.length} findings`);
process.exit(findings.length ? 1 : 0);

async function checkPage(name) {
  const page = await browser.page();
  await page.look();
  const url = pathToFileURL(join(folder, name + '.html')).href;
  await page.open(url);
  await checkPaper(page, name);
  expect(`${name}: one script of data and one that runs`, (await page.run(() => document.scripts.length)) === 2);
  expect(`${name}: nothing foreign`, (await page.run(() => document.querySelectorAll('img,iframe,object,embed,base,form,a:not([href^="#"]),style:not(head style)').length)) === 0);
  await checkContents(page, name);
  await openParts(page);
  await checkFigures(page, name);
  await checkCursor(page, name);
  await checkToggle(page, name);
  await checkTables(page, name);
  await checkTheme(page, name);
  await checkNarrow(page, name);
  expect(`${name}: no script of the input ran`, (await page.run(() => window.ran)) === undefined);
  expect(`${name}: silent console`, page.said.length === 0, page.said);
  const others = page.requests.filter((request) => request !== url && !request.startsWith('data:'));
  expect(`${name}: no request`, others.length === 0, others);
  await checkAccess(page, name);
  await checkPolicy(page, name);
  await page.close();
  await checkWithoutScript(name, url);
}

// Every printed figure against the JSON, computed anew.
async function checkFigures(page, name) {
  const path = join(folder, name + '.json');
  if (!existsSync(path)) return;
  const { results } = JSON.parse(readFileSync(path, 'utf8'));
  const rows = await page.run(() => [...document.querySelectorAll('table[data-metric] tr[data-variant]')].map((row) => ({
    metric: row.closest('table').dataset.metric,
    variant: row.dataset.variant,
    trials: row.cells[1].textContent,
    cells: [...row.cells].map((cell) => [cell.dataset.v ?? null, cell.textContent]),
  })));
  expect(`${name}: figures are on the page`, rows.length > 0);
  for (const { metric, variant, trials, cells } of rows) {
    const label = `${name}: ${metric} of ${variant}`;
    const values = results.trials
      .filter((trial) => trial.variant === variant && trial.block > 0 && trial.outcome === 'ok' && metric in trial.metrics)
      .map((trial) => trial.metrics[metric]).sort((a, b) => a - b);
    expect(`${label}, trials`, Number(trials) === values.length, trials);
    if (!values.length) continue;
    const middle = (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    expect(`${label}, median`, near(Number(cells[2][0]), middle), cells[2]);
    expect(`${label}, printed median`, near(printed(cells[2][1]), middle, 0.006), cells[2]);
    expect(`${label}, mean`, near(Number(cells[3][0]), mean), cells[3]);
    expect(`${label}, least and most`, near(Number(cells[5][0]), values[0]) && near(Number(cells[6][0]), values.at(-1)), cells);
    const found = results.conclusions.find((one) => one.variant === variant && one.metric === metric)?.estimate;
    if (found) expect(`${label}, difference`, near(Number(cells[8][0]), found.ratio), cells[8]);
    else expect(`${label}, no difference`, cells[8][0] === null, cells[8]);
  }
}

// As it is printed where nothing was opened: few sheets, and neither a part of the verdict's proof nor a mark of a chart
// is left out.
async function checkPaper(page, name) {
  const hiddenMarks = () => page.run(() => [...document.querySelectorAll('svg *')].map((mark, at) => (getComputedStyle(mark).display === 'none' ? `${at} ${mark.nodeName}.${mark.getAttribute('class')}` : null)).filter(Boolean));
  const hiddenOnScreen = new Set(await hiddenMarks());
  const { data } = await page.send('Page.printToPDF', { paperWidth: 8.27, paperHeight: 11.69, printBackground: true });
  const sheets = Buffer.from(data, 'base64').toString('latin1').match(/\/Type \/Page\b/g)?.length ?? 0;
  // What a hostile experiment calls itself may fill sheets of its own.
  const most = name.includes('hostile') ? Infinity : SHEETS;
  expect(`${name}: at most ${SHEETS} sheets of paper`, sheets > 0 && sheets <= most, String(sheets));
  await page.look({ width: 794, media: 'print' });
  const lost = await page.run(() => [...document.querySelectorAll('#verdict, .part.proof')].filter((part) => part.getBoundingClientRect().height < 20).map((part) => part.id || part.textContent.slice(0, 40)));
  expect(`${name}: no part is lost in print`, lost.length === 0, lost);
  const unprinted = (await hiddenMarks()).filter((mark) => !hiddenOnScreen.has(mark));
  expect(`${name}: every mark of a chart is printed`, unprinted.length === 0, unprinted.slice(0, 5));
  await page.look();
}

// Every line of the contents leads to a part that opens; before that all are closed, and the verdict is seen.
async function checkContents(page, name) {
  const links = await page.run(() => [...document.querySelectorAll('.contents a')].map((link) => link.getAttribute('href')));
  const parts = await page.run(() => [...document.querySelectorAll('details.part')].map((part) => part.open));
  expect(`${name}: every part is closed and in the contents`, parts.length === links.length && !parts.some(Boolean), [parts.length, links.length]);
  if (!links.length) return;
  // Together, because the browser would draw each of them.
  const closed = await page.run((ids) => ids.filter((id) => { location.hash = id; return !document.querySelector(id)?.closest('details').open; }), links);
  expect(`${name}: every line of the contents opens its part`, closed.length === 0, closed);
  const short = await page.run(() => [...document.querySelectorAll('svg .dots, svg .mark')].filter((mark) => mark.getTotalLength() === 0).length);
  expect(`${name}: no mark is a line without length, which has no square ends in print`, short === 0, short);
  await page.look({ width: 794, media: 'print' });
  const wide = await page.run(() => [...document.querySelectorAll('table')].filter((table) => table.offsetParent && table.getBoundingClientRect().right > innerWidth + 1).map((table) => table.id || table.textContent.slice(0, 40)));
  expect(`${name}: every table is whole in print`, wide.length === 0, wide);
  await page.look();
}

async function openParts(page) {
  await page.run(() => { for (const one of document.querySelectorAll('details')) one.open = true; });
}

async function checkCursor(page, name) {
  const charts = await page.run(() => [...document.querySelectorAll('svg.chart[tabindex]')].map((svg) => svg.id));
  for (const id of charts) {
    await page.point('#' + id);
    const shown = await page.run(() => !document.querySelector('.tip').hidden && document.querySelector('.tip').textContent);
    expect(`${name}: the cursor reads out ${id}`, id.startsWith('dots') || Boolean(shown));
    await page.run((one) => document.getElementById(one).focus(), id);
    await page.press('ArrowRight');
    const said = await page.run(() => document.querySelector('.spoken').textContent);
    expect(`${name}: keys read out ${id}`, said.length > 3, said);
  }
  const zoomed = charts.find((id) => id.startsWith('memory'));
  if (zoomed) {
    const box = () => page.run((id) => document.querySelector(`#${id} .clip`).getAttribute('viewBox'), zoomed);
    await page.run((id) => document.getElementById(id).focus(), zoomed);
    const before = await box();
    await page.press('+', '+');
    expect(`${name}: zoom`, (await box()) !== before);
    await page.press('Escape');
    expect(`${name}: zoom back`, (await box()).split(' ').every((part, at) => near(Number(part), Number(before.split(' ')[at]), 1e-6)), await box());
  }
}

async function checkToggle(page, name) {
  const chips = await page.run(() => document.querySelectorAll('.chip').length);
  if (!chips) return;
  const visible = () => page.run(() => [...document.querySelectorAll('svg .v1')].filter((mark) => getComputedStyle(mark).visibility === 'visible').length);
  // Once there and back, so that the mark under the pointer of the step before is gone.
  await page.point('.chip:nth-of-type(2)', 'click');
  await page.point('.chip:nth-of-type(2)', 'click');
  const before = await visible();
  // Where no trial counts, the tables name the variants and no chart has a mark of any.
  const marks = await page.run(() => document.querySelectorAll('svg [class~="v0"], svg [class~="v1"]').length);
  expect(`${name}: its marks are seen`, before > 0 || marks === 0, [before, marks]);
  await page.point('.chip:nth-of-type(2)', 'click');
  expect(`${name}: a variant can be hidden`, (await visible()) === 0, [before, await visible()]);
  await page.point('.chip:nth-of-type(2)', 'click');
  expect(`${name}: and shown again`, (await visible()) === before);
}

async function checkTables(page, name) {
  const sortable = await page.run(() => document.querySelectorAll('#every-metric .sort').length);
  if (!sortable) return;
  await page.point('#every-metric th:nth-child(1) .sort', 'click');
  const order = await page.run(() => [...document.querySelectorAll('#every-metric tbody th')].map((cell) => cell.textContent));
  expect(`${name}: tables sort`, order.join() === [...order].sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).join(), order);
}

async function checkTheme(page, name) {
  const ground = () => page.run(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.point('#theme', 'click');
  await page.point('#theme', 'click');
  expect(`${name}: dark theme`, (await ground()) !== light, light);
  await page.point('#theme', 'click');
  await page.look({ theme: 'dark' });
  expect(`${name}: the system's dark theme`, (await ground()) !== light);
  await page.look();
}

async function checkNarrow(page, name) {
  await page.look(PHONE);
  const [content, window] = await page.run(() => [document.documentElement.scrollWidth, innerWidth]);
  expect(`${name}: fits a phone`, content <= window, [content, window]);
  // Depends on all rows together, of which axe sees two of each kind.
  const stuck = await page.run(() => [...document.querySelectorAll('body *')].filter((box) => {
    const { overflowX, overflowY } = getComputedStyle(box);
    const scrolls = (overflow, content, seen) => ['auto', 'scroll'].includes(overflow) && content > seen;
    const isScrolled = scrolls(overflowX, box.scrollWidth, box.clientWidth) || scrolls(overflowY, box.scrollHeight, box.clientHeight);
    return isScrolled && box.tabIndex < 0 && !box.querySelector('a[href], button, summary, [tabindex="0"]');
  }).map((box) => box.outerHTML.slice(0, 80)));
  expect(`${name}: what scrolls can be scrolled by keys`, stuck.length === 0, stuck);
  await page.look();
}

async function checkAccess(page, name) {
  const twice = await page.run(() => [...document.querySelectorAll('[id]')].map(({ id }) => id).filter((id, at, ids) => ids.indexOf(id) < at));
  expect(`${name}: every name of an element is its own`, twice.length === 0, twice);
  if (axe === '-') return;
  await page.run(leaveTwoOfEachKind);
  const places = await page.run(leaveNewPlaces, [...seenPlaces]);
  if (!places.length) return;
  for (const place of places) seenPlaces.add(place);
  await page.send('Runtime.evaluate', { expression: readFileSync(axe, 'utf8') });
  for (const look of [{}, { theme: 'dark' }, PHONE]) await checkBarriers(page, name, look, { rules: { 'target-size': { enabled: true } } });
}

// Axe visits every element, so of rows and marks that differ in nothing but text and values it sees two under each parent.
function leaveTwoOfEachKind() {
  const attributes = (node) => [...node.attributes].map(({ name, value }) => (['class', 'role', 'style'].includes(name) ? name + value : name));
  const kind = (node) => [node.nodeName, node.textContent.trim() === '', ...attributes(node), ...[...node.children].map(kind)].join(' ');
  for (const parent of document.querySelectorAll('tbody, svg, svg g, dl, ul, ol')) {
    const seen = {};
    for (const child of [...parent.children]) {
      const one = kind(child);
      seen[one] = (seen[one] ?? 0) + 1;
      if (seen[one] > 2) child.remove();
    }
  }
}

// Pages are built of the same parts, so of each page only those with an element at a new place are looked at again.
// Returns the new places.
function leaveNewPlaces(seen) {
  const known = new Set(seen);
  // The numbers of variants and parts are colours: they matter behind text, and as that of the text.
  const name = (node) => {
    const { color, fill, backgroundColor } = getComputedStyle(node);
    const isText = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    return [node.nodeName, node.getAttribute('class')?.replace(/\b([vp])\d+\b/g, '$1'), node.getAttribute('role'), backgroundColor, isText && [color, fill]].join(' ');
  };
  const fresh = new Set();
  const visit = (node, above) => {
    const place = `${above}>${name(node)}`;
    let isNew = !known.has(place);
    if (isNew) fresh.add(place);
    for (const child of [...node.children]) isNew = visit(child, place) || isNew;
    // A part stands alone; what is around it, headings and landmarks, stays for the rules about a whole page.
    if (!isNew && node.matches('details.part, details.part section > *')) node.remove();
    return isNew;
  };
  visit(document.body, '');
  return [...fresh];
}

async function checkBarriers(page, name, look, rules) {
  await page.look(look);
  const found = await page.run(async (only) => (await window.axe.run(document, { resultTypes: ['violations'], ...only })).violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id} at ${nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`), rules);
  expect(`${name}: no serious barrier ${JSON.stringify(look)}`, found.length === 0, found);
}

// Last, because the browser reports what it blocks.
async function checkPolicy(page, name) {
  const ran = await page.run(() => {
    const script = document.createElement('script');
    script.textContent = 'window.inline = 1';
    document.body.append(script);
    const image = document.createElement('img');
    image.setAttribute('onerror', 'window.inline = 2');
    image.src = 'data:image/png;base64,AA';
    document.body.append(image);
    return new Promise((resolve) => { image.addEventListener('error', () => setTimeout(() => resolve(window.inline ?? null), 20)); });
  });
  expect(`${name}: the policy blocks other scripts`, ran === null, String(ran));
}

async function checkWithoutScript(name, url) {
  const page = await browser.page();
  await page.send('Emulation.setScriptExecutionDisabled', { value: true });
  await page.look();
  await page.open(url);
  const { root } = await page.send('DOM.getDocument', { depth: 1 });
  const { nodeIds } = await page.send('DOM.querySelectorAll', { nodeId: root.nodeId, selector: 'h1, table' });
  expect(`${name}: reads without a script`, nodeIds.length > 1);
  await page.close();
}
