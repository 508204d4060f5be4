// The work of bin/pictures: pages of kept results, and of a server that is started for it, in a browser without a window.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const home = join(dirname(fileURLToPath(import.meta.url)), '../..');
const { Browser } = await import(join(home, 'crates/carat/tests/page/browser.mjs'));
const carat = process.env.CARAT ?? join(home, 'target/debug/carat');
const quiet = { stdio: ['ignore', 'ignore', 'inherit'] };
const wide = { width: 1100, height: 1150 };
// What writes the page, and the look.
const PICTURES = {
  'report-light': [results('measurements/first-screen.json'), wide],
  'report-cable': [results('experiments/1-cable.json'), wide],
  'report-dark': [results('experiments/1-cable.json'), { ...wide, theme: 'dark' }],
  'report-phone': [results('experiments/1-cable.json'), { width: 390, height: 1500 }],
  'report-print': [results('measurements/first-screen.json'), { width: 794, height: 1123, media: 'print' }],
  redmine: [results('experiments/redmine.json'), { width: 1000, height: 1480 }],
  tune: [searched, { width: 1100, height: 1150 }],
  explain: [explained, { width: 1100, height: 1500 }],
  'docs-site': [site, { width: 1200, height: 900 }],
};

// The page of results below docs/evidence.
function results(path) {
  return (page) => { execFileSync(carat, ['report', join(home, 'docs/evidence', path), '-o', page], quiet); };
}

// The page of the blog's one process after 200 pages, with who keeps its memory.
async function explained(page) {
  const port = await freePort();
  const env = { ...process.env, BOOT_MB: '20', WORKERS: '0', PORT: String(port) };
  const server = spawn('puma', ['-C', 'puma.rb', 'config.ru'], { cwd: join(home, 'workloads/blog'), env, stdio: 'ignore' });
  try {
    const url = `http://127.0.0.1:${port}/`;
    await answers(url);
    await run(['load', 'http', url, '-n', '200', '-c', '1']);
    await run(['explain', String(server.pid), '--who', '-o', page]);
  } finally {
    const ended = once(server, 'exit');
    server.kill();
    await ended;
  }
}

// The page of a search of some minutes, on the small server with planted effects of the tests.
async function searched(page) {
  const near = dirname(page);
  for (const file of ['knobs.rb', 'knobs.toml']) copyFileSync(join(home, 'crates/carat/tests/it/data', file), join(near, file));
  await run(['tune', join(near, 'knobs.toml'), '-o', join(near, 'tune'), '--quick', '--seed', '1']);
  return join(near, 'tune/knobs.html');
}

// The first page of docs/ as a site.
function site() {
  execFileSync(join(home, 'bin/docs'), ['--site'], { ...quiet, cwd: home });
  return join(home, 'target/site/index.html');
}

// Not synchronous, so that Ctrl-C reaches the server's end.
const run = (words) => new Promise((resolve, reject) => execFile(carat, words, (error) => (error ? reject(error) : resolve())));

async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

async function answers(url) {
  for (let tries = 0; tries < 300; tries++) {
    if (await fetch(url).then(({ ok }) => ok, () => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`no answer from ${url}`);
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => !(name in PICTURES));
if (unknown.length) {
  console.error(`error: no picture is called ${unknown[0]}; there are ${Object.keys(PICTURES).join(', ')}`);
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'carat-pictures-'));
const browser = new Browser(process.env.CHROMIUM ?? 'chromium');
try {
  for (const name of names.length ? names : Object.keys(PICTURES)) {
    const [write, look] = PICTURES[name];
    const written = join(folder, `${name}.html`);
    const page = (await write(written)) ?? written;
    const tab = await browser.page();
    await tab.look(look);
    await tab.open(pathToFileURL(page).href);
    const { width, height } = look;
    writeFileSync(join(home, 'docs/pictures', `${name}.png`), await tab.picture({ x: 0, y: 0, width, height, scale: 1 }));
    await tab.close();
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
