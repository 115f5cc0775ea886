/** What a follower records when it cannot work: a failing block, a node without peers, a chain that an operator releases. */
// Invariant: Nothing expires while a node is cut off; transfers mined in time count.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createAdversaryChain, createAdversarySource, type OnChain } from '../../test/kit/adversary.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { makeLivePayment } from '../../test/kit/payments.ts';
import { openCore } from '../app.ts';
import { ChainError, type ChainSource } from '../chains/chain-source.ts';
import { joinSources } from '../chains/sources.ts';
import { readConfig } from '../config.ts';
import type { Context } from '../context.ts';
import { readServiceReadiness } from '../http/health.ts';
import { readMetrics } from '../http/metrics.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { readUnreachable } from '../readiness/coin-health.ts';
import { settleDuePayments } from '../settling/settle-payments.ts';
import { readChainStatus, releaseChain } from './chain-acts.ts';
import { createFollower } from './follow.ts';

const MINUTE = 60_000;

/** A follower of a chain whose newest block has the given age, on an install with one operator. */
async function install(t: TestContext, { binding = false, peers = () => 8 }: { binding?: boolean; peers?: () => number } = {}) {
  const database = await testDatabase();
  const core = await openCore(
    readConfig(
      testEnvironment(database.url, database.folder, { LOG_LEVEL: 'silent', SMTP_URL: 'smtp://127.0.0.1:9', MAIL_FROM: 'a@b.example' }),
    ),
  );
  t.after(async () => {
    await core.close();
    await database.drop();
  });
  await core.ctx.prices.start();
  const { sql } = database.db;
  let blockTime = Date.now();
  const chain = createAdversaryChain({ height: 160, now: () => new Date(blockTime) });
  let fails: (call: string) => void = () => {};
  const told = createAdversarySource({ chain, coin: 'BTC', interrupt: async (call) => fails(call) });
  const source: ChainSource = { ...told, health: async () => ({ ...(await told.health()), peers: peers() }) };
  const { log, clock } = core.ctx;
  const joined = joinSources({
    coin: 'BTC',
    network: 'regtest',
    sources: [{ name: 'node', source, follows: true, trust: 'own' }],
    log,
    clock,
  });
  let monotonicMs = 0;
  const ctx: Context = {
    ...core.ctx,
    chains: new Map([['bitcoin', joined]]),
    clock: { now: clock.now, monotonicMs: () => monotonicMs },
  };
  const { merchantId } = await createMerchant(ctx, { name: 'Shop' });
  await sql`insert into users (id, name, email, operator) values ('usr_1', 'Olga', 'olga@shop.example', true)`;
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values ('wal_1', ${merchantId}, 'BTC', 'testnet', 'k', 'k', 'p2wpkh', 'm')`;
  const follower = createFollower(ctx, source, { binding });
  return {
    ctx,
    sql,
    chain,
    merchantId,
    follower,
    failAt: (act: (call: string) => void) => (fails = act),
    pass: (ms: number) => (monotonicMs += ms),
    mineAt: (at: number) => (blockTime = at),
  };
}
const scanned = async (sql: Awaited<ReturnType<typeof install>>['sql']) =>
  (await sql<{ at: Date }[]>`select scanned_through as at from tips`)[0]!.at.getTime();

// Invariant: A block that cannot be read is reported, also to operators.
test('a follower that fails three times at one block is reported with the reason, once by email, until it continues', async (t) => {
  const { ctx, sql, chain, follower, failAt } = await install(t);
  await follower.step();
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
  const { hash } = chain.mine();
  failAt((call) => {
    if (call === 'fetchBlock') throw new Error('total size of jsonb array elements exceeds the maximum');
  });
  for (let i = 0; i < 2; i++) await assert.rejects(follower.step());
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, ['BTC: total size of jsonb array elements exceeds the maximum']);
  assert.equal((await sql`select 1 from notices`).length, 0);
  for (let i = 0; i < 3; i++) await assert.rejects(follower.step());
  const text = /^BTC: block 161.* could not be read 5 times: total size of jsonb/;
  assert.match((await readServiceReadiness(ctx)).reasons.join(), text);
  assert.match(await readMetrics(ctx), /florin_chain_block_failures\{coin="BTC"\} 5/);
  const [status] = await readChainStatus(ctx, { coin: null });
  assert.deepEqual([status!.failing_block?.height, status!.behind, status!.cursor?.height], [161, 1, 160]);
  const mails = await sql<{ recipient: string; subject: string }[]>`select recipient, subject from mails`;
  assert.deepEqual([mails.length, mails[0]?.recipient], [1, 'olga@shop.example']);
  assert.match(mails[0]!.subject, /^Block 161 of BTC cannot be read/);
  failAt(() => {});
  await follower.step();
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
  assert.match(await readMetrics(ctx), /florin_chain_block_failures\{coin="BTC"\} 0/);
  assert.equal((await sql<{ hash: string }[]>`select hash from tips`)[0]!.hash, hash);
});

test('a node that does not answer, has never answered, or has pruned the next block: readyz says so at once', async (t) => {
  const { ctx, chain, follower, failAt } = await install(t);
  failAt(() => {
    throw new ChainError('outage', 'the BTC node refuses user and password');
  });
  await assert.rejects(follower.step());
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, [
    'BTC: the follower has not started: the BTC node refuses user and password',
  ]);
  failAt(() => {});
  await follower.step();
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
  chain.mine();
  failAt((call) => {
    if (call === 'fetchBlock') throw new ChainError('pruned', 'the BTC node has pruned that block');
  });
  await assert.rejects(follower.step());
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, ['BTC: the BTC node has pruned that block']);
});

test('while blocks are read that a pruned node did not have, readyz says how far it is and no longer what it waited for, also when they are few and slow', async (t) => {
  const { ctx, sql, chain, follower, failAt, pass } = await install(t);
  await follower.step();
  for (const [blocks, slowMs] of [
    [40, 0],
    [20, 1_000],
  ] as const) {
    for (let i = 0; i < blocks; i++) chain.mine();
    failAt((call) => {
      if (call === 'fetchBlock') throw new ChainError('pruned', 'the BTC node has pruned that block');
    });
    await assert.rejects(follower.step());
    assert.ok((await readServiceReadiness(ctx)).reasons.includes('BTC: the BTC node has pruned that block'));
    await sql`update tips set looked_at = looked_at - interval '1 minute'`;
    let fetched = 0;
    const during: string[][] = [];
    failAt(async (call) => {
      if (call !== 'fetchBlock') return;
      pass(slowMs);
      if (++fetched === blocks) during.push((await readServiceReadiness(ctx)).reasons);
    });
    await follower.step();
    assert.equal(during.length, 1);
    assert.match(during[0]!.join('; '), /^BTC: reading missed blocks \d+%, \d+ left$/);
    assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
  }
});

test('a coin whose source has not been read for a minute is not offered; after half a minute readyz says so', async (t) => {
  const { ctx, sql, follower } = await install(t);
  await follower.step();
  const age = (seconds: number) => sql`update tips set looked_at = looked_at - ${seconds} * interval '1 second'`;
  const offered = async () => !(await readUnreachable(ctx, sql)).has('BTC');
  await age(30);
  assert.match((await readServiceReadiness(ctx)).reasons.join(), /^BTC: its source was read last 3\d s ago$/);
  assert.equal(await offered(), true);
  await age(31);
  assert.match((await readUnreachable(ctx, sql)).get('BTC')!.reason, /has not answered for a minute/);
  await follower.step();
  assert.deepEqual([await offered(), (await readServiceReadiness(ctx)).reasons], [true, []]);
});

test('a node without peers: nothing of its coin expires, readyz says why, and payments made in time count when it is back', async (t) => {
  let peers = 8;
  const { ctx, sql, chain, merchantId, follower, pass, mineAt } = await install(t, { binding: true, peers: () => peers });
  await follower.step();
  pass(MINUTE);
  await follower.step();
  const id = await makeLivePayment(ctx, { merchantId, amountUsdCents: 5_000n, expiresInSeconds: 3_600 });
  const key = `0014${'ab'.repeat(20)}`;
  // The window ended five minutes ago; the chain has not been checked for the last hour.
  const ended = Date.now() - 5 * MINUTE;
  const created = new Date(ended - 60 * MINUTE);
  await sql`update payments set created_at = ${created}, expires_at = ${new Date(ended)}, due_at = clock_timestamp() where id = ${id}`;
  await sql`
    insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
    values (${id}, 1, ${merchantId}, 'BTC', ${key}, 9700000000000, 51547, ${created}, ${new Date(ended)})`;
  await sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    values ('BTC', ${key}, ${key}, ${id}, ${merchantId}, 'wal_1', 0, ${created})`;
  await sql`update tips set scanned_through = ${created}, watched_since = ${new Date(created.getTime() - MINUTE)}`;
  peers = 0;
  await follower.step();
  await settleDuePayments(ctx, { limit: 10 });
  const status = async () =>
    (await sql<{ status: string; exceptions: string[] }[]>`select status, exceptions from payments where id = ${id}`)[0]!;
  assert.equal((await status()).status, 'pending');
  assert.equal(await scanned(sql), created.getTime());
  assert.match((await readServiceReadiness(ctx)).reasons.join(), /BTC: the node has no peers; nothing expires meanwhile/);
  // It finds its peers again, and with them the block that was mined nine minutes before the end.
  peers = 8;
  await follower.step();
  await settleDuePayments(ctx, { limit: 10 });
  assert.equal((await status()).status, 'pending', 'what it missed comes first');
  mineAt(ended - 9 * MINUTE);
  const txid = chain.nameOf('t');
  const tx: OnChain = { txid, kind: 'output', inputs: [`${txid}-a:0`], outputs: [{ key, units: 60_000n }] };
  chain.mine([tx]);
  mineAt(Date.now());
  chain.mine();
  await follower.step();
  pass(MINUTE);
  await follower.step();
  await settleDuePayments(ctx, { limit: 10 });
  const done = await status();
  assert.deepEqual(
    [['processing', 'completed'].includes(done.status), done.exceptions.includes('late')],
    [true, false],
    JSON.stringify(done),
  );
  assert.ok((await scanned(sql)) > ended);
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
});

