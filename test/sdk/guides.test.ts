/** The code of the guides, as printed, against the running service. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Client, createClient, type Payment, type Scenario, webhooks } from '../../sdk/src/index.ts';
import { CONFIG, readConfig, variableNames } from '../../src/config.ts';
import type { Coin } from '../../src/core/coin.ts';
import { signDelivery } from '../../src/deliveries/deliver.ts';
import { CLIENT } from '../../src/http/reference.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { eventually, startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type Block, codeBlocks } from '../kit/documents.ts';
import { freePort } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { account } from '../kit/shop.ts';

const ROOT = resolve(import.meta.dirname, '../..');
let app: TestApp;
let client: Client;
let folder: string;
let receiver: Receiver;
before(async () => {
  const port = await freePort();
  app = await startTestApp({ PORT: String(port), PUBLIC_URL: `http://localhost:${port}` });
  receiver = await startReceiver();
  client = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  folder = mkdtempSync(join(tmpdir(), 'florin-guides-'));
});
after(async () => {
  await receiver?.stop();
  await app?.stop();
  rmSync(folder, { recursive: true, force: true });
});
const imported = async (path: string, about: string): Promise<any> => {
  const block =
    codeBlocks(path).find(({ text }) => text.includes(`export`) && text.includes(about)) ?? assert.fail(`${path} has no ${about}`);
  const file = join(folder, `${about}.mjs`);
  writeFileSync(file, block.text);
  return import(pathToFileURL(file).href);
};
const played = async (scenario: Scenario, until: (payment: Payment) => boolean): Promise<Payment> => {
  const { id } = await client.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/', metadata: { order: scenario } });
  await client.test.simulate(id, { scenario });
  return client.payments.waitFor(id, { until, timeoutMs: 30_000, intervalMs: 100 });
};

const OUTCOMES = `
scenario  | status    | exception | the shop
success   | completed |           | ship
overpaid  | completed | overpaid  | ship review
expired   | expired   |           | release
failed    | failed    | underpaid | review
late      | expired   | late      | review
underpaid | pending   | underpaid |
`;
test("the guide's handler ships paid orders, releases unpaid ones, and leaves the rest to a person", async () => {
  const { handle } = await imported('docs/guides/exceptions.md', 'handle');
  for (const row of OUTCOMES.trim().split('\n').slice(1)) {
    const [scenario, status, exception, wanted] = row.split('|').map((cell) => cell.trim());
    const payment = await played(scenario as Scenario, (now) => now.status === status && (now.exception ?? '') === exception);
    const [event] = (await client.events.list({ payment_id: payment.id })).data;
    const done: string[] = [];
    const shop = Object.fromEntries(
      ['ship', 'review', 'release'].map((name) => [name, async (order: string) => void done.push(`${name} ${order}`)]),
    );
    await handle(event, client, shop);
    assert.deepEqual(
      done,
      wanted!
        .split(' ')
        .filter(Boolean)
        .map((name) => `${name} ${scenario}`),
      scenario,
    );
  }
});

test("the guide's rule accepts payments that are late and complete, and nothing else", async () => {
  const { acceptIfOnlyLate } = await imported('docs/guides/exceptions.md', 'acceptIfOnlyLate');
  const late = await played('late', ({ exception }) => exception === 'late');
  assert.equal(await acceptIfOnlyLate(late, client), true);
  assert.equal((await client.payments.waitFor(late.id, { until: 'completed', timeoutMs: 30_000, intervalMs: 100 })).status, 'completed');
  const failed = await played('failed', ({ status }) => status === 'failed');
  assert.equal(await acceptIfOnlyLate(failed, client), false);
  assert.equal(
    await acceptIfOnlyLate({ ...late, expires_at: new Date(Date.parse(late.expires_at) - 3_700_000).toISOString() }, client),
    false,
  );
  assert.equal(
    await acceptIfOnlyLate({ ...late, transfers: late.transfers.map((transfer) => ({ ...transfer, amount_usd: '20.00' })) }, client),
    false,
  );
});

test("the guide's rule is exact to the cent where floating-point numbers are not", async () => {
  const { acceptIfOnlyLate } = await imported('docs/guides/exceptions.md', 'acceptIfOnlyLate');
  const accepted: unknown[] = [];
  const florin = { payments: { resolve: async (...given: unknown[]) => accepted.push(given) } };
  const arrived = (amount: string) => ({
    id: 'pay_1',
    exception: 'late',
    expires_at: '2026-11-21T10:00:00.000Z',
    amount_usd: '70.00',
    transfers: [{ first_seen_at: '2026-11-21T10:30:00.000Z', amount_usd: amount }],
  });
  // One percent of 70.00 is 0.70; as doubles 70.00 - 69.30 is slightly more.
  assert.equal(await acceptIfOnlyLate(arrived('69.30'), florin), true);
  assert.equal(await acceptIfOnlyLate(arrived('69.29'), florin), false);
  assert.equal(accepted.length, 1);
});

/** Lines of code that calculate amounts with floating-point numbers, or convert one to such a number. */
function floatsIn(code: string): string[] {
  const amount = String.raw`(?:amount|usd|price|tax|fee|balance|total|received)\w*`;
  const turned = new RegExp(
    String.raw`(?:\bNumber|parseFloat|\bfloat|floatval|ParseFloat|\(float\))\W[^;]*${amount}|${amount}\S*\.to_f\b`,
    'i',
  );
  const counted = new RegExp(String.raw`\d\.\d+ *[*/+-] *\S*${amount}|${amount}\S* *[*/+-] *\d+\.\d`, 'i');
  return code.split('\n').filter((line) => turned.test(line) || counted.test(line));
}

