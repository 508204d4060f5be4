// A browser without a window, spoken to over a pipe (the DevTools protocol, messages ended by a zero byte).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--hide-scrollbars',
  '--disable-background-networking', '--disable-component-update', '--disable-sync', '--remote-debugging-pipe',
];

export class Browser {
  constructor(program) {
    this.profile = mkdtempSync(join(tmpdir(), 'carat-page-'));
    const flags = [...FLAGS, `--user-data-dir=${this.profile}`, 'about:blank'];
    this.process = spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.waiting = new Map();
    this.listeners = [];
    this.last = 0;
    this.process.on('exit', () => {
      for (const { reject } of this.waiting.values()) reject(new Error('the browser ended'));
    });
    let text = '';
    this.process.stdio[4].setEncoding('utf8').on('data', (chunk) => {
      const messages = (text + chunk).split('\0');
      text = messages.pop();
      for (const message of messages) this.receive(JSON.parse(message));
    });
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) return this.listeners.forEach((listener) => listener(message));
    this.waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message)); else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    });
  }

  async page() {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(domain + '.enable');
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.send('Browser.close').catch(() => {});
    const late = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(late);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target, said: [], requests: [], loaded: () => {} });
    browser.listeners.push((message) => message.sessionId === session && this.hear(message));
  }

  hear({ method, params }) {
    if (method === 'Page.loadEventFired') this.loaded();
    if (method === 'Runtime.consoleAPICalled') this.said.push(params.args.map((a) => a.value ?? a.description).join(' '));
    if (method === 'Runtime.exceptionThrown') this.said.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded') this.said.push(params.entry.text);
    if (method === 'Page.javascriptDialogOpening') this.said.push('dialog: ' + params.message);
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
  }

  send(method, params) { return this.browser.send(method, params, this.session); }

  async open(url) {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send('Page.navigate', { url });
    await loaded;
  }

  async look({ width = 1100, height = 900, theme = 'light', media = '' } = {}) {
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await this.send('Emulation.setEmulatedMedia', { media, features: [{ name: 'prefers-color-scheme', value: theme }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
  }

  async run(work, ...values) {
    const expression = `(${work})(...${JSON.stringify(values)})`;
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async point(selector, type = 'mouseMoved') {
    const [x, y] = await this.run((s) => {
      const element = document.querySelector(s);
      element.scrollIntoView({ block: 'center' });
      const box = element.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    }, selector);
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
    if (type === 'click') {
      for (const part of ['mousePressed', 'mouseReleased']) {
        await this.send('Input.dispatchMouseEvent', { type: part, x, y, button: 'left', buttons: 1, clickCount: 1 });
      }
    }
  }

  async press(key, text = undefined) {
    await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', key, code: key, text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key });
  }

  async picture(clip = undefined) {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip });
    return Buffer.from(data, 'base64');
  }

  close() { return this.browser.send('Target.closeTarget', { targetId: this.target }); }
}
