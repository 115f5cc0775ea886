/** The documentation that an install serves: every link in errors and pages leads somewhere. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { PROBLEMS } from '../../src/core/problem.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { CONTENTS } from '../../src/web/docs/documents.ts';
import { renderMarkdown } from '../../src/web/docs/markdown.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, startBrowser } from '../kit/browser.ts';
import { firstOf, isLongRun } from '../kit/long.ts';
import { onTheWire } from '../kit/wire.ts';

let app: TestApp;
let browser: Browser;
before(async () => {
  await buildApp({ info: () => {} });
  [app, browser] = await Promise.all([startTestApp(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

/** The path and anchor of a link, to be requested from this server whatever its public name is. */
const local = (link: string): { path: string; anchor: string } => {
  const { pathname, hash } = new URL(link, app.config.publicUrl);
  return { path: pathname, anchor: hash.slice(1) };
};

test('the root address redirects browsers to the dashboard; programs get a 404 as JSON', async () => {
  const get = (accept: string, path = '/') => fetch(app.url + path, { redirect: 'manual', headers: { accept } });
  const person = await get('text/html,application/xhtml+xml,*/*;q=0.8', '/?utm=1');
  assert.deepEqual([person.status, person.headers.get('location'), person.headers.get('vary')], [302, '/dashboard', 'accept']);
  for (const accept of ['*/*', 'application/json']) {
    const program = await get(accept);
    assert.deepEqual([program.status, ((await program.json()) as any).error.code], [404, 'unknown_route'], accept);
  }
  assert.equal((await get('text/html', '/nothing')).status, 404);
});

// Invariant: The `doc_url` of every error leads to its text.
test('the doc_url of an error leads to the anchor of its code', async () => {
  const failed = [
    await app.anonymous.get('/api/payments'),
    await app.test.get('/no/such/path'),
    await app.test.post('/api/payment/create/simple', { amount_usd: 0, return_url: 'https://shop.example/' }),
    await app.test.get('/api/payment/pay_000000000000000000000000'),
  ];
  assert.deepEqual(
    failed.map((reply) => reply.json.error.code),
    ['invalid_api_key', 'unknown_route', 'amount_invalid', 'payment_not_found'],
  );
  for (const { json } of failed) {
    assert.ok(json.error.doc_url.startsWith(`${app.config.publicUrl}/`), json.error.doc_url);
    const { path, anchor } = local(json.error.doc_url);
    assert.equal(anchor, json.error.code);
    const page = await app.anonymous.get(path);
    assert.equal(page.status, 200);
    assert.ok(page.text.includes(`id="${anchor}"`), anchor);
  }
});

test('pictures of the guides are served, and small', async () => {
  const page = await app.anonymous.get('/docs/guides/shops/prestashop');
  const paths = [...page.text.matchAll(/<img src="([^"]+)" alt="([^"]+)"/g)].map(([, path]) => path!);
  assert.equal(paths.length, 2);
  for (const path of paths) {
    const reply = await fetch(app.url + path);
    const bytes = Buffer.from(await reply.arrayBuffer());
    assert.deepEqual([reply.status, reply.headers.get('content-type'), bytes.toString('latin1', 8, 12)], [200, 'image/webp', 'WEBP']);
    assert.ok(bytes.length < 60_000, path);
  }
});

test('documents, their assets and the API document are sent compressed', async () => {
  const page = await app.anonymous.get('/docs/guides/quickstart');
  const assets = [...page.text.matchAll(/"(\/docs\/assets\/[^"]+)"/g)].map(([, path]) => path!);
  assert.equal(assets.length, 2);
  for (const path of [
    '/docs',
    '/docs/guides/quickstart.md',
    '/docs/search?q=webhook',
    '/docs/api.md',
    '/llms.txt',
    '/openapi.json',
    ...assets,
  ]) {
    const [plain, br, gzip] = await Promise.all(['identity', 'br', 'gzip'].map((accept) => onTheWire(app.url + path, accept)));
    assert.deepEqual([plain!.encoding, br!.encoding, gzip!.encoding], [undefined, 'br', 'gzip'], path);
    assert.ok(br!.bytes < plain!.bytes * 0.6 && gzip!.bytes < plain!.bytes * 0.6, path);
    assert.match(br!.vary!, /accept-encoding/, path);
  }
});

