/** The command line as real processes against the running service. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { VERSION, webhooks } from '../../sdk/src/index.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { isLongRun, longTest } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

const CLI = join(import.meta.dirname, '../../sdk/src/cli.ts');
let app: TestApp;
let receiver: Receiver;
let folder: string;
before(async () => {
  app = await startTestApp();
  receiver = await startReceiver();
  folder = mkdtempSync(join(tmpdir(), 'florin-cli-'));
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
  rmSync(folder, { recursive: true, force: true });
});

type Ended = { code: number; out: string; err: string };
const environment = (more: object = {}) => ({
  PATH: process.env.PATH ?? '',
  NO_COLOR: '1',
  NODE_OPTIONS: '--disable-warning=ExperimentalWarning',
  ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
  FLORIN_URL: app.url,
  FLORIN_API_KEY: app.merchant.keys.testSecret,
  ...more,
});
/** A command in a process, as a developer runs it: in long runs all are run like this. */
const inProcess = (args: string[], { input = '', env = {} }: { input?: string; env?: object } = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(process.execPath, [CLI, ...args], { env: environment(env) }, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out, err }),
    );
    child.stdin!.end(input);
  });
/** The same program with arguments, variables and outputs of its own, without the start of another Node: a fraction of the time. */
async function inThread(args: string[], env: object): Promise<Ended> {
  const given = { argv: args, env: environment(env), execArgv: ['--disable-warning=ExperimentalWarning'] };
  const worker = new Worker(CLI, { ...given, stdout: true, stderr: true });
  const [[code], out, err] = await Promise.all([once(worker, 'exit'), readText(worker.stdout), readText(worker.stderr)]);
  return { code, out, err };
}
const florin = (args: string[], given: { input?: string; env?: object } = {}): Promise<Ended> =>
  isLongRun || given.input !== undefined ? inProcess(args, given) : inThread(args, given.env ?? {});
const run = (program: string, args: string[]): Promise<Ended> =>
  new Promise((done) => {
    execFile(program, args, { timeout: 120_000 }, (error, out, err) => done({ code: error ? Number(error.code) || 1 : 0, out, err }));
  });
/** Two at a time, one for each processor. */
async function inTurns<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const worker = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next);
  };
  await Promise.all([worker(), worker()]);
}
const json = async (...args: string[]): Promise<any> => {
  const { code, out, err } = await florin([...args, '--json']);
  assert.equal(code, 0, err);
  assert.equal(err, '');
  return JSON.parse(out);
};

test('payments are created, shown, listed and canceled', async () => {
  const made = await json(
    ...['payments', 'create', '--amount', '12.50', '--currency', 'usd', '--metadata', 'order=A-1', '--metadata', 'note=x=y'],
  );
  assert.equal(made.amount_usd, '12.50');
  assert.deepEqual((await json('payments', 'get', made.id)).metadata, { order: 'A-1', note: 'x=y' });
  assert.equal((await json('payments', 'cancel', made.id)).status, 'cancelled');
  const page = await json('payments', 'list', '--limit', '1', '--status', 'cancelled');
  assert.equal(page.data[0].id, made.id);
  const plain = await florin(['payments', 'list']);
  assert.match(plain.out, /^id +status +usd/);
  assert.match(plain.out, new RegExp(`${made.id} +cancelled +12\\.50`));
  const shown = await florin(['payments', 'get', made.id]);
  assert.match(shown.out, /^status: cancelled$/m);
  assert.match(shown.out, /^ {2}order: A-1$/m);
});

test('one idempotency key creates one payment over two commands', async () => {
  const args = ['payments', 'create', '--amount', '1', '--currency', 'USD', '--idempotency-key', 'again'];
  assert.equal((await json(...args)).id, (await json(...args)).id);
});

