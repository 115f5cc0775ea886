/** The documentation that an install serves: what errors link to is there, and so is what the pages link to. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { PROBLEMS } from '../../src/core/problem.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { renderMarkdown } from '../../src/web/markdown.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, startBrowser } from '../kit/browser.ts';

let app: TestApp;
before(async () => {
  await buildApp({ info: () => {} });
  app = await startTestApp();
});
after(() => app.stop());

/** The path and anchor of a link as this server, whatever its public name, is asked for it. */
const local = (link: string): { path: string; anchor: string } => {
  const { pathname, hash } = new URL(link, app.config.publicUrl);
  return { path: pathname, anchor: hash.slice(1) };
};

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

test('every code of the catalogue has one anchor, with its status and type', async () => {
  const page = await app.anonymous.get('/docs/errors');
  assert.equal(page.status, 200);
  const anchors = [...page.text.matchAll(/<dt id="([^"]+)">(.*?)<\/dt>/g)];
  assert.deepEqual(
    anchors.map(([, code]) => code),
    Object.keys(PROBLEMS),
  );
  for (const [, code, line] of anchors) {
    const { status, type } = PROBLEMS[code as keyof typeof PROBLEMS];
    assert.ok(line!.includes(`${status} <code>${type}</code>`), code);
  }
});

test('the overview names every route', async () => {
  const page = await app.anonymous.get('/docs');
  assert.equal(page.status, 200);
  for (const { method, path } of ROUTES) {
    assert.ok(page.text.includes(`<code>${method} ${path.replace(/:(\w+)/g, '{$1}')}</code>`), `${method} ${path}`);
  }
});

test('every link of every page leads somewhere, to its anchor too', async () => {
  const pages = new Map<string, string>();
  const open = async (path: string, from: string): Promise<string> => {
    if (!pages.has(path)) {
      const page = await app.anonymous.get(path);
      assert.equal(page.status, 200, `${from} -> ${path}`);
      pages.set(path, page.text);
      if (page.headers.get('content-type')?.startsWith('text/html')) {
        for (const [, link] of page.text.matchAll(/href="([^"]+)"/g)) {
          if (/^(https?|data):/.test(link!)) continue;
          const { pathname, hash } = new URL(link!, `http://docs${path}`);
          const target = await open(pathname, path);
          if (hash) assert.ok(target.includes(`id="${hash.slice(1)}"`), `${path} -> ${link}`);
        }
      }
    }
    return pages.get(path)!;
  };
  await open('/docs', '');
  for (const path of [
    '/docs/api',
    '/docs/reference',
    '/docs/errors',
    '/docs/guides/quickstart',
    '/docs/guides/recipes/python',
    '/openapi.json',
    '/llms.txt',
  ])
    assert.ok(pages.has(path), `${path} is not linked`);
  assert.ok(pages.size > 20, String(pages.size));
});

test('the reference tells of every route: its fields, a request and what comes back', async () => {
  const page = await app.anonymous.get('/docs/api');
  for (const { handle, method, path, query, body } of ROUTES) {
    const [, section] = new RegExp(`<h3 id="${handle.name}">([\\s\\S]*?)(?=<h[23] |$)`).exec(page.text) ?? assert.fail(handle.name);
    assert.ok(section!.includes(`<code>${method} ${path.replace(/:(\w+)/g, '{$1}')}</code>`), handle.name);
    for (const name of Object.keys({ ...query?.properties, ...(body as { properties?: object })?.properties })) {
      assert.ok(section!.includes(`<code>${name}</code>`), `${handle.name} ${name}`);
    }
    assert.ok(section!.includes('curl '), handle.name);
    assert.ok(/href="#(payment|event)"|<pre[^>]*><code>\{/.test(section!), handle.name);
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

test('Markdown becomes the page it describes, and its text stays text', () => {
  const page = renderMarkdown(
    [
      '# A *b* <i>',
      '',
      'One `<two>` **three** [four](five.md#six) [gone](none.md)',
      'more',
      '',
      '- a',
      '  b',
      '- c',
      '  1. d',
      '',
      '| x | y |',
      '|---|---|',
      '| `a \\| b` | &lt;z> |',
      '',
      '```sh',
      '# no heading <b>',
      '```',
      '## A b',
      '## A b',
      '## C {#own}',
    ].join('\n'),
    (target) => (target === 'none.md' ? null : `/at/${target}`),
  ).text;
  assert.deepEqual(page.split('\n').slice(0, 3), [
    '<h1 id="a-b-i">A *b* &lt;i&gt;</h1>',
    '<p>One <code>&lt;two&gt;</code> <strong>three</strong> <a href="/at/five.md#six">four</a> gone',
    'more</p>',
  ]);
  assert.ok(page.includes('<ul><li>a\nb</li><li>c<ol><li>d</li></ol></li></ul>'), page);
  assert.ok(page.includes('<th>x</th><th>y</th>') && page.includes('<td><code>a | b</code></td><td>&lt;z&gt;</td>'), page);
  assert.ok(page.includes('<code># no heading &lt;b&gt;</code>'), page);
  for (const id of ['a-b', 'a-b-1', 'own']) assert.ok(page.includes(`<h2 id="${id}">`), page);
});

test('the pages are readable on a phone and by everybody', async () => {
  const browser = await startBrowser();
  try {
    for (const path of ['/docs', '/docs/api', '/docs/guides/webhooks', '/docs/errors']) {
      for (const dark of [false, true]) {
        const { page, faults, close } = await openTab(browser, app.url + path, { width: 390, dark });
        assert.deepEqual(await auditAccessibility(page), [], path);
        assert.ok(((await page.evaluate('document.documentElement.scrollWidth')) as number) <= 390, `${path} scrolls sideways`);
        assert.deepEqual(
          faults.filter((fault) => !/favicon/.test(fault)),
          [],
        );
        await close();
      }
    }
  } finally {
    await browser.close();
  }
});

test('the pages run under a policy that allows their own style and nothing else', async () => {
  for (const path of ['/docs', '/docs/api', '/docs/guides/webhooks', '/docs/errors', '/setup?token=none']) {
    const page = await app.anonymous.get(path);
    const policy = page.headers.get('content-security-policy')!;
    const [, style] = /<style>(.*?)<\/style>/s.exec(page.text)!;
    assert.ok(policy.startsWith("default-src 'none'; "), path);
    assert.ok(policy.includes(`style-src 'sha256-${createHash('sha256').update(style!).digest('base64')}'`), path);
    assert.ok(!/<script|<img|style="|\son\w+=/i.test(page.text), path);
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  }
});

test('a set-up link leads into the dashboard, its token where no server is told it; looking spends nothing', async () => {
  const { pathname, search, hash } = new URL(app.merchant.setupUrl);
  assert.equal(search, '', 'neither a log nor the history of a proxy keeps it');
  const token = /^#token=([\w-]{20,})$/.exec(hash)![1];
  for (const [path, location] of [
    [pathname, '/dashboard/set-up'],
    // As links were printed before.
    [`${pathname}?token=${token}`, `/dashboard/set-up#${token}`],
  ] as const) {
    const page = await app.anonymous.get(path);
    assert.equal(page.status, 303);
    assert.equal(page.headers.get('cache-control'), 'no-store');
    assert.equal(page.headers.get('location'), location);
  }
  assert.equal((await app.anonymous.get('/setup?token=none')).status, 404);
});
