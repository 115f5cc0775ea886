/** What strangers, members and shops write, where it is stored, shown and printed: dates, addresses, names, and text for terminals. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { DASHBOARD_ROUTES } from '../../src/web/dashboard/serve.ts';
import { eventually, type Reply, type TestApp, testEnvironment } from '../kit/app.ts';
import { connectPlugin, startShopApp } from '../kit/connected-shop.ts';
import { isLongRun } from '../kit/long.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

const EVIL = '\x1b]0;OWNED\x07\x1b[2K\x9b31m\r\n\u202e';
const ACTS = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;
const run = promisify(execFile);
let app: TestApp;
let owner: Person;
before(async () => {
  app = await startShopApp();
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const ok = (reply: Reply): any => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const refuses = ({ status, json, text }: Reply, param: string) =>
  assert.deepEqual([status, json?.error?.type, json?.error?.param], [400, 'invalid_request', param], text);

const BAD_TIMES = [
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:60Z',
  '0001-01-01T00:00:00+23:59',
  '2026-01-01T00:00:60Z',
  '2101-01-01T00:00:00Z',
];

test('the API refuses dates that do not exist or are out of range, and names the parameter', async () => {
  for (const param of ['created_after', 'created_before'])
    for (const text of [...BAD_TIMES, '0000-01-01', '2026-02-30'])
      refuses(await app.test.get(`/api/payments?${param}=${encodeURIComponent(text)}`), param);
  assert.equal((await app.test.get('/api/payments?created_after=2026-01-01')).status, 200);
});

test('no screen of the dashboard and no export begins with such a date', async () => {
  let asked = 0;
  for (const { method, path, query, ...route } of DASHBOARD_ROUTES) {
    const names = Object.keys((query as { properties?: object } | undefined)?.properties ?? {});
    if (method !== 'GET' || 'open' in route) continue;
    for (const name of names.filter((one) => ['from', 'until', 'since'].includes(one)))
      for (const text of [...BAD_TIMES, '0000-01-01', '2101-01-01']) {
        const others = names.filter((one) => one !== name && ['from', 'until'].includes(one)).map((one) => `${one}=2026-01-01`);
        const reply = await owner.get(
          `/test${path.replace(/:\w+/g, 'x_1')}?${[`${name}=${encodeURIComponent(text)}`, ...others].join('&')}`,
        );
        assert.ok(reply.status >= 400 && reply.status < 500, `${path} ${name}=${text}: ${reply.status} ${reply.text}`);
        asked++;
      }
  }
  assert.ok(asked > 20, `${asked} requests`);
  refuses(await owner.get(`/test/payments?from=${BAD_TIMES[1]}`), 'from');
  refuses(await owner.get(`/test/audit?until=${BAD_TIMES[0]}`), 'until');
});

test('a website that nothing can open is refused, and one that was stored before shows no link instead of failing', async () => {
  for (const website of ['https://[', 'https://%%', 'https://a.example:99999', 'https://a@b.example', 'http://shop.example'])
    refuses(await owner.post('/test/settings/business', { website }), 'website');
  const link = ok(await owner.post('/test/links', { name: 'Tickets', amount: '5.00', currency: 'USD', reusable: true })).link;
  ok(await owner.post('/test/settings/business', { website: 'https://münchen.example/shop' }));
  assert.match(await (await fetch(`${app.url}/link/${link.id}`)).text(), />xn--mnchen-3ya\.example</);
  await app.app.ctx.db.sql`update merchants set settings = settings || '{"website":"https://["}'`;
  // The merchant is cached for up to a second.
  const page = await eventually(
    () => app.anonymous.get(`/link/${link.id}`),
    ({ text }) => !text.includes('xn--mnchen-3ya'),
  );
  assert.equal(page.status, 200);
  assert.doesNotMatch(page.text, /https:\/\/\[/);
});

test('a shop sends customers only to addresses that can be opened, with and without its order in them', async () => {
  const { call, store } = await connectPlugin(app);
  const create = (redirectURL: string, orderId = 'a b') =>
    call('POST', `/api/v1/stores/${store}/invoices`, { amount: '5.00', currency: 'USD', metadata: { orderId }, checkout: { redirectURL } });
  for (const address of [
    'https://{OrderId}/',
    'https://x{InvoiceId}.example/',
    'https://[',
    'https://a.example:99999/',
    'https://a@b.example/',
  ])
    assert.deepEqual(
      (await create(address)).json.map(({ path }: { path: string }) => path),
      ['checkout.redirectURL'],
      address,
    );
  const made = (await create('https://shop.example/{OrderId}?id={InvoiceId}')).json;
  const page = await fetch(`${app.url}/pay?id=${made.id}`);
  assert.equal(page.status, 200);
  assert.match(
    page.headers.get('content-security-policy')!,
    /frame-ancestors 'none'$/,
    'where a customer is sent says nothing about who may frame',
  );
  await app.app.ctx.db.sql`update payments set request = request || '{"returnUrl":"https://a b/"}' where id = ${made.id}`;
  assert.equal((await fetch(`${app.url}/pay?id=${made.id}`)).status, 200);
});

test('a webhook secret of a shop has at least 16 characters, or Florin makes one', async () => {
  const { call, store } = await connectPlugin(app);
  const create = (secret?: string) =>
    call('POST', `/api/v1/stores/${store}/webhooks`, { url: `http://127.0.0.1:9/hook`, authorizedEvents: { everything: true }, secret });
  for (const secret of ['a', 'fifteen letters'])
    assert.deepEqual([(await create(secret)).status, (await create(secret)).json[0].path], [422, 'Secret']);
  assert.equal((await create('sixteen letters!')).json.secret, 'sixteen letters!');
  assert.ok((await create()).json.secret.length >= 16);
});

test('a member who connects a shop over plain http is warned', async () => {
  const ask = (redirect: string) =>
    Buffer.from(
      new URLSearchParams({ permissions: 'btcpay.store.cancreateinvoice', applicationName: 'Shop', redirect }).toString(),
    ).toString('base64url');
  for (const [redirect, expected] of [
    ['http://shop.example/back', true],
    ['http://93.184.216.34/back', true],
    ['https://shop.example/back', false],
    ['http://localhost:8080/back', false],
    ['http://192.168.1.5/back', false],
  ] as const)
    assert.equal(ok(await owner.post('/live/shops/asked', { ask: ask(redirect) })).unprotected, expected, redirect);
});

test('names and references with characters that act are refused, with the parameter', async () => {
  refuses(await owner.post('/test/keys', { kind: 'secret', name: `k${EVIL}x`, expires_in_days: null, origins: [] }), 'name');
  refuses(await owner.post('/test/links', { name: `l${EVIL}x`, amount: '5.00', currency: 'USD', reusable: true }), 'name');
  const payout = { currency: 'BTC', amount: '0.01', address: 'test_btc_payer', payout_reference: `r${EVIL}x` };
  refuses(await app.test.post('/v1/payouts', payout), 'payout_reference');
});

test('nothing that was stored acts on the terminal of an operator or a developer, and JSON stays JSON', async () => {
  const { sql } = app.app.ctx.db;
  const { merchantId, keys } = app.merchant;
  const { json: payment } = await app.testPublic.post('/api/payment/create/simple', {
    ...{ amount_usd: 3, return_url: 'https://a.example', invoice_id: `i${EVIL}`, description: `d${EVIL}` },
  });
  const payout = { currency: 'BTC', amount: '0.01', address: 'test_btc_payer', payout_reference: 'before', description: 'x' };
  await app.test.post('/v1/payouts', payout);
  // As older versions stored them.
  await sql`update outgoing_payments set reference = ${`r${EVIL}`}, description = ${EVIL}`;
  await sql`update keys set name = ${`k${EVIL}`}`;
  await sql`update merchants set name = ${`m${EVIL}`}`;
  await sql`update users set name = ${`u${EVIL}`}`;
  const env = {
    PATH: process.env.PATH ?? '',
    ...testEnvironment(app.config.databaseUrl ?? '', app.config.dataFolder),
    ...{ FLORIN_URL: app.url, FLORIN_API_KEY: keys.testSecret, FORCE_COLOR: '0', NODE_OPTIONS: '--disable-warning=ExperimentalWarning' },
  };
  const of = ['--merchant', merchantId, '--mode', 'test'];
  const commands: [file: string, args: string[], shows: RegExp][] = [
    ['src/main.ts', ['payout', 'list', ...of], /r\\u001b\]0;OWNED\\u0007\\u001b\[2K\\u009b31m\\u000d\\u000a\\u202e/],
    ['src/main.ts', ['key', 'list', ...of], /k\\u001b/],
    ['src/main.ts', ['merchant', 'list'], /m\\u001b/],
    ['src/main.ts', ['user', 'list'], /u\\u001b/],
    ['sdk/src/cli.ts', ['payments', 'get', payment.transaction_id], /d\\u001b/],
    ['sdk/src/cli.ts', ['payments', 'list'], new RegExp(payment.transaction_id)],
  ];
  // Of each program, the first command as JSON; in long runs, all of them.
  const isFirst = (at: number) => commands.findIndex(([file]) => file === commands[at]![0]) === at;
  for (const [at, [file, args, shows]] of commands.entries()) {
    const { stdout } = await run(process.execPath, [file, ...args], { env });
    assert.doesNotMatch(stdout, ACTS, args.join(' '));
    assert.match(stdout, shows, args.join(' '));
    if (!isLongRun && !isFirst(at)) continue;
    const { stdout: json } = await run(process.execPath, [file, ...args, '--json'], { env });
    assert.doesNotMatch(json, ACTS, args.join(' '));
    assert.doesNotThrow(() => JSON.parse(json));
  }
});