test('no example in the documents calculates amounts with floating-point numbers', () => {
  const shown = DOCUMENTS.flatMap((path) =>
    codeBlocks(path)
      .filter(({ language }) => ['js', 'ts', 'jsx', 'html', 'python', 'php', 'go', 'ruby'].includes(language))
      .map(({ text }) => [path, text] as const),
  );
  assert.ok(shown.length >= 20, String(shown.length));
  const examples = globSync('examples/*/*.js', { cwd: ROOT }).map((path) => [path, readFileSync(join(ROOT, path), 'utf8')] as const);
  for (const [path, text] of [...shown, ...examples]) assert.deepEqual(floatsIn(text), [], path);
  for (const wrong of [
    'const missing = Number(payment.amount_usd) - 1;',
    'total = float(event["data"]["amount_usd"])',
    "$sum += (float) $payment['amount_usd'];",
    'sum += payment["amount_usd"].to_f',
    'usd, _ := strconv.ParseFloat(payment.AmountUSD, 64)',
    'if (missing > 0.01 * payment.amount_usd) return;',
    'const tax = price * 0.19;',
  ])
    assert.equal(floatsIn(wrong).length, 1, wrong);
  for (const right of ['Number(timestamp)', "cents('25.50')", 'amount_usd: 25.5,', '{ unit_price: 12.5 }', 'Number(process.env.PORT)'])
    assert.deepEqual(floatsIn(right), [], right);
});

test('a receiver written for Coinbase Commerce works with the new header', async () => {
  const { verifySignature } = await imported('docs/guides/migrate-coinbase-commerce.md', 'verifySignature');
  const secret = webhooks.newSecret();
  const body = '{"id":"evt_1","type":"payment.completed","data":{}}';
  // Node's server reads names of headers in lower case.
  const { 'X-Service-Signature': signature } = signDelivery({
    ...{ secret, previousSecret: null, id: 'evt_1', timestampSeconds: 1, body: Buffer.from(body) },
  });
  const headers = { 'x-service-signature': signature };
  assert.equal(verifySignature(body, headers, secret).type, 'payment.completed');
  assert.throws(() => verifySignature(`${body} `, headers, secret), /the signature does not match/);
  assert.throws(() => verifySignature(body, {}, secret), /the signature does not match/);
});

