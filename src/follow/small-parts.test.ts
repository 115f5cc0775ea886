/** A database that refuses a large write, immediately or midway: the follower makes progress, and nothing is lost or duplicated. */
// Invariant: A block that cannot be written in one step is written in small parts, completely or not at all.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { createAdversaryChain, createAdversarySource, type OnChain } from '../../test/kit/adversary.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { makeLivePayment } from '../../test/kit/payments.ts';
import { type Core, openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { lockAndSettle, settleDuePayments } from '../settling/settle-payments.ts';
import { createFollower } from './follow.ts';
import { isTooMuch } from './record-block.ts';

/** More than one statement takes, so that it needs several. */
const MANY = 1_200;
/** What a payment of 50 USD costs at the test price. */
const DUE = 51_547n;

let database: TestDatabase;
let core: Core;
let merchantIds: string[];
before(async () => {
  database = await testDatabase();
  core = await openCore(readConfig(testEnvironment(database.url, database.folder, { PRICES: 'static:BTC=97000.00', LOG_LEVEL: 'silent' })));
  await core.ctx.prices.start();
  // Two merchants, because payments of one merchant that arrive together wait for more confirmations.
  merchantIds = [await createMerchant(core.ctx, { name: 'Flooded' }), await createMerchant(core.ctx, { name: 'Honest' })].map(
    (one) => one.merchantId,
  );
  await database.db.sql`
    create function refuse() returns trigger language plpgsql as $$
    begin
      if tg_argv[0] = 'many' and (select count(*) from fresh) > 100 then
        raise exception 'total size of jsonb array elements exceeds the maximum' using errcode = 'program_limit_exceeded';
      elsif tg_argv[0] = 'last' and exists (select 1 from fresh where units = 7777) then
        raise exception 'the server is about to stop' using errcode = 'raise_exception';
      end if;
      return null;
    end $$`;
});
after(async () => {
  await core.ctx.prices.stop();
  await core.close();
  await database.drop();
});
beforeEach(() =>
  database.db.sql.unsafe(
    'drop trigger if exists refuse on transfers; delete from transfers; delete from tips; delete from blocks; delete from due_work',
  ),
);
const refuse = (what: 'many' | 'last') =>
  database.db.sql.unsafe(
    `create trigger refuse after insert on transfers referencing new table as fresh for each statement execute function refuse('${what}')`,
  );

/** A payment of 50 USD whose payer has chosen BTC, created as the service does except for the address. */
async function openPayment(merchantId: string, key: string): Promise<string> {
  const id = await makeLivePayment(core.ctx, { merchantId, amountUsdCents: 5_000n, expiresInSeconds: 3_600 });
  await core.ctx.db.begin((tx) =>
    lockAndSettle(core.ctx, tx, [id], async () => {
      await tx`
        insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
        values (${id}, 1, ${merchantId}, 'BTC', ${key}, 9700000000000, ${String(DUE)}, now(), now() + interval '15 minutes')`;
      await tx`
        insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
        values ('BTC', ${key}, ${key}, ${id}, ${merchantId}, 'wal_1', ${Number.parseInt(key.slice(-8), 16)}, now())`;
    }),
  );
  return id;
}
let keys = 0;
const newKey = () => `0014${(++keys).toString(16).padStart(40, '0')}`;

/** A block of many transactions to one payment, and one to another. */
async function flood() {
  const [flooded, honest] = [newKey(), newKey()];
  const ids = { flooded: await openPayment(merchantIds[0]!, flooded), honest: await openPayment(merchantIds[1]!, honest) };
  const chain = createAdversaryChain({ height: 5, now: () => new Date() });
  const source = createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} });
  const follower = createFollower(core.ctx, source);
  await follower.step();
  const pay = (key: string, units: bigint): OnChain => {
    const txid = chain.nameOf('t');
    return { txid, kind: 'output', inputs: [`${txid}-in:0`], outputs: [{ key, units }] };
  };
  const mined = chain.mine([...Array.from({ length: MANY }, () => pay(flooded, 600n)), pay(honest, DUE), pay(flooded, 7_777n)]);
  return { ids, chain, mined, follower };
}
const read = async (id: string) => {
  const [row] = await database.db.sql<{ status: string; received: bigint; rows: number; units: bigint }[]>`
    select p.status, p.received_units as received, count(t.ref)::int as rows, sum(t.units)::numeric(38, 0) as units
    from payments p left join transfers t on t.payment_id = p.id where p.id = ${id} group by p.id`;
  return row!;
};
const tip = async () => Number((await database.db.sql<{ height: bigint }[]>`select height from tips where chain = 'BTC'`)[0]!.height);
const work = async () => {
  while ((await settleDuePayments(core.ctx, { limit: 200 })) > 0);
};
const FLOODED = { rows: MANY + 1, units: 600n * BigInt(MANY) + 7_777n };