test('a payment is priced in any currency or coin, paid in a chosen coin, and names its customer, who is shown and listed', async () => {
  const who = ['--customer-email', 'ada@example.com', '--customer-name', 'Ada', '--customer-reference', 'account 7'];
  const how = ['--crypto', 'usdc', '--network', 'base', '--description', 'Two mugs', '--return-url', 'https://shop.example/'];
  const made = await json('payments', 'create', '--amount', '20.00', '--currency', 'EUR', ...how, ...who);
  assert.deepEqual(
    [made.amount_fiat, made.currency_fiat, made.currency, made.network, made.description],
    ['20.00', 'EUR', 'USDC', 'base', 'Two mugs'],
  );
  const coins = await json('payments', 'create', '--amount', '0.001', '--currency', 'BTC', '--customer-reference', 'account 7');
  assert.deepEqual([coins.amount, coins.currency], ['0.00100000', 'BTC']);
  const { data } = await json('customers', 'list', '--reference', 'account 7');
  assert.deepEqual(
    data.map(({ email, name, reference }: any) => [email, name, reference]),
    [['ada@example.com', 'Ada', 'account 7']],
  );
  assert.equal((await json('customers', 'get', data[0].id)).email, 'ada@example.com');
  assert.deepEqual((await json('customers', 'list', '--email', 'nobody@example.com')).data, []);
  assert.match((await florin(['customers', 'list'])).out, /^id +email +name +reference[\s\S]*cus_\w+ +ada@example\.com +Ada +account 7/);
});

test('payment links are created, shown, listed and archived', async () => {
  const made = await json('links', 'create', 'Two mugs', '--amount', '25.50', '--currency', 'EUR', '--one-payment');
  assert.deepEqual([made.name, made.amount, made.currency, made.reusable], ['Two mugs', '25.50', 'EUR', false]);
  assert.equal((await json('links', 'archive', made.id)).state, 'archived');
  assert.equal((await json('links', 'get', made.id)).state, 'archived');
  assert.match((await florin(['links', 'list'])).out, new RegExp(`^${made.id} +archived +25\\.50 EUR +0 +Two mugs$`, 'm'));
});

test('refunds, payouts and endpoints are created, shown, listed and ended', async () => {
  const { payment_id } = await json('trigger', 'success', '--currency', 'BTC');
  const refund = await json('refunds', 'create', payment_id, '--amount-usd', '1.00', '--reason', 'Broken mug', '--idempotency-key', 'r-1');
  assert.deepEqual([refund.amount_usd, refund.reason, refund.status], ['1.00', 'Broken mug', 'requested']);
  assert.equal((await json('refunds', 'get', refund.id)).id, refund.id);
  assert.equal((await json('refunds', 'list', '--payment', payment_id, '--status', 'requested')).data[0].id, refund.id);
  assert.match((await florin(['refunds', 'list'])).out, new RegExp(`^id +status +amount[^]*${refund.id} +requested .* BTC +${payment_id}`));
  assert.equal((await json('refunds', 'cancel', refund.id)).status, 'canceled');

  const asked = ['--currency', 'btc', '--amount', '0.001', '--address', 'test_btc_payer', '--payout-reference', 'salary-1'];
  const payout = await json('payouts', 'create', ...asked, '--description', 'November');
  assert.deepEqual([payout.amount, payout.payout_reference, payout.description], ['0.00100000', 'salary-1', 'November']);
  assert.equal((await json('payouts', 'get', payout.id)).id, payout.id);
  assert.equal((await json('payouts', 'list', '--payout-reference', 'salary-1')).data[0].id, payout.id);
  assert.match((await florin(['payouts', 'list', '--limit', '1'])).out, new RegExp(`${payout.id} +requested +0\\.00100000 +BTC +salary-1`));
  assert.equal((await json('payouts', 'cancel', payout.id)).status, 'canceled');

  // A receiver of its own: each endpoint signs with its own secret.
  const hook = await startReceiver();
  try {
    const wanted = ['--events', 'payment.completed,payment.reversed', '--description', 'Orders'];
    const endpoint = await json('endpoints', 'create', hook.url, ...wanted);
    assert.deepEqual(endpoint.events, ['payment.completed', 'payment.reversed']);
    assert.equal((await json('endpoints', 'get', endpoint.id)).description, 'Orders');
    const { out } = await florin(['endpoints', 'list']);
    assert.match(out, new RegExp(`${endpoint.id} +enabled +payment\\.completed,payment\\.reversed +http`));
    const sent = await json('endpoints', 'test', endpoint.id);
    const [arrived] = await eventually(
      async () => hook.received,
      (all) => all.length > 0,
    );
    const event = await webhooks.verify(arrived!.body, arrived!.headers, endpoint.secret);
    assert.deepEqual([event.id, event.type], [sent.event_id, 'webhook.test']);
    assert.equal((await json('endpoints', 'delete', endpoint.id)).deleted, true);
  } finally {
    await hook.stop();
  }
  assert.match((await florin(['refunds', 'create'])).err, /Missing argument: payment ID/);
  assert.match((await florin(['payouts', 'create'])).err, /Missing --currency/);
});

