/** Search: any part of any text of a payment, in any case, soon after it was written, with a limited cost for any query. */
// Invariant: A search costs the same no matter how many payments there are, and finds any part of their texts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { leaveRefundAddress } from '../../src/payments/payments.ts';
import { findByText, findPayments, NO_FILTER } from '../../src/queries/search.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { pagesTouched } from '../kit/pages.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
});
after(() => app.stop());

type Found = { id: string; match: { field: string; text: string } | null };
const search = async (text: string, more = ''): Promise<Found[]> => {
  const reply = await owner.get(`/test/payments?search=${encodeURIComponent(text)}${more}`);
  assert.equal(reply.status, 200, reply.text);
  return reply.json.data;
};
const make = async (body: object): Promise<string> => {
  const reply = await app.test.post('/api/payment/create/simple', { amount_usd: '1234.50', return_url: 'https://a.example/', ...body });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.id;
};
/** Waits until all texts written so far are indexed. */
const indexed = () =>
  eventually(
    () => app.app.ctx.db.sql`
      select 1 from payment_counters c left join payment_text_owners o using (merchant_id, mode) where c.last_sequence > coalesce(o.through_sequence, 0)
      union all select 1 from due_work where kind = 'text'`,
    (rows) => rows.length === 0,
  );

test('a payment is found by any part of each of its texts, in any case, and the match is shown', async () => {
  const id = await make({
    invoice_id: 'INV-2026-13',
    description: 'Order #10836: 50% off_all Größe M, 東京',
    metadata: { customer: 'Anna.Schmidt@Mail.example', 'cart id': 'C\\77' },
    payment_address: 'test_btc_success',
  });
  const other = await make({ amount_usd: '7.00', invoice_id: 'INV-2026-14' });
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'overpaid' });
  const detail = (await app.test.get(`/api/payment/${id}`)).json;
  await leaveRefundAddress(app.app.ctx, { paymentId: id, coin: 'BTC', address: 'test_btc_payer', email: 'Payer@Post.example' });
  const rows: readonly (readonly [text: string, field: string])[] = [
    [id.slice(6, 20).toUpperCase(), 'id'],
    ['v-2026-13', 'invoice_id'],
    ['  order   #10836 ', 'description'],
    ['#10836', 'description'],
    ['50% OFF_ALL', 'description'],
    ['GRÖSSE m'.replace('SS', 'ß'), 'description'],
    ['東京', 'description'],
    ['schmidt@MAIL', 'metadata.customer'],
    ['c\\77', 'metadata.cart id'],
    ['payer@post', 'email'],
    ['1,234.50', 'amount_usd'],
    ['$1234.5', 'amount_usd'],
    ['1234.50 usd', 'amount_usd'],
    [detail.amount.slice(0, 8), 'amount'],
    ['btc_succ', 'payment_address'],
    [detail.transaction_hash.slice(10, 40).toUpperCase(), 'transaction_id'],
    ['btc_payer', 'refund_address'],
  ];
  // Soon, whether it is indexed or not, and later from the index.
  for (const when of ['new', 'indexed']) {
    if (when === 'indexed') await indexed();
    for (const [text, field] of rows) {
      const found = await eventually(
        () => search(text),
        (all) => when === 'indexed' || all.length > 0,
      );
      assert.deepEqual(
        found.map((one) => [one.id, one.match?.field]),
        [[id, field]],
        `${when}: ${text}`,
      );
    }
    assert.deepEqual(
      (await search('INV-2026')).map((found) => found.id),
      [other, id],
    );
    assert.deepEqual(
      (await search('inv', '&status=pending')).map((found) => found.id),
      [other],
    );
    for (const none of ['INV-2026-15', 'off.all', '%', '10836 order', '\\']) {
      const found = (await search(none)).filter((one) => one.id !== id);
      assert.deepEqual(found, [], none);
    }
    // Every payment has one of these.
    for (const short of ['p', 'PA']) assert.equal((await search(short)).length, 2);
  }

  await app.test.post(`/v1/payments/${id}`, { metadata: { customer: 'Berta@mail.example' } });
  await indexed();
  assert.equal((await search('berta@')).length, 1);
  assert.equal((await search('schmidt')).length, 0);
});

test('a search finds nothing of another merchant or the other mode', async () => {
  const theirs = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const body = { amount_usd: 5, return_url: 'https://a.example/', invoice_id: 'SECRET-1' };
  assert.equal((await app.as(theirs.keys.testSecret).post('/api/payment/create/simple', body)).status, 201);
  assert.equal((await app.live.post('/api/payment/create/simple', body)).status, 201);
  assert.deepEqual(await search('secret-1'), []);
  await indexed();
  for (const text of ['secret-1', 'ecre', 'se']) assert.ok((await search(text)).every(({ match }) => match?.field !== 'invoice_id'));
  assert.equal((await owner.get('/live/payments?search=secret-1')).json.data.length, 1);
});