test('a block that the database cannot take at once is written in small parts, and its payments are settled', async () => {
  const { ids, mined, follower } = await flood();
  await refuse('many');
  await follower.step();
  assert.equal(await tip(), mined.height);
  const { rows, units } = await read(ids.flooded);
  assert.deepEqual({ rows, units }, FLOODED);
  await work();
  assert.deepEqual(await read(ids.honest), { status: 'completed', received: DUE, rows: 1, units: DUE });
  assert.deepEqual(await read(ids.flooded), { status: 'processing', received: FLOODED.units, ...FLOODED });
});

test('a block whose writing is interrupted leaves nothing, and is read again in full', async () => {
  const { ids, mined, follower } = await flood();
  await refuse('last');
  await assert.rejects(follower.step(), /about to stop/);
  assert.equal(await tip(), mined.height - 1);
  assert.equal((await read(ids.flooded)).rows, 0);
  await database.db.sql`drop trigger refuse on transfers`;
  await follower.step();
  await follower.step();
  const { rows, units } = await read(ids.flooded);
  assert.deepEqual({ rows, units }, FLOODED);
  assert.equal((await read(ids.honest)).rows, 1);
});

test('a payment that cannot be settled delays no other, and is settled once it can be', async () => {
  const { sql } = database.db;
  const { ids, follower } = await flood();
  await refuse('many');
  await follower.step();
  await sql.unsafe(`
    create function refuse_one() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
    create trigger refuse_one before update on payments for each row when (old.id = '${ids.flooded}') execute function refuse_one()`);
  const [{ at: started }] = await sql<[{ at: Date }]>`select clock_timestamp() as at`;
  await settleDuePayments(core.ctx, { limit: 200 });
  assert.equal((await read(ids.honest)).status, 'completed');
  assert.equal((await read(ids.flooded)).status, 'pending');
  // Postponed, not lost.
  const due = await sql`select 1 from due_work where key = ${ids.flooded} and due_at > ${started}`;
  assert.equal(due.length, 1);
  await sql.unsafe('drop trigger refuse_one on payments; update due_work set due_at = clock_timestamp()');
  await work();
  assert.equal((await read(ids.flooded)).status, 'processing');
});

// Invariant: A payment whose facts cannot be true stops neither its chain nor other payments.
test('a payment whose facts cannot be true is not settled, and stops neither the chain nor other payments', async () => {
  const { sql } = database.db;
  const { ids, chain, mined, follower } = await flood();
  await sql`update quotes set until_at = from_at - interval '1 minute' where payment_id = ${ids.flooded}`;
  await follower.step();
  assert.equal(await tip(), mined.height);
  await settleDuePayments(core.ctx, { limit: 200 });
  assert.equal((await read(ids.honest)).status, 'completed');
  const { status, received, rows, units } = await read(ids.flooded);
  assert.deepEqual({ status, received, rows, units }, { status: 'pending', received: 0n, ...FLOODED });
  // Nor does it stop a reorganization.
  const taken = chain.undo(1);
  const again = [chain.mine(), chain.mine(taken)];
  while ((await tip()) < again[1]!.height) await follower.step();
  assert.equal(
    (await sql`select 1 from transfers where payment_id = ${ids.flooded} and block_hash = ${again[1]!.hash}`).length,
    FLOODED.rows,
  );
  await sql`update quotes set until_at = from_at + interval '15 minutes' where payment_id = ${ids.flooded}`;
  await sql`update due_work set due_at = clock_timestamp()`;
  await work();
  assert.equal((await read(ids.flooded)).status, 'processing');
});

test('too large means more memory, size or time than available; a lost connection or a violated constraint does not', () => {
  for (const code of ['54000', '53200', '57014', 'XX000']) assert.equal(isTooMuch(Object.assign(new Error('x'), { code })), true, code);
  assert.equal(isTooMuch(new RangeError('Invalid string length')), true);
  for (const code of ['23505', '40P01', '08006', 'CONNECTION_CLOSED'])
    assert.equal(isTooMuch(Object.assign(new Error('x'), { code })), false, code);
  assert.equal(isTooMuch(new Error('x')), false);
});
