/** Payments that receive very many small transfers: what they show, what their events contain, and how to read the rest. */
// Invariant: The page of a payment with very many transfers stays small, is read once for concurrent visitors, and is never stale.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Transfer } from '../../src/core/payment.ts';
import type { Sql, Tx } from '../../src/db/db.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { readRecords, readTransfers } from '../../src/settling/facts.ts';
import { readManyTransfers } from '../../src/settling/many-transfers.ts';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

let app: TestApp;
let receiver: Receiver;
before(async () => {
  app = await startTestApp();
  receiver = await startReceiver();
});
after(async () => {
  await receiver?.stop();
  await app?.stop();
});

const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
/** A test payment of 97 USD in BTC, which is 0.00100000 BTC. */
const createInBtc = async (): Promise<string> =>
  ok(await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: '97.00', currency_fiat: 'USD' }), 201).transaction_id;

/** Records transfers of these amounts, as a follower does, in the one block of the payment's chain. */
async function receive(paymentId: string, units: readonly number[], first = 0): Promise<string[]> {
  const { ctx } = app.app;
  const rows = units.map((amount, at) => {
    const i = first + at;
    const txid = String(i).padStart(64, '0');
    return { ref: `${txid}:0`, txid, units: String(amount), i };
  });
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      [paymentId],
      async () =>
        void (await tx`
          insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
          select 'BTC', r.ref, p.id, p.merchant_id, r.txid, 'test_btc_success', r.units, 'output', p.created_at + r.i * interval '1 millisecond',
            0, 'b', p.created_at
          from payments p, jsonb_to_recordset(${tx.json(rows)}) as r (ref text, txid text, units numeric, i int) where p.id = ${paymentId}`),
    ),
  );
  return rows.map((row) => row.ref);
}

// Invariant: A payment and its events stay small, no matter how many transfers arrive.
test('a payment of many transfers shows the largest of them, and its events stay small enough for every receiver', async () => {
  ok(await app.test.post('/v1/webhook_endpoints', { url: receiver.url, events: ['payment.completed'] }), 201);
  const id = await createInBtc();
  // 120 tiny transfers, with the important ones among the last.
  const refs = await receive(id, [...Array.from({ length: 120 }, () => 550), 30_000, ...Array.from({ length: 10 }, () => 551)]);
  const detail = ok(await app.test.get(`/api/payment/${id}`));
  assert.equal(detail.status, 'completed');
  assert.equal(detail.amount_received, '0.00101510');
  assert.equal(detail.transfers_count, 131);
  assert.deepEqual(
    detail.transfers.map((t: any) => t.ref),
    [...refs.slice(0, 39), ...refs.slice(120)],
    'the largest, the earlier of equal ones, in the order of first sight',
  );
  const [{ body, event }] = (await eventually(
    async () => receiver.received.filter(({ event }) => event.data.id === id),
    (found) => found.length > 0,
  )) as [Receiver['received'][number]];
  assert.equal(event.data.transfers_count, 131);
  assert.ok(body.length < 40_000, `${body.length} bytes`);
});

test('the page of a payment with many transfers lists a few and counts the rest; changes show at once', async () => {
  const page = async (id: string) => {
    const text = await (await fetch(`${app.url}/pay?id=${id}`)).text();
    return { text, state: /data-state="(\w+)"/.exec(text)![1], listed: text.match(/<p class="tx">/g)?.length ?? 0 };
  };
  const id = await createInBtc();
  await receive(
    id,
    Array.from({ length: 185 }, () => 550),
  );
  const done = await page(id);
  assert.equal(done.state, 'overpaid');
  assert.equal(done.listed, 11);
  assert.match(done.text, /\+ 175 · Total <bdi translate="no">0\.00101750 BTC<\/bdi>/);
  assert.ok(done.text.length < 50_000, `${done.text.length} characters`);
  const receipt = await (await fetch(`${app.url}/pay/receipt?id=${id}`)).text();
  assert.match(receipt, /\+ 175 ·/);

  // So many that the page is cached for a moment, but never past a change.
  const open = await createInBtc();
  await receive(
    open,
    Array.from({ length: 600 }, () => 550),
  );
  const looks = await Promise.all(Array.from({ length: 10 }, () => page(open)));
  assert.deepEqual([...new Set(looks.map((look) => /\+ \d+/.exec(look.text)?.[0]))], ['+ 590']);
  await receive(open, [550], 600);
  assert.match((await page(open)).text, /\+ 591 ·/);
});

test('transfers that were read from another run of the server are not believed, even if their rows look the same', async () => {
  const { ctx } = app.app;
  const id = await createInBtc();
  await receive(id, [30_000, 550]);
  const read = () => readManyTransfers(ctx, ctx.db.sql, id);
  const [before] = await read();
  assert.equal((await read())[0], before, 'cached');
  // A restored database has new files; a restart and a failover show in the same text.
  await ctx.db.sql`vacuum full wallets`;
  const [after] = await read();
  assert.notEqual(after, before, 'read again');
  assert.deepEqual(after, before);
});

