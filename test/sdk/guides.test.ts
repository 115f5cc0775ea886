/** The code of the guides, as printed, against the running service. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Client, createClient, type Payment, webhooks } from '../../sdk/src/index.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { CLIENT } from '../../src/web/reference.ts';
import { signDelivery } from '../../src/webhooks/sign.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { codeBlocks } from '../kit/documents.ts';

let app: TestApp;
let client: Client;
let folder: string;
before(async () => {
  app = await startTestApp();
  client = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  folder = mkdtempSync(join(tmpdir(), 'florin-guides-'));
});
after(async () => {
  await app.stop();
  rmSync(folder, { recursive: true, force: true });
});
const imported = async (path: string, about: string): Promise<any> => {
  const block =
    codeBlocks(path).find(({ text }) => text.includes(`export`) && text.includes(about)) ?? assert.fail(`${path} has no ${about}`);
  const file = join(folder, `${about}.mjs`);
  writeFileSync(file, block.text);
  return import(pathToFileURL(file).href);
};
const played = async (scenario: string, until: (payment: Payment) => boolean): Promise<Payment> => {
  const { id } = await client.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/', metadata: { order: scenario } });
  await client.test.simulate(id, { scenario });
  return client.payments.waitFor(id, { until, timeoutMs: 10_000, intervalMs: 100 });
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
test("the guide's handler ships what is paid, frees what is not, and shows the rest to a person", async () => {
  const { handle } = await imported('docs/guides/exceptions.md', 'handle');
  for (const row of OUTCOMES.trim().split('\n').slice(1)) {
    const [scenario, status, exception, wanted] = row.split('|').map((cell) => cell.trim());
    const payment = await played(scenario!, (now) => now.status === status && (now.exception ?? '') === exception);
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

test("the guide's rule accepts what is late and full, and nothing else", async () => {
  const { acceptIfOnlyLate } = await imported('docs/guides/exceptions.md', 'acceptIfOnlyLate');
  const late = await played('late', ({ exception }) => exception === 'late');
  assert.equal(await acceptIfOnlyLate(late, client), true);
  assert.equal((await client.payments.waitFor(late.id, { until: 'completed', timeoutMs: 10_000, intervalMs: 100 })).status, 'completed');
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

test('a receiver that was written for Coinbase Commerce goes on with the new header', async () => {
  const { verifySignature } = await imported('docs/guides/migrate-coinbase-commerce.md', 'verifySignature');
  const secret = webhooks.newSecret();
  const body = '{"id":"evt_1","type":"payment.completed","data":{}}';
  const headers = signDelivery({ secret, previousSecret: null, id: 'evt_1', timestampSeconds: 1, body: Buffer.from(body) });
  assert.equal(verifySignature(body, headers, secret).type, 'payment.completed');
  assert.throws(() => verifySignature(`${body} `, headers, secret), /not from Florin/);
  assert.throws(() => verifySignature(body, {}, secret), /not from Florin/);
});

test('the reference names a function of the client for every route, and each of them exists', () => {
  assert.deepEqual(
    ROUTES.map(({ handle }) => handle.name).filter((name) => !CLIENT[name]),
    [],
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