test('the reference names an SDK function for every route but two older ones, and each of them exists', () => {
  assert.deepEqual(
    ROUTES.map(({ id }) => id).filter((name) => !CLIENT[name]),
    ['readPayment', 'readPayments'],
  );
  for (const call of Object.values(CLIENT)) {
    const [, group, name] = /^(\w+)\.(\w+)\(/.exec(call)!;
    assert.equal(typeof (client as any)[group!]?.[name!], 'function', call);
  }
});

test('every event type that a guide names exists', async () => {
  const known = new Set(Object.keys((await app.anonymous.get('/openapi.json')).json.webhooks));
  for (const guide of ['exceptions', 'migrate-coinbase-commerce', 'migrate-btcpay', 'frameworks', 'quickstart', 'webhooks']) {
    const { text } = await app.anonymous.get(`/docs/guides/${guide}.md`);
    for (const [type] of text.matchAll(/\bpayment\.(created|processing|completed|failed|expired|cancelled|updated|\w+ed)\b/g)) {
      assert.ok(known.has(type), `${guide} names ${type}`);
    }
  }
});

const DOCUMENTS = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'sdk/README.md', 'examples/shop/README.md'],
  ...globSync('docs/**/*.md', { cwd: ROOT }).sort(),
];
/** Commands that another test runs as printed, or that cannot be run here, identified by their text. */
const ELSEWHERE: readonly [document: RegExp, holds: string, where: string][] = [
  [/quickstart/, '', 'test/sdk/quickstart.test.ts'],
  [/examples\/shop/, '', 'test/browser/shop.test.ts'],
  [/shopify/, 'examples/shopify', 'test/shops/shopify.test.ts: it needs a Shopify, or the scripted one'],
  [/self-hosting/, 'useradd', 'test/flows/self-hosting-system.test.ts'],
  [/self-hosting/, 'systemctl', 'test/flows/self-hosting-system.test.ts'],
  [/self-hosting/, './florin doctor', 'test/flows/self-hosting-system.test.ts'],
  [
    /self-hosting/,
    'docker compose',
    'test/flows/self-hosting.test.ts: there is no Docker here; the file is read, what it starts is started',
  ],
  [/self-hosting/, 'docker build', 'test/tidy.test.ts: there is no Docker here; what the image is made of is looked at'],
  [/README|CONTRIBUTING|self-hosting/, 'npm ci', 'test/sdk/quickstart.test.ts begins in the same way; .ci/run does the rest'],
  [/^README/, './florin', 'test/flows/readme.test.ts'],
  [/accounting/, './florin books', 'test/flows/books.test.ts: they need payments'],
  [/sweeping/, './florin sweep', 'test/nodes/sweeps.test.ts: they need a node and money that arrived'],
  [/exceptions/, './florin refund make', 'test/nodes/sweeps.test.ts: they need a node and money that arrived'],
  [/refunds/, './florin sweep send', 'test/nodes/sweeps.test.ts: they need a node and money that arrived'],
  [/refunds/, './florin refund', 'test/contract/refunds.test.ts: they need a refund whose customer entered an address'],
  [/test-mode/, './florin', 'test/flows/rehearsals.test.ts plays the same over HTTP: they need test payments and a signature'],
  [/payouts/, './florin payout', 'test/contract/payouts.test.ts, test/nodes/payouts.test.ts: they need payouts and money that arrived'],
  [/medusa/, 'npm install', 'test/browser/shops.test.ts downloads it, test/shops/medusa.long.test.ts installs it in a Medusa project'],
  [/lightning/, './florin lightning', 'test/lightning/payments.test.ts: they need a node or a provider'],
  [/stablecoins/, 'chain release', 'test/nodes/token-networks.test.ts: it needs a contract that was upgraded'],
  [/sdk\/README/, 'listen', 'test/sdk/cli.test.ts: these run until they are stopped'],
];

