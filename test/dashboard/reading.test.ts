/** Lists and filters of the dashboard read about the same number of database pages, however much data there is. */
// Invariant: A list costs the same no matter how many rows there are, with any filter.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Context } from '../../src/context.ts';
import { FULL_SIGHT, sightOf } from '../../src/core/transfer.ts';
import { listRequests, type RequestFilter } from '../../src/keys/requests.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { listNotices } from '../../src/notices/notices.ts';
import { listAudit } from '../../src/people/members.ts';
import { type ListFilter, listFilteredPayments } from '../../src/queries/lists.ts';
import { type Filter, findPayments, NO_FILTER } from '../../src/queries/search.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { pagesTouched } from '../kit/pages.ts';

const FEW = 20_000;
const MANY = 80_000;
let app: TestApp;
let few: Shop;
let many: Shop;
before(async () => {
  app = await startTestApp();
  few = await open(FEW);
  many = await open(MANY);
  // Alternately, as merchants of one install write.
  for (let round = 1; round <= 8; round++) for (const shop of [few, many]) await fill(shop, round / 8);
  for (const table of ['payments', 'payment_metadata', 'requests', 'audit_log', 'notices'])
    await app.app.ctx.db.sql.unsafe(`vacuum analyze ${table}`);
});
after(() => app.stop());

type Shop = { merchantId: string; userId: string; keys: [string, string]; count: number; filled: number };
async function open(count: number): Promise<Shop> {
  const { ctx } = app.app;
  const { merchantId } = await createMerchant(ctx, { name: `Shop of ${count}` });
  const keys = await ctx.db.sql<{ id: string }[]>`select id from keys where merchant_id = ${merchantId} and mode = 'live' order by id`;
  const userId = `usr_of_${count}`;
  await ctx.db.sql`insert into users (id, name, email) values (${userId}, 'Olga', ${`${count}@shop.example`})`;
  await ctx.db.sql`insert into payment_counters values (${merchantId}, 'live', ${count})`;
  // As if their texts were indexed: another test covers that.
  await ctx.db.sql`insert into payment_text_owners (merchant_id, mode, through_sequence) values (${merchantId}, 'live', ${count})`;
  return { merchantId, userId, keys: [keys[0]!.id, keys[1]!.id], count, filled: 0 };
}
/** A year of payments and actions, a month of requests and notices (they are not kept longer), evenly spaced. */
async function fill(shop: Shop, share: number): Promise<void> {
  const { ctx } = app.app;
  const { merchantId, keys, count, filled } = shop;
  shop.filled = count * share;
  const within = (days: number) => ctx.db.sql`now() - (${count}::int - n) * (interval '1 day' * ${days}::int / ${count}::int)`;
  const at = within(365);
  const lately = within(28);
  await ctx.db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`insert into rule_sets (hash, rules) values ('reading', '{}') on conflict do nothing`;
    await tx`
      insert into payments (id, merchant_id, mode, sequence, status, exceptions, amount_usd_cents, rule_set, created_with, coin, created_at, expires_at, invoice_id, metadata)
      select ${merchantId} || '_' || n, ${merchantId}, 'live', n, (array['completed', 'expired'])[1 + n % 2],
        case when n % 2 = 0 then array['late'] else '{}'::text[] end, 1000 + n % 5000, (select min(id) from rule_sets), 'secret',
        (array['BTC', 'LTC'])[1 + n % 2], ${at}, now(), 'INV-' || n,
        case when n % 2 = 0 then '{"source": "shop"}'::jsonb else '{}' end
      from generate_series(${filled}::int + 1, ${shop.filled}::int) as n`;
    await tx`
      insert into payment_metadata select ${merchantId}, 'live', md5('source' || chr(1) || 'shop')::uuid, n
      from generate_series(${filled}::int + 1, ${shop.filled}::int) as n where n % 2 = 0`;
    await tx`
      insert into requests (request_id, merchant_id, mode, key_id, at, method, path, status, duration_ms, has_idempotency_key, ip, omitted)
      select ${merchantId} || '_' || n, ${merchantId}, 'live', (array[${keys[0]}, ${keys[1]}])[1 + n % 2], ${lately}, 'GET',
        '/v1/payments/' || n, case when n % 4 >= 2 then 404 else 200 end, 3, false, '', 0
      from generate_series(${filled}::int + 1, ${shop.filled}::int) as n`;
    await tx`
      insert into audit_log (merchant_id, mode, actor_id, actor_name, action, object, ip, at)
      select ${merchantId}, 'live', (array['usr_1', 'usr_2'])[1 + n % 2], 'Olga', (array['key.create', 'payment.cancel'])[1 + n % 2], 'obj_' || n % 100, '', ${at}
      from generate_series(${filled}::int + 1, ${shop.filled}::int) as n`;
    await tx`
      insert into notices (merchant_id, mode, kind, detail, at) select ${merchantId}, 'live', 'payment_attention', '{"exception": "late"}', ${lately}
      from generate_series(${filled}::int + 1, ${shop.filled}::int) as n`;
  });
}