test('without peers on a test network, payments expire as usual', async (t) => {
  const { ctx, sql, follower } = await install(t, { peers: () => 0 });
  await follower.step();
  await sql`update tips set scanned_through = scanned_through - interval '1 hour'`;
  await follower.step();
  assert.ok(Date.now() - (await scanned(sql)) < 50 * MINUTE);
  assert.deepEqual((await readServiceReadiness(ctx)).reasons, []);
});

test('an operator releases a reorganization that is too deep: the follower continues with what its node shows, and this is recorded', async (t) => {
  const { ctx, sql, chain, follower } = await install(t);
  await follower.step();
  for (let i = 0; i < 150; i++) chain.mine();
  await follower.step();
  await assert.rejects(releaseChain(ctx, { coin: 'BTC', reason: 'to see' }), {
    message: 'BTC is not on hold. Nothing to release. Run "florin chain status" to see what its sources report.',
  });
  assert.equal((await sql`select 1 from chain_releases`).length, 0);
  chain.undo(149);
  for (let i = 0; i < 160; i++) chain.mine();
  await assert.rejects(follower.step(), /no common block/);
  const [held] = await readChainStatus(ctx, { coin: 'BTC' });
  assert.match(held!.holds.join(), /deeper than this coin allows/);
  const { lifted } = await releaseChain(ctx, { coin: 'BTC', reason: 'the network was split' });
  assert.equal(lifted.length, 1);
  await follower.step();
  const [status] = await readChainStatus(ctx, { coin: 'BTC' });
  assert.deepEqual([status!.cursor?.height, status!.behind], [chain.tip().height, 0]);
  assert.equal(status!.released?.reason, 'the network was split');
  const [line] = await sql<{ action: string; object: string; after: { reason: string } }[]>`select action, object, after from audit_log`;
  assert.deepEqual([line!.action, line!.object, line!.after.reason], ['chain.released', 'BTC', 'the network was split']);
  // The recorded reorganization can be released too.
  assert.match((await releaseChain(ctx, { coin: 'BTC', reason: 'looked' })).lifted.join(), /a reorgani[sz]ation of \d+ blocks was seen/);
  assert.equal((await sql`select 1 from chain_guard where reorg_depth is not null`).length, 0);
});