/** `./florin` in the reader's folder. The doctor exits with 1 here, because wallets have no nodes. */
const FLORIN = `#!/bin/sh
'${process.execPath}' --disable-warning=ExperimentalWarning '${ROOT}/src/main.ts' "$@" || [ "$1 $?" = 'doctor 1' ]
`;
/** `npm start` and `npm exec --no -- florin` as when installed. */
const ENDS = `npm() { if [ "$1" = start ]; then env; else shift 4; '${process.execPath}' --disable-warning=ExperimentalWarning '${ROOT}/sdk/src/cli.ts' "$@"; fi; }
curl() { command curl --fail-with-body --silent --show-error "$@"; echo; }
`;
const keyFor = (coin: Coin, spelled: string): string => {
  const { publicExtendedKey } = account(coin);
  return base58check.respell(publicExtendedKey, { zpub: 0x04b24746, dgub: 0x02facafd, xpub: 0x0488b21e }[spelled]!);
};
/** What a reader writes in place of the dots, and where things are on this machine. */
async function filled({ text }: Block, payment: string): Promise<string> {
  const { id: endpoint } = await endpointOfReader();
  return text
    .replaceAll(/https?:\/\/(localhost:3000|api\.example)/g, app.url)
    .replaceAll('https://shop.example/hook', receiver.url)
    .replaceAll('https://shop.example/?wc-api', `${receiver.url}?wc-api`)
    .replaceAll('sk_test_...', app.merchant.keys.testSecret)
    .replaceAll('mer_...', app.merchant.merchantId)
    .replaceAll('pay_...', payment)
    .replaceAll('we_...', endpoint)
    .replace(
      /--coin ([A-Z]+)(.*?) ([a-z]pub|dgub)\.\.\./g,
      (_, coin: Coin, between: string, spelled: string) => `--coin ${coin}${between} ${keyFor(coin, spelled)}`,
    );
}
let endpoint: ReturnType<Client['webhookEndpoints']['create']> | null = null;
const endpointOfReader = () => (endpoint ??= client.webhookEndpoints.create({ url: receiver.url }));

// Invariant: Every command in the documents works as printed.
test('every command in every document is run as printed, or by the test that is named here', async () => {
  writeFileSync(
    join(folder, 'logo.svg'),
    '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>',
  );
  mkdirSync(join(folder, 'backups'));
  writeFileSync(join(folder, 'florin'), FLORIN, { mode: 0o755 });
  const { DATABASE_URL, FLORIN_DATA, SECRET_KEY, PRICES, WEBHOOK_ALLOW, LOG_LEVEL } = {
    ...testEnvironment(app.config.databaseUrl!, app.config.dataFolder),
  };
  const used = new Set<string>();
  const blocks: { document: string; block: Block }[] = [];
  for (const document of DOCUMENTS)
    for (const block of codeBlocks(document)) {
      assert.ok(block.language, `${document}, ${block.heading}: a block without a language`);
      if (block.language !== 'sh') continue;
      const elsewhere = ELSEWHERE.find(([where, holds]) => where.test(document) && block.text.includes(holds));
      if (elsewhere) used.add(elsewhere[2]);
      else blocks.push({ document, block });
    }
  assert.deepEqual(
    ELSEWHERE.filter(([, , where]) => !used.has(where)),
    [],
  );
  let count = 0;
  const texts = new Map<string, string>();
  const perDocument = Map.groupBy(blocks, ({ document }) => document);
  const runAll = async (all: { document: string; block: Block }[]) => {
    const { id } = await client.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/' });
    for (const { document, block } of all) {
      const text = (await filled(block, id)).replaceAll('/var/backups/florin/', `${folder}/backups/`);
      const child = spawn(
        'bash',
        ['--norc', '-e', '-c', `${ENDS}${document.includes('test-mode') ? `BASE=${app.url} KEY=$FLORIN_API_KEY\n` : ''}${text}`],
        {
          cwd: folder,
          env: {
            PATH: process.env.PATH,
            ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
            ...{ DATABASE_URL, FLORIN_DATA, SECRET_KEY, PRICES, WEBHOOK_ALLOW, LOG_LEVEL },
            ...{ FLORIN_URL: app.url, FLORIN_API_KEY: app.merchant.keys.testSecret, KEY: app.merchant.keys.testSecret },
          },
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      let said = '';
      for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (part: Buffer) => (said += part));
      const [code] = await once(child, 'close');
      assert.equal(code, 0, `${document}, ${block.heading}: ${text}\n${said}`);
      texts.set(`${document} ${block.heading}`, said);
      count++;
    }
  };
  const left = [...perDocument.values()];
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) await runAll(next);
  };
  await Promise.all([worker(), worker()]);
  assert.ok(count >= 18, String(count));
  assert.match(texts.get('README.md Create a test payment')!, /"payment_url":"http/);
});