test('every error code has one anchor, with its status and type', async () => {
  const page = await app.anonymous.get('/docs/errors');
  assert.equal(page.status, 200);
  for (const [code, { status, type }] of Object.entries(PROBLEMS)) {
    assert.equal(page.text.split(`id="${code}"`).length, 2, code);
    assert.ok(page.text.includes(`<code>${type}</code>`), type);
    assert.ok(page.text.includes(String(status)), code);
  }
});

test('the sidebar lists every document once, and the front page links to all but the recipes', async () => {
  const page = await app.anonymous.get('/docs');
  assert.equal(page.status, 200);
  const [, side] = /<nav class="side"[^>]*>(.*?)<\/nav>/s.exec(page.text)!;
  const [, main] = /<main[^>]*>(.*?)<\/main>/s.exec(page.text)!;
  const files = CONTENTS.flatMap(({ entries }) => entries).filter((entry) => typeof entry === 'string');
  const inFolder = globSync(['guides/**/*.md', 'reference/*.md'], { cwd: 'docs' }).map((file) => file.replace(/\.md$/, ''));
  assert.deepEqual(files.toSorted(), inFolder.toSorted());
  for (const file of files) {
    const path = file === 'reference/errors' ? '/docs/errors' : `/docs/${file.replace(/\/README$/, '')}`;
    assert.equal(side!.split(`href="${path}"`).length, 2, path);
    if (!/recipes\/(?!README)/.test(file)) assert.ok(main!.includes(`href="${path}"`), path);
  }
  assert.ok(side!.includes('href="/docs/api"'));
});

test('search finds sections, operations and errors, also by the beginning of a word or with a typo', async () => {
  const first = async (question: string) => {
    const page = await app.anonymous.get(`/docs/search?q=${encodeURIComponent(question)}`);
    assert.equal(page.status, 200);
    const [, main] = /<main[^>]*>(.*?)<\/main>/s.exec(page.text)!;
    return [...main!.matchAll(/<li><a href="([^"]+)">/g)].map(([, path]) => path!);
  };
  assert.ok(
    (await first('rotate webhook secret')).some((path) => path.startsWith('/docs/api#') || path.startsWith('/docs/guides/webhooks')),
  );
  assert.ok((await first('idempotency_conflict')).some((path) => path.startsWith('/docs/errors')));
  assert.equal((await first('webhook'))[0], '/docs/guides/webhooks', 'the page about it, not a section that mentions it');
  assert.ok((await first('bitcion')).includes('/docs/guides/bitcoin'));
  assert.deepEqual(await first('zzzzqqqq'), []);
  for (const question of ['e', '<script>alert(1)</script>', ' '.repeat(50), 'a '.repeat(60), '%']) {
    const found = await first(question);
    assert.ok(found.length <= 20, question);
  }
  const page = await app.anonymous.get(`/docs/search?q=${encodeURIComponent('"><b>x')}`);
  assert.ok(!page.text.includes('<b>x'));
});

test('every link on every page leads somewhere, including its anchor', async () => {
  const pages = new Map<string, string>();
  // Each page repeats the links of the sidebar.
  const followed = new Set<string>();
  const open = async (path: string, from: string): Promise<string> => {
    if (!pages.has(path)) {
      const page = await app.anonymous.get(path);
      assert.equal(page.status, 200, `${from} -> ${path}`);
      pages.set(path, page.text);
      if (page.headers.get('content-type')?.startsWith('text/html')) {
        for (const [, link] of page.text.matchAll(/href="([^"]+)"/g)) {
          if (/^(https?|data):/.test(link!)) continue;
          const { pathname, hash } = new URL(link!, `http://docs${path}`);
          if (followed.has(pathname + hash)) continue;
          followed.add(pathname + hash);
          const target = await open(pathname, path);
          if (hash) assert.ok(target.includes(`id="${hash.slice(1)}"`), `${path} -> ${link}`);
        }
      }
    }
    return pages.get(path)!;
  };
  await open('/docs', '');
  for (const path of ['/docs/api', '/docs/errors', '/docs/guides/quickstart', '/docs/guides/recipes/python', '/openapi.json', '/llms.txt'])
    assert.ok(pages.has(path), `${path} is not linked`);
  assert.ok(pages.size > 20, String(pages.size));
});