const TRIGGERS = `
name               | status     | exception | last event
payment.created    | pending    |           | payment.created
payment.processing | processing |           | payment.processing
payment.completed  | completed  |           | payment.completed
payment.failed     | failed     | underpaid | payment.failed
payment.expired    | expired    |           | payment.expired
payment.cancelled  | cancelled  |           | payment.cancelled
payment.updated    | pending    | underpaid | payment.updated
overpaid           | completed  | overpaid  | payment.completed
payment.reversed   | completed  | reorged   | payment.reversed
`;
test('trigger creates a test payment and triggers the named event', async () => {
  await inTurns(TRIGGERS.trim().split('\n').slice(1), async (row) => {
    const [name, status, exception, event] = row.split('|').map((cell) => cell.trim());
    const made = await json('trigger', name!, '--currency', 'LTC', '--amount-usd', '10.00');
    assert.deepEqual([made.status, made.exception ?? ''], [status, exception], name);
    assert.ok(
      made.events.some((found: any) => found.type === event),
      `${name}: ${JSON.stringify(made.events)}`,
    );
  });
});

test('listen forwards every new event once, in order, signed with the printed secret, byte for byte', async () => {
  const { events: earlier } = await json('trigger', 'payment.created');
  // It starts after the newest visible event.
  await eventually(
    () => json('events', 'list', '--limit', '1'),
    ({ data }) => data[0]?.id === earlier.at(-1).id,
  );
  const { secret } = await json('listen', '--print-secret');
  const child = spawn(process.execPath, [CLI, 'listen', '--forward-to', receiver.url.replace('http://', ''), '--json'], {
    env: environment(),
  });
  const ended = once(child, 'exit');
  let out = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  let err = '';
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  try {
    await eventually(
      async () => out + err,
      (text) => text.includes('"ready":true'),
    );
    assert.equal(JSON.parse(out.split('\n')[0]!).secret, secret);
    const { payment_id: id } = await json('trigger', 'success');
    const other = await json('trigger', 'payment.cancelled');
    await eventually(
      async () => receiver.received,
      (all) => all.some(({ event }) => event.type === 'payment.completed') && all.some(({ event }) => event.type === 'payment.cancelled'),
    );
    const expected = [...(await app.test.get(`/v1/events?payment_id=${id}`)).json.data].reverse();
    const mine = receiver.received.filter(({ event }) => event.data.id === id);
    assert.deepEqual(
      mine.map(({ event }) => event.id),
      expected.map((event: any) => event.id),
    );
    for (const { body, headers, event } of receiver.received) {
      assert.equal(body, (await app.test.get(`/v1/events/${event.id}`)).text);
      assert.equal((await webhooks.verify(body, headers, secret)).id, event.id);
      assert.ok([id, other.payment_id].includes(event.data.id), 'nothing from before');
    }
    // If a receiver refuses, listen says so and continues with the rest.
    receiver.answer(500);
    await json('trigger', 'payment.created');
    await eventually(
      async () => out,
      (text) => text.includes('"failure":"answered 500"'),
    );
    receiver.answer(200);
    const count = receiver.received.length;
    await json('trigger', 'payment.created');
    await eventually(
      async () => receiver.received.length,
      (length) => length === count + 1,
    );
  } finally {
    child.kill('SIGINT');
  }
  const [code] = await ended;
  assert.equal(code, 0, err);
  assert.equal(err, '');
  // The request log then has our own request, and none of its polls.
  await app.test.get('/api/payment/pay_after_listening');
  const logged = await eventually(
    () => json('logs', 'list', '--limit', '100'),
    ({ data }) => data.some((row: any) => row.path.endsWith('/pay_after_listening')),
  );
  assert.deepEqual(
    logged.data.filter((row: any) => row.path === '/v1/events' && row.query === 'limit=20'),
    [],
  );
});

