/** When invoices are looked at: those that somebody is paying before all others, and no server more often than it can take. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { eventually } from '../kit/app.ts';
import { type LightningShop, startLightningShop } from '../kit/lightning-shop.ts';
import { NWC_SECRET } from '../kit/nostr-relay.ts';

let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(async () => {
  shop.fronts.behave();
  await shop.app.app.ctx.db.sql`delete from lightning_invoices`;
  await shop.app.app.ctx.db.sql`update lightning_hosts set free_at = clock_timestamp()`;
});

/** Remembers which invoice is asked about by `verify`, and when. `answer` replaces what is answered. */
function recordLooks(answer?: () => { status: number; json: object; headers?: Record<string, string> }) {
  const looks: { hash: string; atMs: number }[] = [];
  shop.fronts.behave((usual, { path }) => {
    if (!path.startsWith('/verify/')) return usual;
    looks.push({ hash: path.slice('/verify/'.length), atMs: performance.now() });
    return answer?.() ?? usual;
  });
  return looks;
}

/** Gives a payment more invoices, made so many seconds ago. Returns their payment hashes. */
async function giveInvoices(id: string, count: number, ageSeconds: number): Promise<Set<string>> {
  const hashes = new Set<string>();
  for (let n = 0; n < count; n++) {
    const { bolt11, paymentHash } = shop.fronts.make(10_000_000n, { seconds: 3_600, memo: 'Shop' });
    hashes.add(paymentHash);
    await shop.app.app.ctx.db.sql`
      insert into lightning_invoices (payment_hash, payment_id, merchant_id, backend_id, bolt11, host, handle, msat, created_at, watched_until, shown_until, expires_at)
      select ${paymentHash}, payment_id, merchant_id, backend_id, ${bolt11}, host, ${`${shop.fronts.url}/verify/${paymentHash} ${bolt11}`}, msat,
        clock_timestamp() - make_interval(secs => ${ageSeconds}), clock_timestamp() + make_interval(secs => ${120 - ageSeconds}),
        clock_timestamp() + interval '15 minutes', clock_timestamp() + interval '1 hour'
      from lightning_invoices where payment_id = ${id} limit 1`;
  }
  return hashes;
}

test('a provider with a hundred open invoices is asked three times a second, and about the newest ones most', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  const first = decodeInvoice(invoice).paymentHash;
  const old = await giveInvoices(id, 100, 600);
  const looks = recordLooks();
  const sinceMs = performance.now();
  await eventually(
    async () => looks.length,
    (count) => count >= 24,
  );
  const seconds = (looks.at(-1)!.atMs - sinceMs) / 1_000;
  assert.ok(looks.length <= 3 + 3 * seconds + 1, `${looks.length} in ${seconds} s`);
  for (const { atMs } of looks) {
    const within = looks.filter((one) => one.atMs >= atMs && one.atMs < atMs + 1_000).length;
    assert.ok(within <= 6, `${within} in one second`);
  }
  const young = looks.filter(({ hash }) => hash === first).length;
  const others = [...old].map((hash) => looks.filter((one) => one.hash === hash).length);
  assert.ok(young >= 4 && young > 2 * Math.max(...others), `${young} and at most ${Math.max(...others)}`);
  assert.ok(
    others.some((count) => count > 0),
    'the others are not forgotten',
  );
});

test('an invoice whose page was left is looked at less and less, and as often as a new one when the page is open again', async () => {
  await shop.use('address');
  const { id } = await shop.ask();
  const { sql } = shop.app.app.ctx.db;
  const waits = async (): Promise<number> =>
    (
      await sql<
        { ms: number }[]
      >`select extract(epoch from due_at - looked_at)::float8 * 1000 as ms from lightning_invoices where payment_id = ${id}`
    )[0]!.ms;
  const looked = async (leftSeconds: number): Promise<number> => {
    await sql`
      update lightning_invoices set looked_at = null, watched_until = clock_timestamp() - make_interval(secs => ${leftSeconds}),
        due_at = clock_timestamp() where payment_id = ${id}`;
    await eventually(
      () => shop.row(id),
      (row) => row.looked_at !== null,
    );
    return waits();
  };
  const [now, soon, later] = [await looked(-10), await looked(20), await looked(600)];
  assert.ok(now >= 500 && now < 2_000, String(now));
  assert.ok(soon >= 5_000 && soon < 10_000, String(soon));
  assert.ok(later >= 30_000 && later < 35_000, String(later));
  const opened = new AbortController();
  await fetch(`${shop.app.url}/pay/events?id=${id}`, { signal: opened.signal });
  const row = await eventually(
    () => shop.row(id),
    ({ looked_at: at, watched_until: until }) => until > new Date() && at !== null,
  );
  assert.ok(row.due_at.getTime() < Date.now() + 1_000);
  opened.abort();
});

test('a provider that says when to ask again is left alone until then, by all invoices', async () => {
  await shop.use('address');
  const { id } = await shop.ask();
  const looks = recordLooks(() => ({ status: 429, json: { status: 'ERROR', reason: 'slow down' }, headers: { 'retry-after': '40' } }));
  await eventually(
    () => shop.row(id),
    ({ failures }) => failures > 0,
  );
  await giveInvoices(id, 5, 0);
  const asked = looks.length;
  await sleep(1_500);
  assert.ok(asked <= 3, String(asked));
  assert.equal(looks.length, asked);
  const [host] = await shop.app.app.ctx.db.sql<{ seconds: number }[]>`
    select extract(epoch from free_at - clock_timestamp())::float8 as seconds from lightning_hosts order by free_at desc limit 1`;
  assert.ok(host!.seconds > 30 && host!.seconds <= 40, String(host!.seconds));
});

test('a wallet that says that it was paid is looked at before its time, and nobody else can say it', async () => {
  await shop.use('nwc');
  const { id, invoice } = await shop.ask();
  const { sql } = shop.app.app.ctx.db;
  await eventually(
    async () => shop.fronts.relay.listeners(),
    (count) => count > 0,
  );
  await eventually(
    () => shop.row(id),
    (row) => row.looked_at !== null,
  );
  await sql`
    update lightning_invoices set due_at = clock_timestamp() + interval '1 hour', watched_until = clock_timestamp() - interval '1 hour'
    where payment_id = ${id}`;
  await sleep(300);
  const later = (await shop.row(id)).due_at;
  const { paymentHash } = decodeInvoice(invoice);
  shop.fronts.relay.announce(paymentHash, NWC_SECRET);
  shop.fronts.relay.announce('ab'.repeat(32));
  shop.pair.pay(invoice);
  await sleep(300);
  assert.deepEqual((await shop.row(id)).due_at, later);
  shop.fronts.relay.announce(paymentHash);
  await shop.reached(id, 'completed');
});
