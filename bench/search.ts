/** One search over 1,000,000 payments compared with 1,000, with texts of every kind. Goal: p99 <= 1.5. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { type Db, openDb } from '../src/db/db.ts';
import { createLog } from '../src/log.ts';
import { createMerchant } from '../src/merchants/merchants.ts';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { Person, setupToken } from '../test/kit/person.ts';

const ROUNDS = 150;
const MANY = Number(process.argv[2] ?? 1_000_000);

/** Payments with an invoice, a description, metadata, an address and an amount, and every tenth with a transaction and an email. */
async function fill(db: Db, merchantId: string, count: number): Promise<void> {
  await db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`set local lock_timeout = 0`;
    await tx`set local maintenance_work_mem = '512MB'`;
    await tx`insert into rule_sets (hash, rules) values ('bench', '{}') on conflict do nothing`;
    await tx`
      insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, coin, invoice_id, request, metadata, created_at, expires_at)
      select 'pay_' || left(translate(encode(sha256(('id' || n)::bytea), 'base64'), '+/=', 'xyz'), 24), ${merchantId}, 'live', n,
        (array['completed', 'expired', 'failed', 'cancelled'])[1 + n % 4], 100 + (n::bigint * 7919) % 500000, (select min(id) from rule_sets), 'secret', 'BTC',
        'INV-2026-' || n, jsonb_build_object('description', 'Order #' || n || ' of the shop'),
        jsonb_build_object('customer', 'customer-' || n % 1000 || '@mail.example', 'order', 'A-' || n), now() - (${count}::int - n) * interval '1 second', now()
      from generate_series(1, ${count}::int) as n`;
    await tx`insert into payment_counters values (${merchantId}, 'live', ${count})`;
    await tx`
      insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
      select id, 1, merchant_id, 'BTC', 'bc1q' || left(translate(encode(sha256(id::bytea), 'hex'), '1', 'z'), 38), 6000000000000, amount_usd_cents * 1667 + sequence % 997, now(), now()
      from payments where merchant_id = ${merchantId}`;
    await tx`
      insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at)
      select 'BTC', encode(sha256(('t' || id)::bytea), 'hex') || ':0', id, merchant_id, encode(sha256(('t' || id)::bytea), 'hex'), '', 1000 + sequence, 'output', now()
      from payments where merchant_id = ${merchantId} and sequence % 10 = 0`;
    await tx`
      insert into refund_addresses (payment_id, merchant_id, coin, address, email)
      select id, merchant_id, 'BTC', 'bc1qrefund' || sequence, 'payer.' || sequence || '@post.example' from payments where merchant_id = ${merchantId} and sequence % 10 = 0`;
    const [owner] = await tx<{ number: number }[]>`
      insert into payment_text_owners (merchant_id, mode, through_sequence) values (${merchantId}, 'live', ${count}) returning number`;
    const [index] = await tx<{ text: string }[]>`select pg_get_indexdef('payment_texts_grams'::regclass) as text`;
    await tx`drop index payment_texts_grams`;
    await tx`
      insert into payment_texts (owner, sequence, version, body)
      select ${owner!.number}, p.sequence, p.version, lower(concat_ws(chr(10), p.id, p.invoice_id, p.request->>'description', p.metadata->>'customer', p.metadata->>'order',
        r.email, (p.amount_usd_cents / 100.0)::numeric(12, 2) || ' usd', (q.units / 1e8)::numeric(20, 8) || ' btc', q.address, t.txid, r.address))
      from payments p join quotes q on q.payment_id = p.id left join transfers t on t.payment_id = p.id left join refund_addresses r on r.payment_id = p.id
      where p.merchant_id = ${merchantId} order by p.sequence`;
    await tx.unsafe(index!.text);
    await tx`alter index payment_texts_grams alter column 1 set statistics 0`;
  });
  await db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`analyze`;
  });
}

