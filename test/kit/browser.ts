/** Debian's Chromium with an empty profile; every page reports violations of its security policy and errors of its scripts. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { PNG } from 'pngjs';
import decodeQR from 'qr/decode.js';
import { shiftMs } from './shifted-clock.ts';
import { CHROMIUM, CHROMIUM_ALONE } from './tools.ts';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Pages live for seconds: what compilers and threads take to make them faster is a third of the browser's time, and never comes back.
  '--js-flags=--no-opt --no-maglev --no-use-osr --single-threaded',
];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Without windows, or with `windows` the whole browser, which has devices but needs twice the processor time. */
export const startBrowser = ({ windows = false, flags = [] }: { windows?: boolean; flags?: readonly string[] } = {}): Promise<Browser> =>
  chromium.launch({ executablePath: windows ? CHROMIUM : CHROMIUM_ALONE, headless: true, args: [...FLAGS, ...flags] });

export type Tab = {
  page: Page;
  /** Errors of the page: scripts, security policy, failed requests. Empty when all is well. */
  faults: string[];
  close(): Promise<void>;
};

/** In a page: `Date` is shifted from the machine's clock by as much as the tests are. Timers and durations are not. */
function shiftDate(ms: number): void {
  const RealDate = Date;
  const now = () => RealDate.now() + ms;
  globalThis.Date = new Proxy(RealDate, {
    apply: () => new RealDate(now()).toString(),
    construct: (target, given, self) => Reflect.construct(target, given.length === 0 ? [now()] : given, self),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
}

/** Opens a tab with its own profile. */
export async function openTab(
  browser: Browser,
  url: string,
  {
    scripts = true,
    width = 390,
    dark = false,
    locale = 'en-US',
    forcedColors = false,
    motion = false,
    timeZone,
  }: {
    scripts?: boolean;
    width?: number;
    dark?: boolean;
    locale?: string;
    forcedColors?: boolean;
    /** Without it, nothing is animated: drawing what waits takes a tenth of the browser's time. */
    motion?: boolean;
    timeZone?: string;
  } = {},
): Promise<Tab> {
  const zone = timeZone ?? process.env.TZ;
  const context = await browser.newContext({
    javaScriptEnabled: scripts,
    viewport: { width, height: 844 },
    colorScheme: dark ? 'dark' : 'light',
    // A phone's screen has more pixels per inch.
    deviceScaleFactor: width < 1000 ? 2 : 1,
    locale,
    forcedColors: forcedColors ? 'active' : 'none',
    reducedMotion: motion ? 'no-preference' : 'reduce',
    ...(zone && { timezoneId: zone }),
  });
  // For a whole chain of processes on a busy machine.
  context.setDefaultTimeout(60_000);
  // In a run at another date, the browser is at today's date, so its pages get the date of the tests.
  if (shiftMs() !== 0) await context.addInitScript(shiftDate, shiftMs());
  const page = await context.newPage();
  await page.addInitScript(() => {
    type Box = { x: number; y: number; width: number; height: number };
    type Shift = { value: number; sources: readonly { node: Node | null; previousRect: Box; currentRect: Box }[] };
    const shifts: { value: number; moved: string[] }[] = [];
    Object.assign(window, { florinShifts: shifts });
    const place = ({ x, y, width, height }: Box) => `${width} x ${height} at ${x}, ${y}`;
    new PerformanceObserver((list) => {
      for (const { value, sources } of list.getEntries() as unknown as Shift[])
        shifts.push({
          value,
          moved: sources.map(({ node, previousRect, currentRect }) => {
            const text = node instanceof Element ? node.outerHTML : (node?.textContent ?? 'something that is gone');
            return `${text.slice(0, 120)} from ${place(previousRect)} to ${place(currentRect)}`;
          }),
        });
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const faults: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(message.text());
  });
  page.on('response', (response) => {
    if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
  });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('requestfailed', (request) => {
    const error = request.failure()?.errorText;
    // A stream that ends with its page is not an error, and neither is a request that was pending when its page was left.
    if (error !== 'net::ERR_ABORTED' && !/\/pay\/events|\/dashboard\/api\/\w+\/stream/.test(request.url()))
      faults.push(`${request.url()}: ${error}`);
  });
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}

/**
 * Stops the timers of the page until its clock is moved or resumed, so that something shown for a few seconds stays as long as the test
 * needs. The clock has to be installed before the page sets them.
 */
export const stopClock = (page: Page): Promise<void> =>
  // Ahead of the page's own time, however long the call takes: the clock cannot be set back.
  page.clock.pauseAt(Date.now() + 60_000);

/** The text of a QR code as a camera sees it: decoded from a screenshot of the element. */
export async function readQr(element: Locator): Promise<string> {
  const { data, width, height } = PNG.sync.read(await element.screenshot());
  // A busy machine has no time to spare when a camera's next picture would arrive.
  return decodeQR({ data, width, height }, { effort: Number.POSITIVE_INFINITY, timeLimit: 10_000 });
}

/** Checks that nothing moved while the page loaded (cumulative layout shift); otherwise says what moved, from where to where. */
export async function assertStill(page: Page, where: string): Promise<void> {
  const shifts = (await page.evaluate('new Promise((done) => setTimeout(() => done(florinShifts), 300))')) as {
    value: number;
    moved: string[];
  }[];
  const total = shifts.reduce((sum, { value }) => sum + value, 0);
  assert.ok(total <= 0.02, `${where} moves by ${total.toFixed(3)}:\n${shifts.flatMap(({ moved }) => moved).join('\n')}`);
}

/** Elements that extend beyond the screen, or hide a part of their text; empty when everything can be read. */
export const findClipped = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const bad = document.documentElement.scrollWidth > innerWidth ? ['the page is ' + document.documentElement.scrollWidth + ' px wide'] : [];
    for (const part of document.querySelectorAll('main *, footer *')) {
      if (part.closest('.sr, .sr-only, svg, [hidden], [inert]') || part.querySelector(':scope > iframe[inert]') || part.getClientRects().length === 0) continue;
      const style = getComputedStyle(part);
      const box = part.getBoundingClientRect();
      if (box.right > innerWidth + 1 || box.left < -1) bad.push('outside: ' + part.outerHTML.slice(0, 120));
      if (style.overflow !== 'visible' && part.scrollWidth > part.clientWidth + 1 && !part.matches('input, select')) bad.push('cut off: ' + part.outerHTML.slice(0, 120));
    }
    return bad;
  })()`) as Promise<string[]>;

/**
 * Texts that would not change any more once a browser's translator replaced them: React keeps each as a node of its own, because it
 * has others beside it. Empty when every text is the whole content of an element.
 */
export const findTextsThatGoStale = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {
      const { currentNode: text } = texts;
      if (Object.keys(text).some((key) => key.startsWith('__reactFiber'))) found.push(text.data + ' in ' + text.parentElement.outerHTML.slice(0, 200));
    }
    return found;
  })()`) as Promise<string[]>;

/** What Chrome's translator does to the page now and after each change: other nodes take the place of texts that may be translated. */
export const translatePage = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const translate = (root: Node) => {
      const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
      const found: Text[] = [];
      while (texts.nextNode()) found.push(texts.currentNode as Text);
      for (const text of found) {
        const place = text.parentElement;
        if (!place || text.data.trim() === '' || place.closest('font, script, style, textarea, option, svg, [translate=no]')) continue;
        const outer = document.createElement('font');
        outer.appendChild(document.createElement('font')).textContent = text.data;
        text.replaceWith(outer);
      }
    };
    translate(document.body);
    new MutationObserver((changes) => {
      for (const { target } of changes) if (target.isConnected) translate(target.parentNode ?? target);
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
  });

/** WCAG 2.2 A and AA, and best practices. The levels are named, because otherwise target sizes are not checked. */
const LEVELS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** Violations of accessibility rules, one per line, only in the part that `within` selects. */
export async function auditAccessibility(page: Page, { within = 'html' } = {}): Promise<string[]> {
  // The browser takes as long to parse axe as to run it: once per document is enough, and as a script it is cheaper than by `eval`.
  if (!(await page.evaluate('Boolean(window.axe)'))) {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Runtime.evaluate', { expression: `${AXE};0` });
    await devtools.detach();
  }
  return page.evaluate(`(async () => {
    const { violations } = await axe.run(${JSON.stringify(within)}, { runOnly: ${JSON.stringify(LEVELS)}, resultTypes: ['violations'], iframes: false });
    return violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ' ' + (n.failureSummary || '')));
  })()`) as Promise<string[]>;
}
