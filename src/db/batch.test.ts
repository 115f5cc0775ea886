/** Batched writes: each item gets its own reply, an error stays with its row, and a lost reply does not cause a second write. */
// Invariant: A lost reply to a commit writes nothing twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client, startTestApp, type TestApp, testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { startDatabaseProxy } from '../../test/kit/database-proxy.ts';
import { startApp } from '../app.ts';
import { readConfig } from '../config.ts';
import { newId } from '../core/id.ts';
import { createLog } from '../log.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { createTogether, type NewPayment, prepareCreate } from '../payments/create-payments.ts';
import { createBatcher, forgetReplies, runOnce } from './batch.ts';

let shop: TestApp;
before(async () => {
  shop = await startTestApp();
});
after(() => shop.stop());

const fulfilled = <T>(value: T): PromiseSettledResult<T> => ({ status: 'fulfilled', value });
const tick = () => new Promise((resolve) => setImmediate(resolve));

test('items that arrive while batches run go together into the next one, in order, never more than allowed', async () => {
  const batches: number[][] = [];
  const open: (() => void)[] = [];
  const write = createBatcher({
    maxItems: 3,
    maxWaiting: 5,
    run: async (items: number[]) => {
      batches.push(items);
      await new Promise<void>((resolve) => open.push(resolve));
      return items.map((item) => (item === 4 ? { status: 'rejected' as const, reason: new Error('four') } : fulfilled(item * 10)));
    },
  });
  const finish = async (batch: number) => {
    open[batch]!();
    await tick();
    await tick();
  };
  const answers = [1, 2].map(write);
  await tick();
  assert.deepEqual(batches, [[1, 2]]);
  // A second batch starts beside the first, but no third one.
  answers.push(write(3), write(4));
  await tick();
  assert.deepEqual(batches.slice(1), [[3, 4]]);
  answers.push(...[5, 6, 7, 8, 9].map(write));
  await assert.rejects(write(10), { code: 'overloaded', retryAfterSeconds: 1 });
  await tick();
  assert.equal(batches.length, 2);
  const settled = Promise.allSettled(answers);
  await finish(0);
  assert.deepEqual(batches.slice(2), [[5, 6, 7]]);
  await finish(1);
  assert.deepEqual(batches.slice(3), [[8, 9]]);
  await finish(2);
  await finish(3);
  assert.deepEqual(
    (await settled).map((r) => (r.status === 'fulfilled' ? r.value : r.reason.message)),
    [10, 20, 30, 'four', 50, 60, 70, 80, 90],
  );
});

test('a batch that fails as a whole fails only its own items; later ones continue', async () => {
  let fails = true;
  const write = createBatcher({
    maxItems: 2,
    maxWaiting: 10,
    run: async (items: number[]) => {
      if (fails) throw new Error('no connection');
      return items.map(fulfilled);
    },
  });
  const first = await Promise.allSettled([write(1), write(2)]);
  assert.deepEqual(
    first.map((r) => r.status),
    ['rejected', 'rejected'],
  );
  fails = false;
  assert.equal(await write(3), 3);
});

/** A create as the API prepares it, without its HTTP request. */
const prepare = (mode: 'live' | 'test', claim: string | null): Promise<NewPayment> =>
  prepareCreate(shop.app.ctx, {
    merchantId: shop.merchant.merchantId,
    mode,
    createdWith: 'secret',
    draft: {
      amountUsdCents: 2_500n,
      fixed: null,
      coin: null,
      request: { returnUrl: 'https://example.com/', description: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null },
      invoiceId: null,
      metadata: {},
      expiresInSeconds: null,
      scenario: null,
    },
    idempotency: claim === null ? null : { claim: Buffer.from(claim.padEnd(32)), fingerprint: Buffer.from('body'.padEnd(32)) },
    render: (view) => ({ status: 201, body: Buffer.from(view.facts.id) }),
  });
const stored = async (ids: readonly string[]) => {
  const { sql } = shop.app.ctx.db;
  const [row] = await sql<{ payments: bigint; events: bigint }[]>`
    select (select count(*) from payments where id = any(${ids as string[]}::text[])) as payments,
      (select count(*) from events where payment_id = any(${ids as string[]}::text[]) and type = 'payment.created') as events`;
  return { ...row };
};
const consistent = async () => {
  const { sql } = shop.app.ctx.db;
  const rows = await sql`
    select c.merchant_id, c.mode from payment_counters c
    where c.last_sequence <> (select count(*) from payments p where p.merchant_id = c.merchant_id and p.mode = c.mode)`;
  assert.equal(rows.length, 0, 'a counter does not count its payments');
};

for (const { name, mode, key } of [
  { name: 'without keys, in one statement', mode: 'live', key: false },
  { name: 'in test mode', mode: 'test', key: false },
  { name: 'with Idempotency-Keys', mode: 'live', key: true },
] as const) {
  test(`a row that fails does not affect its neighbors: ${name}`, async () => {
    const taken = await prepare(mode, null);
    await createTogether(shop.app.ctx, taken);
    const items = await Promise.all(Array.from({ length: 9 }, (_, i) => prepare(mode, key ? `${mode} row ${i}` : null)));
    // Its identifier is taken, so the statement of the whole batch fails.
    const bad = 4;
    items[bad] = { ...items[bad]!, id: taken.id };
    const results = await Promise.allSettled(items.map((item) => createTogether(shop.app.ctx, item)));
    results.forEach((result, i) => {
      if (i === bad) assert.equal(result.status === 'rejected' && result.reason.code, '23505');
      else assert.equal(result.status === 'fulfilled' && Buffer.from(result.value.body).toString(), items[i]!.id);
    });
    const good = items.filter((_, i) => i !== bad).map(({ id }) => id);
    assert.deepEqual(await stored(good), { payments: 8n, events: 8n });
    assert.deepEqual(await stored([taken.id]), { payments: 1n, events: 1n });
    await consistent();
  });
}