test('every setting in a document is one that the service accepts', () => {
  const known = new Set(CONFIG.flatMap(variableNames));
  let count = 0;
  for (const document of DOCUMENTS)
    for (const { language, text, heading } of codeBlocks(document)) {
      if (language !== 'ini' || text.startsWith('# /etc/')) continue;
      const set = Object.fromEntries([...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name!, value!]));
      for (const name of Object.keys(set)) assert.ok(known.has(name), `${document}, ${heading}: ${name}`);
      assert.doesNotThrow(() => readConfig(set), `${document}, ${heading}`);
      count++;
    }
  assert.ok(count >= 8, String(count));
});

for (const [language, program] of [
  ['js', process.execPath],
  ['python', 'python3'],
] as const) {
  test(`the ${language} receiver of the webhook guide accepts a real delivery once and refuses a forgery`, async () => {
    const port = await freePort();
    const { text } = codeBlocks('docs/guides/webhooks.md').find((block) => block.language === language)!;
    const file = join(folder, `receiver.${language === 'js' ? 'mjs' : 'py'}`);
    writeFileSync(file, text.replace(/\b4000\b/, String(port)));
    const secret = webhooks.newSecret();
    const child: ChildProcess = spawn(program, [file], {
      env: { PATH: process.env.PATH, SIGNING_SECRET: secret },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let said = '';
    child.stdout!.on('data', (part: Buffer) => (said += part));
    try {
      const body = JSON.stringify({ id: 'evt_1', type: 'payment.completed', data: { id: 'pay_1', sequence: 3, status: 'completed' } });
      const { 'X-Service-Signature': signature } = signDelivery({
        secret,
        previousSecret: null,
        id: 'evt_1',
        timestampSeconds: 1,
        body: Buffer.from(body),
      });
      const post = (sent: string) =>
        fetch(`http://127.0.0.1:${port}/hook`, { method: 'POST', body: sent, headers: { 'x-service-signature': signature! } }).then(
          ({ status }) => status,
          () => 0,
        );
      await eventually(
        () => post(body),
        (status) => status !== 0,
      );
      assert.deepEqual([await post(body), await post(`${body} `)], [200, 401]);
      await eventually(
        async () => said,
        (all) => all.trim() === 'payment.completed pay_1 3 completed',
      );
    } finally {
      child.kill();
    }
  });
}

for (const [language, program] of [
  ['js', process.execPath],
  ['python', 'python3'],
] as const) {
  test(`the ${language} receiver of the webhook guide does not start without a secret`, async () => {
    const { text } = codeBlocks('docs/guides/webhooks.md').find((block) => block.language === language)!;
    const file = join(folder, `no-secret.${language === 'js' ? 'mjs' : 'py'}`);
    writeFileSync(file, text.replace(/\b4000\b/, String(await freePort())));
    for (const secret of [undefined, '', 'whsec_', `whsec_${Buffer.alloc(15).toString('base64')}`, Buffer.alloc(32).toString('base64')]) {
      const { status, stderr } = spawnSync(program, [file], {
        env: { PATH: process.env.PATH, ...(secret !== undefined && { SIGNING_SECRET: secret }) },
        encoding: 'utf8',
        timeout: 60_000,
      });
      assert.equal(status, 1, `${secret}: ${stderr}`);
      assert.match(stderr, /SIGNING_SECRET is not set/);
    }
  });
}

test("the code in the SDK's README does what its text says", async () => {
  mkdirSync(join(folder, 'node_modules/florin'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/florin/package.json'), '{"name":"florin","type":"module","exports":"./index.js"}');
  writeFileSync(
    join(folder, 'node_modules/florin/index.js'),
    `export * from ${JSON.stringify(pathToFileURL(join(ROOT, 'sdk/src/index.ts')).href)};\n`,
  );
  const [create, lists, errors, verify] = codeBlocks('sdk/README.md').filter(({ language }) => language === 'js') as [
    Block,
    Block,
    Block,
    Block,
  ];
  const imports = [create, errors, verify].flatMap(({ text }) => text.match(/^import .*$/gm)!);
  const without = ({ text }: Block) => text.replaceAll(/^import .*$/gm, '');
  const { body, headers } = await webhooks.signTestEvent(
    { type: 'payment.completed', data: { metadata: { order: 'A-1' } } },
    webhooks.newSecret(new Uint8Array(32)),
  );
  writeFileSync(
    join(folder, 'readme.mjs'),
    `${imports.join('\n')}
const ship = (order) => console.log('ship', order);
const [rawBody, request] = ${JSON.stringify([body, { headers }])};
${without(create).replace('http://localhost:3000', app.url)}
${without(lists).replace('const payment of', 'const row of').replace('payment.id, payment.status', "'row', row.id === payment.id")}
console.log(page.data.length, some.length > 0);
const { id } = await florin.payments.cancel(payment.id);
${without(errors)}
${without(verify)}`,
  );
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(folder, 'readme.mjs')], {
    env: { FLORIN_API_KEY: app.merchant.keys.testSecret, SIGNING_SECRET: webhooks.newSecret(new Uint8Array(32)) },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (said += part));
  assert.deepEqual([(await once(child, 'close'))[0], said.includes('row true')], [0, true], said);
  assert.match(said, /^http:\S+\/pay\?id=pay_\w+$/m);
  assert.match(said, /^409 payment_status_conflict null req_\w+$/m);
  assert.match(said, /^ship A-1$/m);
});

test('everything that the migration guides say about Florin exists: fields, states, events, requests and commands', async () => {
  const document = (await app.anonymous.get('/openapi.json')).json;
  const known = JSON.stringify(document);
  const names = new Set(known.match(/[A-Za-z_][\w.]*/g));
  const settings = new Set(CONFIG.flatMap(variableNames));
  const { out } = await new Promise<{ out: string }>((done) => {
    const child = spawn(process.execPath, ['src/main.ts', 'help'], { cwd: ROOT });
    let out = '';
    child.stdout.on('data', (part: Buffer) => (out += part));
    child.once('close', () => done({ out }));
  });
  let count = 0;
  for (const guide of ['migrate-btcpay', 'migrate-coinbase-commerce']) {
    const text = readFileSync(join(ROOT, `docs/guides/${guide}.md`), 'utf8');
    for (const [, right] of text.matchAll(/^\|.*\| ([^|]+) \|$/gm)) {
      for (const [, span] of right!.matchAll(/`([^`]+)`/g)) {
        count++;
        const said = `${guide}: ${span}`;
        const [, method, path] =
          /^(GET|POST) (\/\S+)$/.exec(span!) ?? (/^(\/resolve)$/.test(span!) ? ['', 'POST', '/v1/payments/{id}/resolve'] : []);
        if (path) assert.ok(document.paths[path!]?.[method!.toLowerCase()], said);
        else if (/^\.\/florin/.test(span!)) assert.ok(out.includes(span!.replace('./florin ', '  ')), said);
        else if (/^[A-Z]+_[A-Z]+$/.test(span!)) assert.ok(settings.has(span!), said);
        else if (/^(Authorization|X-Service-Signature)/.test(span!))
          assert.ok(known.includes(span!.split(':')[0]!) || span!.startsWith('Authorization'), said);
        else for (const name of span!.match(/[a-z_][\w.]*/g)!) assert.ok(names.has(name), `${said}: ${name}`);
      }
    }
  }
  assert.ok(count > 40, String(count));
});

test('every screen of the dashboard that a document names is called so', () => {
  const screens = new Set(
    [...readFileSync(join(ROOT, 'dashboard/screens.ts'), 'utf8').matchAll(/label: '([^']+)'/g)].map(([, name]) => name),
  );
  const shown = globSync('dashboard/screens/**/*.{ts,tsx}', { cwd: ROOT })
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join();
  let count = 0;
  for (const document of DOCUMENTS) {
    const text = readFileSync(join(ROOT, document), 'utf8');
    for (const [all, first, second] of text.matchAll(
      /dashboard[^.\n|]{0,40}? under ([A-Z]\w*(?: & [a-z]+| (?:keys|log|attention|links)\b)?)(?: and ([A-Z]\w+))?/g,
    )) {
      count++;
      for (const name of [first, second]) if (name) assert.ok(screens.has(name), `${document}: ${all}`);
    }
    for (const [, words] of text.matchAll(/“([^”]+)”/g)) assert.ok(shown.includes(words!), `${document}: ${words}`);
  }
  assert.ok(count >= 12, String(count));
});
