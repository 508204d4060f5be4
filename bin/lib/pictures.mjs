// The work of bin/pictures: pages of kept results in a browser without a window.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const home = join(dirname(fileURLToPath(import.meta.url)), '../..');
const { Browser } = await import(join(home, 'crates/carat/tests/page/browser.mjs'));
const wide = { width: 1100, height: 1150 };
// The results below docs/evidence, and the look.
const PICTURES = {
  'report-light': ['measurements/first-screen.json', wide],
  'report-cable': ['experiments/1-cable.json', wide],
  'report-dark': ['experiments/1-cable.json', { ...wide, theme: 'dark' }],
  'report-phone': ['experiments/1-cable.json', { width: 390, height: 1500 }],
  'report-print': ['measurements/first-screen.json', { width: 794, height: 1123, media: 'print' }],
  redmine: ['experiments/redmine.json', { width: 1000, height: 1480 }],
};

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
    const [results, look] = PICTURES[name];
    const page = join(folder, `${name}.html`);
    execFileSync(process.env.CARAT ?? join(home, 'target/debug/carat'), ['report', join(home, 'docs/evidence', results), '-o', page], { stdio: ['ignore', 'ignore', 'inherit'] });
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
