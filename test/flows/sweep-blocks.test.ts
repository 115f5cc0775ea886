/** Blocks that are searched for transactions of sweeps, on a node that removes old ones. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hexToBytes } from '@noble/hashes/utils.js';
import { Transaction } from '@scure/btc-signer';
import { ChainError, type JoinedSource } from '../../src/chains/chain-source.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { getSweep } from '../../src/signing/signing-files.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(() => app?.stop());

const tx = new Transaction({ allowUnknownOutputs: true });
tx.addOutput({ script: hexToBytes(`0014${'ab'.repeat(20)}`), amount: 1_000n });
tx.addInput({ txid: '01'.repeat(32), index: 0, finalScriptWitness: [new Uint8Array(64)] });
const block = (height: number) => ({ height, hash: `b${height}`, parent: `b${height - 1}`, time: new Date(0) });

test('a sweep whose blocks were pruned says so and holds up nothing; other sweeps are searched from where they were', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const walletId = 'wal_test';
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values (${walletId}, ${app.merchant.merchantId}, 'BTC', 'mainnet', 'k', 'k', 's', 'm')`;
  const insert = (id: string, height: number) => sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by, read_height, read_hash)
    values (${id}, ${app.merchant.merchantId}, ${walletId}, 'BTC', 'sent', '{}', 'bc1', 1, 1, 1, 'test', ${height}, ${`b${height}`})`;
  await insert('swp_old', 100);
  await insert('swp_new', 4_950);
  await insert('swp_unsent', 100);
  for (const [id, sentAt] of [
    ['swp_old', new Date(0)],
    ['swp_unsent', null],
  ] as const)
    await sql`
      insert into signed_transactions (file_id, round, number, txid, raw, fee_units, sent_at)
      values (${id}, 0, 0, ${id === 'swp_old' ? tx.id : 'ab'}, ${Buffer.from(tx.toBytes(true, true))}, 1, ${sentAt})`;
  await sql`
    insert into signing_inputs (file_id, number, chain, input, coin, payment_id, ref, units)
    values ('swp_old', 0, 'BTC', ${`${'01'.repeat(32)}:0`}, 'BTC', 'pay_0', 'ref', 1)`;
  const searched: number[] = [];
  let depth: { best: string; confirmations: number } | null = null;
  const chain = {
    coin: 'BTC',
    tip: async () => block(5_000),
    health: async () => ({ txindex: false }),
    txState: async () => ({ state: 'unknown', blockHash: null }),
    outlet: {
      send: async () => {},
      depthOf: async ([outpoint]: string[]) => (outpoint === `${tx.id}:0` ? depth : null),
    },
    blockAt: async (height: number) => block(height),
    block: async (hash: string) => block(Number(hash.slice(1))),
    fetchBlock: async (hash: string) => {
      const height = Number(hash.slice(1));
      if (height < 4_700) throw new ChainError('pruned', `block ${hash} was pruned`);
      searched.push(height);
      return { ref: block(height), scan: () => ({ block: block(height), sightings: [], conflicts: [] }) };
    },
  } as unknown as JoinedSource;
  const heights = async () =>
    (await sql<{ height: number }[]>`select read_height::int as height from signing_files order by id`).map(({ height }) => height);
  const show = async (id: string) => (await getSweep(ctx, { merchantId: app.merchant.merchantId, id })).sweep;
  let seen = await followSweeps(ctx, chain, null);
  assert.deepEqual(await heights(), [4_950, 4_900, 4_900]);
  for (let i = 0; i < 12; i++) seen = await followSweeps(ctx, chain, seen);
  assert.deepEqual(await heights(), [5_000, 5_000, 5_000]);
  assert.deepEqual([searched[0], searched.at(-1), searched.length], [4_901, 5_000, 100]);
  // Later rounds keep the report, and what was not sent before cannot be in one of those blocks.
  assert.match((await show('swp_old')).failure ?? '', /no source has the blocks below 4900 any more/);
  assert.deepEqual([(await show('swp_new')).failure, (await show('swp_unsent')).failure], [null, null]);

  // The node still sees the output of the transaction, which says in which block it is.
  depth = { best: 'b5000', confirmations: 401 };
  assert.equal(await followSweeps(ctx, chain, 'another tip'), 'b5000');
  const { sweep, transactions } = await getSweep(ctx, { merchantId: app.merchant.merchantId, id: 'swp_old' });
  assert.deepEqual([transactions[0]!.blockHeight, sweep.state, sweep.failure], [4_600, 'confirmed', null]);
  assert.equal((await getSweep(ctx, { merchantId: app.merchant.merchantId, id: 'swp_unsent' })).transactions[0]!.blockHeight, null);
});

test('a transaction that is mined under another ID, because somebody wrote its signatures differently, is the one that was sent', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const walletId = 'wal_old_form';
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values (${walletId}, ${merchantId}, 'DOGE', 'mainnet', 'd', 'd', 'p2pkh', 'm')`;
  const written = (signature: number, units = 1_000n) => {
    const made = new Transaction({ allowUnknownOutputs: true, allowUnknownInputs: true, disableScriptCheck: true });
    made.addOutput({ script: hexToBytes(`76a914${'cd'.repeat(20)}88ac`), amount: units });
    made.addInput({ txid: '02'.repeat(32), index: 1, finalScriptSig: new Uint8Array(70).fill(signature) });
    return made;
  };
  const [sent, changed, other] = [written(0), written(1), written(2, 999n)];
  const spender = { ours: changed, theirs: other };
  const play = async (id: string, who: 'ours' | 'theirs') => {
    await sql`
      insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by, read_height, read_hash)
      values (${id}, ${merchantId}, ${walletId}, 'DOGE', 'sent', '{}', 'D1', 1, 1, 1, 'test', 99, 'b99')`;
    await sql`
      insert into signed_transactions (file_id, round, number, txid, raw, fee_units, sent_at)
      values (${id}, 0, 0, ${sent.id}, ${Buffer.from(sent.toBytes(true, true))}, 1, clock_timestamp())`;
    const outpoint = `${'02'.repeat(32)}:1`;
    await sql`
      insert into signing_inputs (file_id, number, chain, input, coin, payment_id, ref, units)
      values (${id}, 0, 'DOGE', ${outpoint}, 'DOGE', 'pay_0', 'ref', 1000)`;
    const mined = spender[who];
    const at = (txid: string) => ({ state: txid === mined.id ? 'mined' : 'unknown', blockHash: txid === mined.id ? 'b100' : null });
    let tip = 120;
    const chain = {
      coin: 'DOGE',
      tip: async () => block(tip),
      health: async () => ({ txindex: true }),
      txState: async (txid: string) => at(txid),
      blockAt: async (height: number) => block(height),
      block: async (hash: string) => block(Number(hash.slice(1))),
      outlet: {
        send: async () => {
          throw new ChainError('refused', 'missing-inputs');
        },
        areUnspent: async () => [false],
        readTransactions: async (asked: readonly unknown[]) => asked.map(() => mined.toBytes(true, true)),
      },
      fetchBlock: async (hash: string) => {
        const ref = block(Number(hash.slice(1)));
        const conflicts = hash === 'b100' ? [{ outpoint, txid: mined.id }] : [];
        return { ref, scan: () => ({ block: ref, sightings: [], conflicts }) };
      },
    } as unknown as JoinedSource;
    let seen: string | null = null;
    for (let round = 0; round < 14; round++) {
      await sql`update signed_transactions set sent_at = sent_at - interval '61 seconds' where file_id = ${id}`;
      seen = await followSweeps(ctx, chain, seen);
      tip += 20;
    }
    const { sweep, transactions } = await getSweep(ctx, { merchantId, id });
    await sql`delete from signing_inputs where file_id = ${id}`;
    return [sweep.state, transactions[0]!.txid];
  };
  assert.deepEqual(await play('swp_changed', 'ours'), ['confirmed', changed.id]);
  assert.deepEqual((await play('swp_robbed', 'theirs'))[0], 'failed', 'one that pays something else is another transaction');
});