test('the reference as Markdown has every route, with its fields, a request and a response', async () => {
  const page = await app.anonymous.get('/docs/api.md');
  for (const { summary, method, path, query, body } of ROUTES) {
    const section = page.text.split(/^### /m).find((text) => text.startsWith(`${summary}\n`)) ?? assert.fail(summary);
    assert.ok(section.includes(`\`${method} ${path.replace(/:(\w+)/g, '{$1}')}\``), summary);
    for (const name of Object.keys({ ...query?.properties, ...(body as { properties?: object })?.properties })) {
      assert.ok(section.includes(`\`${name}\``), `${summary} ${name}`);
    }
    assert.ok(section.includes('curl '), summary);
    assert.ok(/\]\(#(payment|event)\)|```json\n\{/.test(section), summary);
  }
});

test('llms.txt leads to the twin of every guide, which is its source', async () => {
  const { text } = await app.anonymous.get('/llms.txt');
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!);
  const guides = globSync('docs/guides/**/*.md');
  assert.ok(guides.length > 5);
  for (const file of guides) {
    const path = `/${file.replace(/(\/README)?\.md$/, '')}.md`;
    assert.ok(links.includes(`${app.config.publicUrl}${path}`), path);
    const twin = await app.anonymous.get(path);
    assert.equal(twin.headers.get('content-type'), 'text/markdown; charset=utf-8');
    assert.equal(twin.text, readFileSync(file, 'utf8'));
  }
  for (const link of links) assert.equal((await app.anonymous.get(new URL(link).pathname)).status, 200, link);
});

test('Markdown becomes the page it describes, and HTML in it stays text', () => {
  const { body, headings } = renderMarkdown(
    [
      '# A *b* <i>',
      '',
      'One `<two>` **three** [four](five.md#six) [gone](none.md) [seven.md](seven.md)',
      'more <img src=x onerror=alert(1)> ![picture](x.png)',
      '',
      '- a',
      '  b',
      '- c',
      '  1. d',
      '',
      '| x | y |',
      '|---|---|',
      '| <a id="code"></a>`a \\| b` | &lt;z> |',
      '',
      '```sh',
      '# no heading <b>',
      '```',
      '',
      '```js Node.js',
      "const a = '<b>';",
      '```',
      '',
      '```python Python',
      'a = 1',
      '```',
      '',
      '## A b',
      '## A b',
      '## C {#own}',
    ].join('\n'),
    (target) => (target === 'none.md' ? null : { to: `/at/${target}`, ...(target === 'seven.md' && { title: 'Seven & more' }) }),
  );
  const page = body.text;
  assert.match(page, /^<h1 id="a-b">A <em>b<\/em> &lt;i&gt;<\/h1>/);
  assert.ok(page.includes('<code>&lt;two&gt;</code> <strong>three</strong> <a href="/at/five.md#six">four</a> gone'), page);
  assert.ok(page.includes('<a href="/at/seven.md">Seven &amp; more</a>'), page);
  assert.ok(!/<img|<i>|<script/.test(page), page);
  assert.match(page, /<li>a\s+b<\/li>\s*<li>c<ol>\s*<li>d<\/li>/);
  assert.ok(page.includes('<th>x</th><th>y</th>') && page.includes('<a id="code"></a><code>a | b</code></td><td>&lt;z&gt;</td>'), page);
  assert.ok(page.includes('no heading &lt;b&gt;'), page);
  assert.equal(page.split('<div class="tabs">').length, 2);
  assert.match(page, /<section aria-label="Node.js">.*hljs-keyword.*&lt;b&gt;.*<section aria-label="Python">/s);
  assert.deepEqual(
    headings.map(({ anchor }) => anchor),
    ['a-b', 'a-b-1', 'a-b-2', 'own'],
  );
  for (const id of ['a-b-1', 'a-b-2', 'own']) assert.ok(page.includes(`<h2 id="${id}">`), page);
});

test('the pages are readable on a phone and accessible', async () => {
  for (const path of ['/docs', '/docs/search?q=webhook', '/docs/guides/webhooks', '/docs/errors']) {
    for (const dark of firstOf([false, true])) {
      const { page, faults, close } = await openTab(browser, app.url + path, { width: 390, dark });
      // The list of errors is one long table of what the other pages have too.
      if (isLongRun || path !== '/docs/errors') assert.deepEqual(await auditAccessibility(page), [], path);
      assert.ok(((await page.evaluate('document.documentElement.scrollWidth')) as number) <= 390, `${path} scrolls sideways`);
      assert.deepEqual(
        faults.filter((fault) => !/favicon/.test(fault)),
        [],
      );
      await close();
    }
  }
});

test('search, tabs and copy buttons work in a browser, and the sidebar is there on a wide screen', async () => {
  const { page, faults, close } = await openTab(browser, `${app.url}/docs`, { width: 1280 });
  await page.keyboard.press('/');
  await page.keyboard.type('quick');
  const link = page
    .locator('.bar .results')
    .getByRole('link', { name: /Quick start/ })
    .first();
  await link.waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Quick start' }).waitFor();
  await page.getByRole('navigation', { name: 'Documentation' }).getByRole('link', { name: 'Webhooks', exact: true }).waitFor();
  await page.getByRole('navigation', { name: 'On this page' }).waitFor();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy' }).first().click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.match((await page.evaluate('navigator.clipboard.readText()')) as string, /npm ci && npm start/);
  const tab = page.getByRole('tab', { name: 'curl' }).first();
  await tab.click();
  await page.getByRole('tabpanel', { name: 'curl' }).first().waitFor();
  assert.equal(await page.getByRole('tabpanel', { name: 'Node.js' }).count(), 0);
  assert.deepEqual(await auditAccessibility(page), []);
  assert.deepEqual(faults, []);
  await close();
});

test('the pages run under a policy that allows only files of this service', async () => {
  for (const path of ['/docs', '/docs/guides/webhooks', '/docs/errors', '/docs/search?q=key']) {
    const page = await app.anonymous.get(path);
    const policy = page.headers.get('content-security-policy')!;
    assert.ok(policy.startsWith("default-src 'none'; style-src 'self'; script-src 'self'; "), path);
    assert.ok(!/<img|<style|style="|\son\w+=/i.test(page.text), path);
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  }
  const plain = await app.anonymous.get('/setup?token=none');
  const [, style] = /<style>(.*?)<\/style>/s.exec(plain.text)!;
  const hash = createHash('sha256').update(style!).digest('base64');
  assert.ok(plain.headers.get('content-security-policy')!.includes(`style-src 'sha256-${hash}'`));
  assert.ok(!/<script/i.test(plain.text));
});

test('a set-up link opens the dashboard without sending its token to any server; opening it does not use it up', async () => {
  const { pathname, search, hash } = new URL(app.merchant.setupUrl);
  assert.equal(search, '', 'neither a log nor the history of a proxy keeps it');
  const token = /^#token=([\w-]{20,})$/.exec(hash)![1];
  for (const [path, location] of [
    [pathname, '/dashboard/set-up'],
    // The format of older links.
    [`${pathname}?token=${token}`, `/dashboard/set-up#${token}`],
  ] as const) {
    const page = await app.anonymous.get(path);
    assert.equal(page.status, 303);
    assert.equal(page.headers.get('cache-control'), 'no-store');
    assert.equal(page.headers.get('location'), location);
  }
  assert.equal((await app.anonymous.get('/setup?token=none')).status, 404);
});