async function open(count: number) {
  const database = await testDatabase({ parent: '/var/tmp' });
  const app = await startApp(readConfig(testEnvironment(database.url, database.folder)), { log: createLog('silent') });
  const { merchantId, setupUrl } = await createMerchant(app.ctx, { name: 'Bench shop' });
  const person = new Person(app.url!);
  await person.post('/set-up', { token: setupToken(setupUrl), name: 'Olga Owner', email: 'olga@shop.example', password: person.password });
  const db = await openDb({ url: database.url, log: createLog('error') });
  const started = performance.now();
  await fill(db, merchantId, count);
  const [size] = await db.sql<{ payments: string; texts: string; terms: string }[]>`
    select pg_size_pretty(pg_total_relation_size('payments')) as payments, pg_size_pretty(pg_table_size('payment_texts')) as texts,
      pg_size_pretty(pg_relation_size('payment_texts_grams')) as terms`;
  console.log(
    `search: ${count} payments filled in ${((performance.now() - started) / 1000).toFixed(0)} s; payments ${size!.payments}, texts ${size!.texts}, their index ${size!.terms}`,
  );
  const sample = async (sequence: number) => {
    const [row] = await db.sql<{ id: string; address: string }[]>`
      select p.id, q.address from payments p join quotes q on q.payment_id = p.id where p.merchant_id = ${merchantId} and p.sequence = ${sequence}`;
    return row!;
  };
  const oldest = await sample(Math.floor(count / 500));
  const shop = {
    oldest,
    count,
    search: async (text: string): Promise<{ ms: number; found: number }> => {
      const from = performance.now();
      const reply = await person.get(`/live/payments?search=${encodeURIComponent(text)}`);
      if (reply.status === 429) {
        // A fast machine asks more in a minute than one person may.
        await sleep(Number(reply.headers.get('retry-after')) * 1000);
        return shop.search(text);
      }
      if (reply.status !== 200) throw new Error(`${text}: ${reply.text}`);
      return { ms: performance.now() - from, found: reply.json.data.length as number };
    },
    stop: async () => {
      await db.close();
      await app.stop();
      await database.drop();
    },
  };
  return shop;
}
type Shop = Awaited<ReturnType<typeof open>>;
const QUERIES: readonly (readonly [name: string, text: (shop: Shop, round: number) => string])[] = [
  ['a part of an old id', ({ oldest }) => oldest.id.slice(6, 18).toUpperCase()],
  ['a part of an old address', ({ oldest }) => oldest.address.slice(8, 22)],
  ['one invoice, old and new', ({ count }, round) => `inv-2026-${1 + ((round * 7919) % count)}`],
  ['an order in a description', ({ count }, round) => `order #${1 + ((round * 104_729) % count)}`],
  ["a customer's email", (_, round) => `customer-${(round * 37) % 1000}@`],
  ['an amount', (_, round) => `${(round * 13) % 5000}.37`],
  ['a text that all have', () => 'pay_'],
  ['a text that many have', () => '99'],
  ['one character', () => 'q'],
  ['a text that none has', (_, round) => `nothing-${round}-like-this`],
  ['hex that none has', (_, round) => `${(round * 7919 + 0xabc123).toString(16)}a1b2`],
];
const large = await open(MANY);
const small = await open(1_000);
const at = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;
const all = { large: [] as number[], small: [] as number[] };
const kinds: string[] = [];
for (const [name, text] of QUERIES) {
  const taken = { large: [] as number[], small: [] as number[] };
  let found = 0;
  for (let i = -5; i < ROUNDS; i++) {
    // Alternating, after some of each to warm up, so that the machine's speed cancels out.
    const one = { large: await large.search(text(large, i + 5)), small: await small.search(text(small, i + 5)) };
    if (i < 0) continue;
    taken.large.push(one.large.ms);
    taken.small.push(one.small.ms);
    found += one.large.found;
  }
  all.large.push(...taken.large);
  all.small.push(...taken.small);
  const p99 = at(taken.large, 0.99) / at(taken.small, 0.99);
  kinds.push(`${name} ${p99.toFixed(2)}${p99 > 1.5 ? ' MISSED' : ''}`);
  const say = (times: number[]) => `p50 ${at(times, 0.5).toFixed(1)} ms  p99 ${at(times, 0.99).toFixed(1)} ms`;
  console.log(
    `search: ${name} (${(found / ROUNDS).toFixed(1)} found)\n  ${MANY}  ${say(taken.large)}\n  1,000      ${say(taken.small)}\n  ratio      p50 ${(at(taken.large, 0.5) / at(taken.small, 0.5)).toFixed(2)}  p99 ${p99.toFixed(2)}`,
  );
}
const ratio = at(all.large, 0.99) / at(all.small, 0.99);
console.log(
  `search: all of these\n  ${MANY}  p99 ${at(all.large, 0.99).toFixed(1)} ms\n  1,000      p99 ${at(all.small, 0.99).toFixed(1)} ms\n  goal       p99 <= 1.5, overall and for each\nsearch: p99 ratio ${ratio.toFixed(2)}${ratio > 1.5 ? ' MISSED' : ''} overall; ${kinds.join('; ')}`,
);
await large.stop();
await small.stop();