test('one key twice in one batch creates one payment; the other request gets an error to retry', async () => {
  const items = await Promise.all(Array.from({ length: 5 }, () => prepare('live', 'the same key')));
  const results = await Promise.allSettled(items.map((item) => createTogether(shop.app.ctx, item)));
  const made = results.filter((r) => r.status === 'fulfilled' && !r.value.replayed);
  assert.equal(made.length, 1);
  for (const result of results) {
    if (result.status === 'rejected') assert.equal(result.reason.code, 'idempotency_key_in_use');
  }
  assert.equal((await stored(items.map(({ id }) => id))).payments, 1n);
});

test('work under a key runs once: a failure stores nothing, a repeat gets the stored reply, another body is refused', async () => {
  const { db } = shop.app.ctx;
  const claim = { claim: Buffer.from('work under a key'.padEnd(32)), fingerprint: Buffer.from('a'.padEnd(32)) };
  let runs = 0;
  const work = async () => ({ status: 200, body: Buffer.from(`run ${++runs}`) });
  await assert.rejects(
    runOnce(db, claim, async () => {
      throw new Error('no');
    }),
    /no/,
  );
  const replies = await Promise.allSettled(Array.from({ length: 8 }, () => runOnce(db, claim, work)));
  assert.equal(runs, 1);
  for (const reply of replies) {
    if (reply.status === 'fulfilled') assert.equal(Buffer.from(reply.value.body).toString(), 'run 1');
    else assert.equal(reply.reason.code, 'idempotency_key_in_use');
  }
  assert.deepEqual(await runOnce(db, claim, work), { status: 200, body: Buffer.from('run 1'), sealed: false, replayed: true });
  await assert.rejects(runOnce(db, { ...claim, fingerprint: Buffer.from('b'.padEnd(32)) }, work), { code: 'idempotency_mismatch' });
  assert.equal(runs, 1);
});

test('replies are kept for seven days', async () => {
  const { db } = shop.app.ctx;
  const claims = ['six days', 'eight days'].map((text) => ({ claim: Buffer.from(text.padEnd(32)), fingerprint: Buffer.alloc(32) }));
  for (const claim of claims) await runOnce(db, claim, async () => ({ status: 200, body: Buffer.from('old') }));
  await db.sql`update idempotency set created_at = created_at - interval '6 days 23 hours' where claim = ${claims[0]!.claim}`;
  await db.sql`update idempotency set created_at = created_at - interval '7 days 1 hour' where claim = ${claims[1]!.claim}`;
  await forgetReplies(db);
  const work = async () => ({ status: 200, body: Buffer.from('new') });
  const bodies = [];
  for (const claim of claims) bodies.push(Buffer.from((await runOnce(db, claim, work)).body).toString());
  assert.deepEqual(bodies, ['old', 'new']);
});

test('the reply to a commit is lost: the request is answered anyway, and nothing is written twice', async (t) => {
  const database = await testDatabase();
  const proxy = await startDatabaseProxy(database.connection);
  const app = await startApp(readConfig(testEnvironment(proxy.url, database.folder, { LOG_LEVEL: 'silent' })), {
    log: createLog('silent'),
    roles: ['api'],
  });
  t.after(async () => {
    await app.stop();
    await proxy.stop();
    await database.drop();
  });
  const { keys } = await createMerchant(app.ctx, { name: 'Test shop' });
  const api = { live: client(app.url!, keys.liveSecret), test: client(app.url!, keys.testSecret) };
  const create = (mode: 'live' | 'test', key: string | null, text: string) =>
    api[mode].post(
      '/api/payment/create/simple',
      { amount_usd: 25, return_url: `https://example.com/${text}` },
      key === null ? {} : { 'idempotency-key': key },
    );
  const count = async () => (await database.db.sql<{ n: bigint }[]>`select count(*) as n from payments`)[0]!.n;
  for (const mode of ['live', 'test'] as const) assert.ok((await create(mode, null, 'thanks')).status < 300);

  for (const { mode, key, at } of [
    { mode: 'test', key: newId('req', app.ctx.random), at: 'commit' },
    { mode: 'live', key: newId('req', app.ctx.random), at: 'commit' },
    { mode: 'test', key: null, at: 'commit' },
    // A plain create is one statement and its own transaction.
    { mode: 'live', key: null, at: 'statement' },
  ] as const) {
    const before = await count();
    const replies = proxy.lost();
    // Of this request only: the log of earlier ones may be written at the same moment.
    const text = newId('req', app.ctx.random);
    proxy.loseReply({ text, at });
    const lost = await create(mode, key, text);
    assert.equal(proxy.lost(), replies + 1, 'nothing was cut');
    // The written row is found, and the reply is the same as without the failure.
    assert.equal(lost.status, 201, lost.text);
    assert.equal((await database.db.sql`select 1 from payments where id = ${lost.json.id}`).length, 1);
    assert.equal(await count(), before + 1n);
    if (key === null) continue;
    const again = await create(mode, key, text);
    assert.ok(again.status < 300, again.text);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await count(), before + 1n);
    assert.equal(again.json.id, lost.json.id);
  }
});