longTest('listen filters by type, and survives a service that is away', async () => {
  const way = await startReceiver();
  const own = await startTestApp();
  const env = environment({ FLORIN_URL: own.url, FLORIN_API_KEY: own.merchant.keys.testSecret });
  const child = spawn(process.execPath, [CLI, 'listen', '--forward-to', way.url, '--events', 'payment.cancelled', '--json'], { env });
  const ended = once(child, 'exit');
  let out = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  try {
    await eventually(
      async () => out,
      (text) => text.includes('"ready":true'),
    );
    const made = await own.test.post('/api/payment/create/simple', { amount_usd: 1, return_url: 'https://shop.example/' });
    await own.test.post(`/v1/payments/${made.json.id}/cancel`);
    await eventually(
      async () => way.received,
      (all) => all.length === 1,
    );
    assert.equal(way.received[0]!.event.type, 'payment.cancelled');
    await own.stop();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    assert.equal(child.exitCode, null);
  } finally {
    child.kill('SIGTERM');
    await way.stop();
  }
  assert.deepEqual(await ended, [0, null]);
});

test('logs tail shows each new request once, in order, but not its own', async () => {
  const asked = async (id: string) => (await app.test.get(`/api/payment/${id}`)).headers.get('x-request-id')!;
  await asked('pay_before');
  await eventually(
    () => json('logs', 'list', '--path', 'pay_before'),
    ({ data }) => data.length === 1,
  );
  const child = spawn(process.execPath, [CLI, 'logs', 'tail', '--failed', '--json'], { env: environment() });
  const ended = once(child, 'exit');
  let out = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  const rows = () =>
    out
      .split('\n')
      .slice(1)
      .filter(Boolean)
      .map((text) => JSON.parse(text));
  try {
    await eventually(
      async () => out,
      (text) => text.includes('"ready":true'),
    );
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push(await asked(`pay_tail${i}`));
    await app.test.get('/api/payments');
    await eventually(
      async () => rows(),
      (found) => found.length >= 3,
    );
    await eventually(
      () => json('logs', 'list', '--path', '/api/payments', '--limit', '1'),
      ({ data }) => data.length === 1,
    );
    ids.push(await asked('pay_last'));
    const all = await eventually(
      async () => rows(),
      (found) => found.length >= 4,
    );
    assert.deepEqual(
      all.map((row) => [row.id, row.status, row.error_code]),
      ids.map((id) => [id, 404, 'payment_not_found']),
    );
  } finally {
    child.kill('SIGINT');
  }
  const [code] = await ended;
  assert.equal(code, 0);
  const { out: text } = await florin(['logs', 'list', '--failed', '--limit', '1']);
  assert.match(text, /404 {2}GET {5}\/api\/payment\/pay_last {2}payment_not_found {2}\d+ ms {2}req_/);
});

test('an event is forwarded again by its ID', async () => {
  const { events } = await json('trigger', 'payment.completed');
  await eventually(
    () => json('events', 'list', '--limit', '100', '--type', 'payment.completed'),
    ({ data }) => data.some((event: any) => event.id === events.at(-1).id),
  );
  const before = receiver.received.length;
  const sent = await json('events', 'resend', events.at(-1).id, '--forward-to', receiver.url);
  assert.equal(sent.status, 200);
  assert.equal(receiver.received.length, before + 1);
  assert.equal(receiver.received.at(-1)!.event.id, events.at(-1).id);
  const { code, out } = await florin(['events', 'resend', events[0].id, '--forward-to', `http://127.0.0.1:${await freePort()}/`, '--json']);
  assert.equal(code, 1);
  assert.equal(JSON.parse(out).failure, 'ECONNREFUSED');
});

