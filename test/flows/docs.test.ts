/** The documentation that an install serves: what errors link to is there, and so is what the pages link to. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { PROBLEMS } from '../../src/core/problem.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
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

test('the overview names every route, and its links answer', async () => {
  const page = await app.anonymous.get('/docs');
  assert.equal(page.status, 200);
  for (const { method, path } of ROUTES) {
    assert.ok(page.text.includes(`<code>${method} ${path.replace(/:(\w+)/g, '{$1}')}</code>`), `${method} ${path}`);
  }
  const links = [...page.text.matchAll(/href="([^"]+)"/g)].map(([, link]) => link!);
  assert.ok(links.includes('/openapi.json') && links.includes('/docs/errors'));
  for (const link of links) assert.equal((await app.anonymous.get(link)).status, 200, link);
});

test('the pages run under a policy that allows their own style and nothing else', async () => {
  for (const path of ['/docs', '/docs/errors', '/setup?token=none']) {
    const page = await app.anonymous.get(path);
    const policy = page.headers.get('content-security-policy')!;
    const [, style] = /<style>(.*?)<\/style>/s.exec(page.text)!;
    assert.ok(policy.startsWith("default-src 'none'; "), path);
    assert.ok(policy.includes(`style-src 'sha256-${createHash('sha256').update(style!).digest('base64')}'`), path);
    assert.ok(!/<script|<img|style="|\son\w+=/i.test(page.text), path);
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  }
});

test('a set-up link lists commands with the id of its merchant, as text', async () => {
  const { pathname, search } = new URL(app.merchant.setupUrl);
  const page = await app.anonymous.get(pathname + search);
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('cache-control'), 'no-store');
  assert.ok(page.text.includes(`--merchant ${app.merchant.merchantId}`));
  assert.ok(page.text.includes('--name &quot;Another shop&quot;'));
});
