/** Public keys on pages of other sites, in a browser: the key of a first start creates payments, and a page that may not use a key reads why. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { openTab, startBrowser } from '../kit/browser.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { freePort } from '../kit/nodes.ts';
import { setUpPerson } from '../kit/person.ts';

type Site = { origin: string; server: Server };
/** A website of its own origin, with an empty page. */
async function startSite(): Promise<Site> {
  const server = createServer((_request, reply) => {
    reply.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    reply.end('<!doctype html><html lang="en"><head><title>Shop</title><link rel="icon" href="data:,"></head><body>Shop</body></html>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

let database: TestDatabase;
let service: ChildProcess;
let output = '';
let url: string;
let browser: Browser;
let shop: Site;
let stranger: Site;
const env = () => ({ PATH: process.env.PATH ?? '', ...environment });
let environment: Record<string, string>;
const florin = async (...args: string[]): Promise<any> =>
  JSON.parse((await promisify(execFile)(process.execPath, ['src/main.ts', ...args, '--json'], { env: env() })).stdout);
const printed = (shape: RegExp): string => shape.exec(output)![1]!;
/** Starts the service, and waits until it has printed what a start prints last. */
async function serve(last: string): Promise<void> {
  output = '';
  service = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
    env: env(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  service.stdout!.on('data', (part) => {
    output += part.toString();
  });
  await eventually(
    async () => output,
    (text) => text.includes(last),
    60_000,
  );
}
async function end(): Promise<void> {
  const ended = once(service, 'exit');
  service.kill('SIGTERM');
  await ended;
}
before(async () => {
  [database, browser, shop, stranger] = await Promise.all([testDatabase(), startBrowser(), startSite(), startSite()]);
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  environment = testEnvironment(database.url, database.folder, { PORT: String(port), PUBLIC_URL: url });
  await serve('Create a test payment');
});
after(async () => {
  await browser?.close();
  for (const site of [shop, stranger]) site?.server.close();
  if (service?.exitCode === null) {
    const ended = once(service, 'exit');
    service.kill();
    await ended;
  }
  await database?.drop();
});

type Answer = { status: number; json: any; limit: (string | null)[] } | { failure: string };
/** What a script of the page sees when it creates a payment. */
const createIn = (page: Page, key: string, more: { path?: string; body?: string; credentials?: string } = {}): Promise<Answer> =>
  page.evaluate(
    async ({ url, key, path, body, credentials }) => {
      try {
        const reply = await fetch(url + path, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() },
          credentials: credentials as RequestCredentials,
          body: body ?? JSON.stringify({ amount_usd: 25, return_url: `${location.origin}/thanks` }),
        });
        const limit = ['limit', 'remaining', 'reset'].map((name) => reply.headers.get(`x-ratelimit-${name}`));
        return { status: reply.status, json: await reply.json(), limit };
      } catch (error) {
        return { failure: String(error) };
      }
    },
    { url, key, path: more.path ?? '/api/payment/create/simple', body: more.body, credentials: more.credentials ?? 'same-origin' },
  );
const seen = (answer: Answer) => {
  if ('failure' in answer) assert.fail(`the page cannot read the reply: ${answer.failure}`);
  return answer;
};
const payments = async (): Promise<number> =>
  (await client(url, printed(/Secret test key +(sk_test_\w+)/)).get('/api/payments')).json.total_count;

test('the public key of a first start creates a payment from a page of another origin, which reads the reply', async () => {
  assert.match(
    output,
    /Every website can use the public key until you list the origins of yours:\s+\.\/florin checkout set --merchant mer_\w+ --origins /,
  );
  const key = printed(/Public test key +(pk_test_\w+)/);
  const tab = await openTab(browser, shop.origin);
  for (const [nth, path] of ['/api/payment/create/simple', '/v1/api/payment/create/simple'].entries()) {
    const { status, json, limit } = seen(await createIn(tab.page, key, { path }));
    assert.equal(status, 201, JSON.stringify(json));
    assert.equal(new URL(json.payment_url).searchParams.get('id'), json.transaction_id);
    for (const figure of limit) assert.match(String(figure), /^\d+$/);
    assert.equal(await payments(), nth + 1);
  }
  const wrong = seen(await createIn(tab.page, key, { body: '{"amount_usd":0,"return_url":"https://shop.example/"}' }));
  assert.deepEqual([wrong.status, wrong.json.error.param], [400, 'amount_usd']);
  const large = seen(await createIn(tab.page, key, { body: JSON.stringify({ description: 'x'.repeat(70_000) }) }));
  assert.deepEqual([large.status, large.json.error.code], [413, 'body_too_large']);
  const unknown = seen(await createIn(tab.page, `${key}x`));
  assert.deepEqual([unknown.status, unknown.json.error.code], [401, 'invalid_api_key']);
  const withCookies = await createIn(tab.page, key, { credentials: 'include' });
  assert.ok('failure' in withCookies, 'pages cannot send cookies along');
  await tab.close();
});

test('a secret key on a page is refused, and the page reads why', async () => {
  const before = await payments();
  const tab = await openTab(browser, shop.origin);
  const { status, json } = seen(await createIn(tab.page, printed(/Secret test key +(sk_test_\w+)/)));
  assert.deepEqual([status, json.error.code], [403, 'secret_key_in_page']);
  assert.match(json.error.message, /public key/);
  assert.equal(await payments(), before);
  await tab.close();
});

test('with origins set, a page of another site reads the refusal, and no payment exists', async () => {
  const merchant = printed(/Your first merchant is (mer_\w+)/);
  await florin('checkout', 'set', '--merchant', merchant, '--origins', shop.origin);
  const { key } = await florin('key', 'create', '--merchant', merchant, '--mode', 'test', '--type', 'public');
  const tab = await openTab(browser, stranger.origin);
  const before = await payments();
  const { status, json } = seen(await createIn(tab.page, key));
  assert.deepEqual([status, json.error.type, json.error.code, json.error.param], [403, 'permission_denied', 'origin_not_allowed', null]);
  assert.ok(json.error.message.includes(stranger.origin));
  assert.equal(await payments(), before);
  await tab.close();
  const own = await openTab(browser, shop.origin);
  assert.equal(seen(await createIn(own.page, key)).status, 201);
  assert.equal(await payments(), before + 1);
  await own.close();
});

test('until there is an account, each start prints the link to create it, which still works', async () => {
  const link = printed(/Create your account +(\S+)/);
  await end();
  await serve('Nobody has an account yet');
  assert.equal(printed(/Create your account +(\S+)/), link);
  await setUpPerson({ url, merchant: { setupUrl: link } });
  await end();
  await serve('Florin is ready');
  await florin('merchant', 'list');
  assert.doesNotMatch(output, /Create your/);
});