test('an event is resent to its endpoints, and the log shows it', async () => {
  const made = await app.test.post('/v1/webhook_endpoints', { url: receiver.url });
  assert.equal(made.status, 201, made.text);
  const { payment_id: id } = await json('trigger', 'payment.created');
  const arrived = () => receiver.received.filter(({ event }) => event.data.id === id);
  await eventually(
    async () => arrived().length,
    (count) => count === 1,
  );
  const event = arrived()[0]!.event.id;
  const [delivery] = await eventually(
    async () => (await json('deliveries', 'list', '--event', event, '--state', 'delivered')).data,
    (rows) => rows.length === 1,
  );
  assert.equal((await json('events', 'resend', event)).deliveries[0].id, delivery.id);
  await eventually(
    async () => arrived().length,
    (count) => count === 2,
  );
  assert.equal(arrived()[1]!.body, arrived()[0]!.body);
  const shown = await eventually(
    () => json('deliveries', 'get', delivery.id),
    (now) => now.attempts.length === 2,
  );
  assert.equal(shown.attempts[1].status, 200);
  assert.equal((await app.test.post(`/v1/webhook_endpoints/${made.json.id}`, { enabled: false })).status, 200);
  const { events } = await json('trigger', 'payment.created');
  const none = await florin(['events', 'resend', events[0].id]);
  assert.equal(none.code, 1);
  assert.match(none.err, /--forward-to/);
});

test('the signature of a delivery is verified from a file and from standard input', async () => {
  const secret = webhooks.newSecret();
  const { body, headers } = await webhooks.signTestEvent({ type: 'payment.completed', data: {} }, secret);
  const file = join(folder, 'body.json');
  writeFileSync(file, body);
  const given = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
  assert.equal((await json('webhooks', 'verify', '--secret', secret, '--body', file, ...given)).valid, true);
  const piped = await florin(['webhooks', 'verify', '--secret', secret, '--body', '-', ...given, '--json'], { input: body });
  assert.equal(JSON.parse(piped.out).type, 'payment.completed');
  const wrong = await florin(['webhooks', 'verify', '--secret', secret, '--body', '-', ...given], { input: `${body} ` });
  assert.equal(wrong.code, 1);
  assert.match(wrong.err, /exact bytes/);
  const bare = await florin([
    'webhooks',
    'verify',
    '--secret',
    secret,
    '--body',
    file,
    '--header',
    `x-service-signature: ${headers['x-service-signature']}`,
  ]);
  assert.match(bare.err, /legacy/);
  assert.equal((await json('webhooks', 'verify', '--secret', secret, '--body', file, ...given.slice(2, 4), '--legacy')).valid, true);
});

test('open prints the URLs of pages of the service and of a payment', async () => {
  assert.equal((await json('open')).url, `${app.url}/docs`);
  assert.equal((await json('open', 'status')).url, `${app.url}/readyz`);
  const { payment_id, payment_url } = await json('trigger', 'payment.created');
  assert.equal((await json('open', payment_id)).url, payment_url);
});

test('wrong usage prints the help, with exit code 2', async () => {
  const rows: [string[], RegExp, object?][] = [
    [['payments'], /^"payments" needs a subcommand: create, get, list, cancel$/m],
    [['nothing'], /^Unknown command "nothing"\.$/m],
    [['paymnets', 'list'], /^Unknown command "paymnets"\. Did you mean "payments"\?$/m],
    [['payments', 'lst'], /Did you mean "payments list"\?/],
    [['payments', 'get'], /^Missing argument: payment ID$/m],
    [['payments', 'get', 'a', 'b'], /^Unexpected argument "b"$/m],
    [['payments', 'create', '--amount', '1'], /^Missing --currency$/m],
    [['payments', 'list', '--limit', 'ten'], /--limit/],
    [['payments', 'list', '--limt', '1'], /^Unknown option --limt for "payments list"\. Did you mean --limit\?$/m],
    [['payments', 'get', 'a', '--failed'], /^Unknown option --failed for "payments get"\.$/m],
    [['payments', 'list', '--limit'], /^--limit needs a value$/m],
    [['payments', 'list', '--limit', '--url'], /--limit needs a value/],
    [['payments', 'list', '--live=yes'], /Unknown option --live/],
    [['--wrong'], /^Unknown option --wrong\.$/m],
    [['trigger', 'payment.complete'], /Did you mean "payment\.completed"\?/],
    [['listen'], /^Missing --forward-to$/m],
    [['listen', '--forward-to', 'ftp://localhost:4000'], /--forward-to must be an http or https address/],
    [['payments', 'list', '--url', 'http://'], /--url must be/],
    [['open', 'erors'], /Did you mean "errors"\?/],
    [['completion', 'tcsh'], /bash, zsh, fish/],
    [['payments', 'list'], /FLORIN_API_KEY/, { FLORIN_API_KEY: '' }],
    [['listen', '--forward-to', 'http://127.0.0.1:1/'], /--live/, { FLORIN_API_KEY: app.merchant.keys.liveSecret }],
    [['trigger', 'success'], /test key/, { FLORIN_API_KEY: app.merchant.keys.liveSecret }],
  ];
  await inTurns(rows, async ([args, words, env = {}]) => {
    const { code, out, err } = await florin(args, { env });
    assert.equal(code, 2, `${args.join(' ')}: ${out}${err}`);
    assert.match(err, words);
    assert.equal(out, '');
  });
});