test('old payments are found far behind the newest ones, in order and page by page, at a limited cost', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = await createMerchant(ctx, { name: 'Long shop' });
  await sql`insert into rule_sets (hash, rules) values ('search', '{}') on conflict do nothing`;
  const [shop] = await sql<{ number: number }[]>`
    insert into payment_text_owners (merchant_id, mode, through_sequence) values (${merchantId}, 'live', 800000) returning number`;
  // Old ones in ten segments, and 1,200 new ones before them.
  await sql`
    insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, request, created_at, expires_at)
    select 'pay_' || s, ${merchantId}, 'live', s, (array['expired', 'completed'])[1 + s % 2], 100, (select min(id) from rule_sets), 'secret',
      jsonb_build_object('description', case when s < 700000 then 'Rose number ' || s else 'Common daisy' end), now() - (800000 - s) * interval '1 minute', now()
    from (select n * 31111 as s from generate_series(1, 20) as n union all select 798800 + n from generate_series(1, 1200) as n) as s`;
  await sql`
    insert into payment_texts (owner, sequence, version, body) select ${shop!.number}, sequence, version, id || chr(10) || lower(request->>'description')
    from payments where merchant_id = ${merchantId}`;
  const of = { merchantId, mode: 'live' as const, startingAfter: null };
  const find = (text: string, more: object = {}, limit = 8) =>
    findPayments(ctx, { ...of, limit, filter: { ...NO_FILTER, search: text, ...more } });
  const walk = async (text: string, more: object = {}, limit = 8): Promise<string[]> => {
    const ids: string[] = [];
    let startingAfter: string | null = null;
    for (;;) {
      const page = await findPayments(ctx, { ...of, startingAfter, limit, filter: { ...NO_FILTER, search: text, ...more } });
      ids.push(...page.items.map(({ id }) => id));
      startingAfter = page.hasMore ? page.items.at(-1)!.id : (page.lookedBackTo?.id ?? null);
      if (startingAfter === null) return ids;
    }
  };
  const roses = Array.from({ length: 20 }, (_, i) => `pay_${(20 - i) * 31111}`);
  assert.deepEqual(await walk('ROSE number'), roses);
  assert.deepEqual(await walk('rose', {}, 100), roses);
  assert.deepEqual(
    await walk('rose', { status: 'completed' }, 3),
    roses.filter((id) => Number(id.slice(4)) % 2 === 1),
  );
  assert.deepEqual(
    (await find('number 31111')).items.map(({ id }) => id),
    ['pay_311110', 'pay_31111'],
  );
  assert.deepEqual((await find('rose number 31112')).items, []);
  assert.equal((await walk('daisy', {}, 100)).length, 1200);
  assert.deepEqual(await walk('daisy', { status: 'failed' }), []);
  // Two characters are searched in the newest payments, and further back on request.
  assert.deepEqual(await walk('ro'), roses);
  for (const text of ['rose', 'daisy', 'nothing at all', 'x', 'pay_'])
    assert.ok(
      (await pagesTouched(ctx, (read) => findPayments(read, { ...of, limit: 8, filter: { ...NO_FILTER, search: text } }))) < 3_000,
      text,
    );
});

test('any text is found exactly where a plain comparison finds it, newest first, in every segment', async () => {
  const { ctx } = app.app;
  const { merchantId } = await createMerchant(ctx, { name: 'Any shop' });
  const [shop] = await ctx.db.sql<{ number: number }[]>`
    insert into payment_text_owners (merchant_id, mode, through_sequence) values (${merchantId}, 'live', 800000) returning number`;
  const segment = 262_144;
  const piece = fc.stringMatching(/^[ab1.'\\%_:*&é東😀]{1,9}$/u);
  const line = fc.oneof(
    piece,
    fc.stringMatching(/^[0-9a-f]{4,12}$/),
    fc.nat(60).map((n) => `invoice inv-${n}`),
    fc.constant('of the shop'),
  );
  const random = fc.sample(
    fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n')),
    { numRuns: 900, seed: 1 },
  );
  const rows = [
    // Old ones in four segments, and a dense beginning of the newest, where every text has the same words.
    ...random.map((body, i) => ({ sequence: i < 600 ? 7 + i * 1_300 : 3 * segment + i - 600, body })),
    ...Array.from({ length: 1_000 }, (_, i) => ({ sequence: 3 * segment + 1_299 - i, body: i % 300 === 0 ? 'inv-7' : 'new' })),
  ].sort((a, b) => b.sequence - a.sequence);
  await ctx.db.sql`
    insert into payment_texts (owner, sequence, version, body) select ${shop!.number}, sequence, 1, body
    from unnest(${rows.map((row) => String(row.sequence))}::bigint[], ${rows.map((row) => row.body)}::text[]) as r (sequence, body)`;
  const query = fc.oneof(
    fc.tuple(fc.nat(899), fc.nat(20), fc.integer({ min: 1, max: 14 })).map(([row, from, length]) => {
      const [first] = random[row]!.split('\n');
      const characters = [...first!];
      return characters.slice(from % characters.length, (from % characters.length) + length).join('');
    }),
    piece,
    fc.constantFrom('inv-7', 'of the', 'shop of', 'e inv', 'new', 'shop', 'nothing', '東', 'é東', "''"),
  );
  await fc.assert(
    fc.asyncProperty(query, fc.integer({ min: 20, max: 200 }), async (text, limit) => {
      const found: number[] = [];
      let below: bigint | null = null;
      do {
        const page = await findByText(ctx, { merchantId, mode: 'live', query: text, others: null, below, limit });
        const shown = page.sequences.slice(0, limit);
        found.push(...shown.map(Number));
        below = page.sequences.length > limit ? shown.at(-1)! : page.lookedTo;
      } while (below !== null);
      const expected = rows.filter(({ body }) => body.includes(text)).map(({ sequence }) => sequence);
      assert.deepEqual(found, expected);
    }),
    { numRuns: 120 },
  );
});