test('the transfers of a payment are listed page by page, only to its merchant', async () => {
  const id = await createInBtc();
  const refs = await receive(
    id,
    Array.from({ length: 230 }, (_, i) => 600 + i),
  );
  const listed: string[] = [];
  for (let page: any = null; !page || page.has_more; ) {
    page = ok(await app.test.get(`/v1/payments/${id}/transfers?limit=100${listed.length > 0 ? `&starting_after=${listed.at(-1)}` : ''}`));
    assert.equal(page.success, true);
    listed.push(...page.data.map((t: any) => t.ref));
    assert.ok(listed.length <= 230);
  }
  assert.deepEqual(listed, refs);
  const [first] = ok(await app.test.get(`/v1/payments/${id}/transfers?limit=1`)).data;
  assert.deepEqual(first, {
    ref: refs[0],
    transaction_hash: refs[0]!.slice(0, 64),
    currency: 'BTC',
    network: 'bitcoin',
    amount: '0.00000600',
    amount_usd: '0.58',
    kind: 'output',
    first_seen_at: first.first_seen_at,
    block_height: 0,
    block_hash: 'b',
    replaced_by: null,
  });
  // An empty payment has an empty list; an unknown ref starts no page.
  assert.deepEqual(ok(await app.test.get(`/v1/payments/${await createInBtc()}/transfers`)), { success: true, data: [], has_more: false });
  const wrong = await app.test.get(`/v1/payments/${await createInBtc()}/transfers?starting_after=${refs[0]}`);
  assert.deepEqual([wrong.status, wrong.json.error.code, wrong.json.error.param], [400, 'cursor_invalid', 'starting_after']);
  const other = await createMerchant(app.app.ctx, { name: 'Another shop' });
  for (const key of [other.keys.testSecret, app.merchant.keys.liveSecret]) {
    const refused = await app.as(key).get(`/v1/payments/${id}/transfers`);
    assert.deepEqual([refused.status, refused.json.error.code], [404, 'payment_not_found']);
  }
});

test('2,500 transfers read the same from the database, from memory and page by page; the cache never hides a change', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const { sql } = ctx.db;
  const id = await createInBtc();
  const refs = await receive(
    id,
    Array.from({ length: 2_500 }, (_, i) => 600 + (i % 7)),
  );
  // Rows of every kind are included.
  await sql`update transfers set txid = null, output_count = 3, lock = 'instantsend' where payment_id = ${id} and ref = ${refs[3]!}`;
  await sql`
    update transfers set block_height = null, block_hash = null, block_time = null, absent_since = first_seen_at, unmined_since = first_seen_at,
      conflict_txid = 'c', conflict_height = 5, conflict_seen_at = first_seen_at, disputed_since = first_seen_at
    where payment_id = ${id} and ref = any(${[refs[5]!, refs[2_499]!]}::text[])`;
  await sql`update transfers set "values" = "values" || "values" where payment_id = ${id} and ref = ${refs[7]!}`;

  const read = async (of: Sql | Tx = sql): Promise<Transfer[]> => (await readRecords(ctx, of, [id]))[0]!.transfers;
  const pages = async (): Promise<Transfer[]> => {
    const listed: Transfer[] = [];
    for (let hasMore = true; hasMore; ) {
      const startingAfter = listed.at(-1)?.ref ?? null;
      const page = await readTransfers(sql, { merchantId, mode: 'test', paymentId: id, startingAfter, limit: 1_000 });
      assert.ok('transfers' in page);
      listed.push(...page.transfers);
      hasMore = page.hasMore;
    }
    return listed;
  };
  const first = await read();
  assert.equal(first.length, 2_500);
  assert.deepEqual(first, await pages());
  assert.deepEqual([first[3]!.outputs, first[5]!.conflict?.height, first[7]!.values.length], [3, 5, 2]);
  const second = await read();
  assert.equal(second[0], first[0], 'from memory');
  assert.deepEqual(second, first);

  // A caller may change its list without changing what others read.
  second.length = 0;
  assert.equal((await read()).length, 2_500);

  const undone = new Error('undone');
  const worth = (transfers: readonly Transfer[]) => transfers[9]!.units;
  await assert.rejects(
    ctx.db.begin(async (tx) => {
      await tx`update transfers set units = 1 where payment_id = ${id} and ref = ${refs[9]!}`;
      assert.equal(worth(await read(tx)), 1n);
      assert.equal(worth(await read()), 602n, 'others do not see it yet');
      assert.equal(worth(await read(tx)), 1n);
      throw undone;
    }),
    undone,
  );
  assert.equal(worth(await read()), 602n);
  await sql`update transfers set units = 2 where payment_id = ${id} and ref = ${refs[9]!}`;
  assert.equal(worth(await read()), 2n);
  await sql`delete from transfers where payment_id = ${id} and ref = ${refs[2_000]!}`;
  assert.equal((await read()).length, 2_499);
  assert.deepEqual(await read(), await pages());
});