test('every operator command is shown as it is run, without repeating a key', async () => {
  const { out } = await new Promise<Ended>((done) =>
    execFile(process.execPath, ['src/main.ts', 'help'], { env: environment() }, (_, out, err) => done({ code: 0, out, err })),
  );
  const own = new Set(['deliveries', 'events', 'listen', 'logs', 'open', 'payments', 'trigger', 'webhooks']);
  const names = [...out.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name!).filter((name) => !own.has(name));
  assert.ok(names.includes('serve') && names.includes('backup') && names.length >= 15, names.join());
  const typed = [
    ...names.map((name) => [name]),
    ['merchant', 'create', '--name', "Zoë's shop", '--json'],
    ['wallet', 'set', '--key', 'sk_test_secret'],
    ['endpoint', 'create', '--key=live_sk_secret'],
  ];
  await inTurns(typed, async (args) => {
    const { code, out, err } = await florin(args);
    assert.deepEqual([code, out], [2, ''], args.join(' '));
    const message = args.includes('--json') ? JSON.parse(err).error.message : err;
    assert.ok(message.includes(`./florin ${args[0]}`), err);
    assert.doesNotMatch(err, /sk_test_secret|live_sk_secret/);
    if (args.length > 4) assert.ok(message.includes(String.raw`--name 'Zoë'\''s shop' --json`), message);
  });
});

test('an error from the service shows its code and request, as text and as JSON', async () => {
  const plain = await florin(['payments', 'get', 'pay_000000000000000000000000']);
  assert.equal(plain.code, 1);
  assert.match(plain.err, /No such payment.*\n {2}payment_not_found, request req_/);
  const away = await florin(['payments', 'list'], { env: { FLORIN_URL: `http://127.0.0.1:${await freePort()}` } });
  assert.equal(away.code, 1);
  assert.match(away.err, /cannot be reached: .*ECONNREFUSED/);
  // Where nobody said it, the way to say it. Something else may listen there.
  const unset = await florin(['payments', 'list'], { env: { FLORIN_URL: '' } });
  if (/cannot be reached/.test(unset.err)) assert.match(unset.err, /set FLORIN_URL to it/);
  assert.doesNotMatch(away.err, /set FLORIN_URL/);
});

