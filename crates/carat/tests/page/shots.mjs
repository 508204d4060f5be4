// Pictures of a page for the documentation. Usage: node shots.mjs BROWSER PAGE.html OUT-PREFIX [MOST-HIGH]
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [, , program, file, out, most = Infinity] = process.argv;
const looks = {
  light: { width: 1100 }, dark: { width: 1100, theme: 'dark' }, print: { width: 794, media: 'print' }, phone: { width: 390 },
};
const browser = new Browser(program);
for (const [name, look] of Object.entries(looks)) {
  const page = await browser.page();
  await page.look(look);
  await page.open(pathToFileURL(file).href);
  const height = Math.min(Number(most), await page.run(() => document.documentElement.scrollHeight));
  writeFileSync(`${out}-${name}.png`, await page.picture({ x: 0, y: 0, width: look.width, height, scale: 1 }));
  await page.close();
}
await browser.close();