/** The same query for both shops, after a first one that does not count. */
async function costs(read: (ctx: Context, shop: Shop) => Promise<unknown>): Promise<{ few: number; many: number }> {
  const pages = async (shop: Shop) => {
    await read(app.app.ctx, shop);
    return pagesTouched(app.app.ctx, (ctx) => read(ctx, shop));
  };
  return { few: await pages(few), many: await pages(many) };
}
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);

const PAYMENTS: Record<string, Partial<Filter>> = {
  'no filter': {},
  'a status': { status: 'completed' },
  'a status that none has': { status: 'failed' },
  'a status and a coin that no payment has both': { status: 'completed', coins: ['LTC'] },
  'an exception': { exception: 'late' },
  'an exception that none has': { exception: 'reorged' },
  'an amount that none has': { atLeast: 900_000n },
  'an amount that few have': { atLeast: 5_990n },
  'an amount and an exception': { atLeast: 900_000n, exception: 'any' },
  'an hour half a year ago': { from: daysAgo(180), until: new Date(daysAgo(180).getTime() + 3_600_000) },
  'a day on which none was made': { from: daysAgo(1_000), until: daysAgo(900) },
  'refunds asked for': { refundRequested: true },
  'the payments of a shop that half of them have': { shop: { metadata: { name: 'source', values: ['shop'] } } },
  'the payments of a shop that has none': { shop: { lineId: 'shp_none' } },
  'all but what was put away': { archived: 'without' },
  'what was put away, which is nothing': { archived: 'only' },
};
const LISTS: Record<string, Partial<ListFilter>> = {
  'an invoice': { invoiceId: 'INV-500' },
  'an invoice that none has': { invoiceId: 'INV-0' },
  'metadata that half of them have': { metadata: { source: 'shop' } },
  'metadata that none has': { metadata: { source: 'app' } },
  'metadata and an invoice that do not go together': { metadata: { source: 'shop' }, invoiceId: 'INV-501' },
  'an amount': { amountUsdCents: 2_500n },
  'an amount that none has': { amountUsdCents: 1n },
  'an hour half a year ago': { createdAfter: daysAgo(180), createdBefore: new Date(daysAgo(180).getTime() + 3_600_000) },
  'all of the last years': { createdAfter: daysAgo(1_000) },
};
const REQUESTS: Record<string, Partial<RequestFilter>> = {
  'no filter': {},
  errors: { failed: true },
  'a status that none has': { status: 201 },
  'an error that none has': { status: 418 },
  'a part of a path that none has': { path: 'webhooks' },
  'an id that none has': { requestId: 'req_0' },
};
const AUDIT: Record<string, Partial<Parameters<typeof listAudit>[1]['filter']>> = {
  'no filter': {},
  'an act that nobody did': { action: 'key.revoke' },
  'a member who did nothing': { actorId: 'usr_3' },
  'an object that nobody touched': { object: 'obj_none' },
  'a member and an act that do not go together': { actorId: 'usr_1', action: 'payment.cancel' },
  'a mode in which nobody did anything': { mode: 'test' },
  'an hour half a year ago': { from: daysAgo(180), until: new Date(daysAgo(180).getTime() + 3_600_000) },
  'a day on which nobody did anything': { from: daysAgo(1_000), until: daysAgo(900) },
};
const paged = { limit: 25, startingAfter: null };
const seen = { ...paged, sight: FULL_SIGHT };
const NO_LIST: ListFilter = {
  ...{
    status: null,
    coins: null,
    invoiceId: null,
    customerId: null,
    metadata: {},
    amountUsdCents: null,
    createdAfter: null,
    createdBefore: null,
  },
};
const NO_AUDIT = { actorId: null, action: null, object: null, mode: null, from: null, until: null };
const NO_REQUEST = { failed: false, status: null, path: null, text: null, keyId: null, requestId: null };
const QUESTIONS: [string, (ctx: Context, shop: Shop) => Promise<unknown>][] = [
  ...Object.entries(PAYMENTS).map(
    ([name, filter]) =>
      [
        `payments, ${name}`,
        (ctx: Context, { merchantId }: Shop) =>
          findPayments(ctx, { merchantId, mode: 'live', ...paged, filter: { ...NO_FILTER, ...filter } }),
      ] as [string, (ctx: Context, shop: Shop) => Promise<unknown>],
  ),
  ...Object.entries(LISTS).map(
    ([name, filter]) =>
      [
        `the list of the API, ${name}`,
        (ctx: Context, { merchantId }: Shop) =>
          listFilteredPayments(ctx, {
            ...{ merchantId, mode: 'live', ...paged, endingBefore: null },
            filter: { ...NO_LIST, ...filter },
          }),
      ] as [string, (ctx: Context, shop: Shop) => Promise<unknown>],
  ),
  ...Object.entries(REQUESTS).map(
    ([name, filter]) =>
      [
        `requests, ${name}`,
        (ctx: Context, { merchantId }: Shop) =>
          listRequests(ctx, { merchantId, mode: 'live', ...seen, filter: { ...NO_REQUEST, ...filter } }),
      ] as [string, (ctx: Context, shop: Shop) => Promise<unknown>],
  ),
  [
    'requests, a key',
    (ctx, { merchantId, keys }) => listRequests(ctx, { merchantId, mode: 'live', ...seen, filter: { ...NO_REQUEST, keyId: keys[0] } }),
  ],
  [
    'requests, a key and errors that it has none of',
    (ctx, { merchantId, keys }) =>
      listRequests(ctx, { merchantId, mode: 'live', ...seen, filter: { ...NO_REQUEST, keyId: keys[1], failed: true } }),
  ],
  [
    'requests, as support sees them',
    (ctx, { merchantId }) => listRequests(ctx, { merchantId, mode: 'live', ...paged, sight: sightOf('support'), filter: NO_REQUEST }),
  ],
  ...Object.entries(AUDIT).map(
    ([name, filter]) =>
      [
        `acts, ${name}`,
        (ctx: Context, { merchantId }: Shop) => listAudit(ctx, { merchantId, ...paged, filter: { ...NO_AUDIT, ...filter } }),
      ] as [string, (ctx: Context, shop: Shop) => Promise<unknown>],
  ),
];

for (const [name, read] of QUESTIONS)
  test(`as many pages are read for ${MANY} as for ${FEW}: ${name}`, async (t) => {
    const pages = await costs(read);
    t.diagnostic(`${pages.few} pages, ${pages.many} pages`);
    assert.ok(pages.many <= pages.few * 2 + 200, `${pages.many} pages against ${pages.few}`);
  });

test(`as many pages are read for ${MANY} as for ${FEW}: notices, seen and turned off`, async (t) => {
  const read = (ctx: Context, shop: Shop) =>
    listNotices(ctx, { ...shop, mode: 'test', limit: 25, startingAfter: null, sight: sightOf('support') });
  const seen = await costs(read);
  const { sql } = app.app.ctx.db;
  for (const { userId, merchantId } of [few, many])
    await sql`insert into notice_settings (user_id, merchant_id, kind, in_app, email) values (${userId}, ${merchantId}, 'payment_attention', false, false)`;
  const off = await costs(read);
  t.diagnostic(`${seen.few} and ${seen.many}; turned off ${off.few} and ${off.many}`);
  for (const pages of [seen, off]) assert.ok(pages.many <= pages.few * 2 + 200, `${pages.many} pages against ${pages.few}`);
});