const FAULTS = `
command                                                            | code | type                  | code of the error       | param
payments get pay_000000000000000000000000                          | 1    | not_found             | payment_not_found       |
payments create --amount 0 --currency USD                           | 1    | invalid_request       | amount_invalid          | amount
payments cancel pay_000000000000000000000000                       | 1    | not_found             | payment_not_found       |
payments list --status paid                                        | 1    | invalid_request       | parameter_invalid       | status
payments list --created-after yesterday                            | 1    | invalid_request       | parameter_invalid       | created_after
payments list --invoice-id A-1 --metadata order=1 --amount 1,50    | 1    | invalid_request       | parameter_invalid       | amount
events list --type payment.paid                                    | 1    | invalid_request       | parameter_invalid       | type
events resend evt_000000000000000000000000                         | 1    | florin_error          | florin_error            |
deliveries get del_none                                            | 1    | not_found             | delivery_not_found      |
logs list --starting-after none                                    | 1    | invalid_request       | cursor_invalid          | starting_after
logs tail --key sk_test_none_of_ours                               | 1    | authentication_failed | invalid_api_key         |
listen --forward-to http://127.0.0.1:1/ --key sk_test_none_of_ours | 1    | authentication_failed | invalid_api_key         |
trigger success --amount-usd 0                                     | 1    | invalid_request       | amount_invalid          | amount
open pay_000000000000000000000000                                  | 1    | not_found             | payment_not_found       |
webhooks verify --secret whsec_AAAA --body /dev/null               | 1    | webhook_error         | secret_invalid          |
webhooks verify --secret whsec_AAAA --body /no/such/file           | 1    | error                 | ENOENT                  |
payments get x --url http://127.0.0.1:9                            | 1    | connection_error      | connection_error        |
listen                                                             | 2    | usage_error           | usage                   |
logs tail much                                                     | 2    | usage_error           | usage                   |
open nothing                                                       | 2    | usage_error           | usage                   |
completion tcsh                                                    | 2    | usage_error           | usage                   |
`;
test('with --json every failure is one JSON object on standard error, and nothing on standard output', async () => {
  const rows = FAULTS.trim().split('\n').slice(1);
  await inTurns(rows, async (row) => {
    const [command, status, type, code, param] = row.split('|').map((cell) => cell.trim());
    const ended = await florin([...command!.split(' '), '--json']);
    assert.equal(ended.out, '', command);
    const { error } = JSON.parse(ended.err);
    assert.deepEqual([ended.code, error.type, error.code, error.param ?? ''], [Number(status), type, code, param], command);
    assert.ok(error.message.length > 5, command);
    if (ended.code === 1 && error.status) assert.match(error.request_id, /^req_/, command);
    else assert.equal(error.request_id, null, command);
  });
});

longTest('with --json everything that a stream prints is JSON', async () => {
  const port = await freePort();
  // The first request is answered, then the service is away: it is restarting.
  const way = createServer((_request, reply) => {
    reply.writeHead(200, { 'content-type': 'application/json', connection: 'close' }).end('{"success":true,"data":[],"has_more":false}');
    way.close();
  });
  for (const args of [
    ['listen', '--forward-to', 'http://127.0.0.1:1/'],
    ['logs', 'tail'],
  ]) {
    await new Promise<void>((done) => way.listen(port, '127.0.0.1', done));
    const child = spawn(process.execPath, [CLI, ...args, '--json'], { env: environment({ FLORIN_URL: `http://127.0.0.1:${port}` }) });
    const ended = once(child, 'exit');
    let err = '';
    child.stderr.on('data', (chunk) => {
      err += chunk;
    });
    try {
      await eventually(
        async () => err,
        (text) => text.includes('\n'),
        20_000,
      );
    } finally {
      child.kill('SIGTERM');
    }
    assert.deepEqual(await ended, [0, null], args[0]);
    for (const text of err.trim().split('\n')) assert.match(JSON.parse(text).warning, /cannot be reached/, args[0]);
  }
});

test('a reader that stops reading ends the command without an error', async () => {
  const script = `${process.execPath} ${CLI} logs tail --json | head -n 1`;
  const child = spawn('bash', ['--norc', '-o', 'pipefail', '-c', script], { env: environment(), stdio: ['ignore', 'ignore', 'pipe'] });
  let err = '';
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const asking = setInterval(() => void app.test.get('/api/payments').catch(() => {}), 300);
  try {
    assert.deepEqual([await once(child, 'exit'), err], [[0, null], '']);
  } finally {
    clearInterval(asking);
  }
});

/** What each shell offers after a text, once it has loaded the completion itself. */
const SHELLS: Readonly<Record<string, (file: string, text: string) => string[]>> = {
  bash: (file, text) => {
    const words = text.split(' ');
    return [
      '-c',
      `. ${file}; complete -p florin >&2; COMP_WORDS=(${words.map((word) => `"${word}"`).join(' ')}); COMP_CWORD=${words.length - 1}
      $(complete -p florin | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf '%s\\n' "\${COMPREPLY[@]}"`,
    ];
  },
  // A separate terminal, in which the Tab key is pressed: the line then contains what was completed.
  zsh: (file, text) => [
    '-fc',
    `zmodload zsh/zpty; zpty shell zsh -f -i
    zpty -w shell "autoload -U compinit; compinit -u -D; source ${file}"
    zpty -w shell $'keep() { print -rn -- "<$BUFFER>" > ${file}.line; exit; }; zle -N keep; bindkey "^X" keep; print REA''DY'
    zpty -rm shell seen '*READY*'
    zpty -n -w shell $'${text}\\t\\030'
    for try in {1..600}; do [[ -s ${file}.line ]] && break; sleep 0.05; done
    zpty -d shell; cat ${file}.line; rm ${file}.line`,
  ],
  fish: (file, text) => ['-N', '-c', `source ${file}; complete -C '${text}'`],
};
longTest('the installed shells load the completion, which knows commands, their words and the flags', async (t) => {
  const offered = async (shell: string, text: string): Promise<string[]> => {
    const { out } = await run(shell, SHELLS[shell]!(join(folder, `florin.${shell}`), text));
    const found = out.split('\n').map((line) => line.trim());
    return (shell === 'zsh' ? [/<florin(?: .*)? (\S+) ?>/.exec(out)?.[1] ?? out] : found).filter(Boolean);
  };
  await inTurns(Object.keys(SHELLS), async (shell) => {
    writeFileSync(join(folder, `florin.${shell}`), (await florin(['completion', shell])).out);
    if ((await run(shell, ['-c', 'true'])).code !== 0) {
      t.diagnostic(`${shell} is not installed; npm test installs it on Debian when run as root`);
      return;
    }
    assert.deepEqual(await offered(shell, 'florin paym'), ['payments'], shell);
    assert.deepEqual(await offered(shell, 'florin trigger payment.comp'), ['payment.completed'], shell);
    assert.deepEqual(await offered(shell, 'florin listen --forw'), ['--forward-to'], shell);
    assert.deepEqual(await offered(shell, 'florin payments list --star'), ['--starting-after'], shell);
    if (shell !== 'zsh') assert.deepEqual((await offered(shell, 'florin payments ')).sort(), ['cancel', 'create', 'get', 'list'], shell);
    if (shell === 'fish') assert.deepEqual(await offered(shell, 'florin payments get '), [], shell);
  });
  assert.match((await json('completion', 'bash')).script, /complete -F _florin florin/);
  // If it is installed only in a project, the shell gets a function with that name.
  const npm = join(folder, 'bin');
  mkdirSync(npm);
  writeFileSync(join(npm, 'npm'), '#!/bin/sh\necho npm "$@"\n', { mode: 0o755 });
  const { out } = await run('bash', ['-c', `PATH=${npm}:/usr/bin:/bin; . ${join(folder, 'florin.bash')}; florin payments list --limit 1`]);
  assert.equal(out, 'npm exec --no -- florin payments list --limit 1\n');
});

test('help lists every command, and each has its own help', async () => {
  const { code, out } = await florin([]);
  assert.equal(code, 0);
  for (const name of ['listen', 'trigger', 'payments cancel', 'events resend', 'webhooks verify', 'open', 'completion'])
    assert.ok(out.includes(name), name);
  for (const args of [
    ['listen', '--help'],
    ['listen', '-h'],
    ['help', 'listen'],
  ]) {
    const help = await florin(args);
    assert.deepEqual([help.code, help.err], [0, ''], args.join(' '));
    assert.match(help.out, /^Forward events to a program on this machine\n\nUsage: florin listen --forward-to URL \[options\]/);
    assert.match(help.out, /^ {2}--forward-to URL +Where to send events/m);
    assert.doesNotMatch(help.out, /--starting-after/);
  }
  const group = await florin(['payments', '-h']);
  assert.equal(group.code, 0, group.err);
  assert.match(group.out, /payments create .*payments cancel /s);
  assert.doesNotMatch(group.out, /events resend/);
  assert.deepEqual(await florin(['help', 'payments']), group);
  for (const flag of ['-v', '--version']) assert.deepEqual(await florin([flag]), { code: 0, out: `${VERSION}\n`, err: '' });
  const { commands } = await json('--help');
  assert.ok(commands.length >= 14 && commands.every(({ name, usage, about }: any) => usage.startsWith(`florin ${name}`) && about));
  assert.deepEqual(
    (await json('payments', 'get', '--help')).commands.map(({ name }: any) => name),
    ['payments get'],
  );
});
