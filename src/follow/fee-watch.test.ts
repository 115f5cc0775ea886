/** How often the fee of a transfer is asked for, and how long its answer counts. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import { ChainError, type ChainSource, type GasFee, type NamedSource } from '../chains/chain-source.ts';
import { readConfig } from '../config.ts';
import type { Context } from '../context.ts';
import { feeCentsOf, readLiveFees } from '../payments/customer-view.ts';
import { createFeeWatch } from './contract-watch.ts';

const GWEI = 10n ** 9n;
const MINUTE_MS = 60_000;

async function install(t: TestContext) {
  const database = await testDatabase();
  const prices = { PRICES: 'static:ETH=2000.00,USDC=1.00' };
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder, { LOG_LEVEL: 'silent', ...prices })));
  t.after(async () => {
    await core.close();
    await database.drop();
  });
  const time = { ms: 0 };
  const contextAt = (): Context => ({ ...core.ctx, clock: { now: core.ctx.clock.now, monotonicMs: () => time.ms } });
  const asked: string[] = [];
  const source = (name: string, gasFee: (() => GasFee) | null): NamedSource => {
    const ask = async () => {
      asked.push(name);
      return gasFee!();
    };
    return { name, trust: 'claimed', follows: true, source: (gasFee ? { gasFee: ask } : {}) as unknown as ChainSource };
  };
  return { sql: database.db.sql, contextAt, time, asked, source };
}
const away = (): GasFee => {
  throw new ChainError('outage', 'it is away');
};

test('the fee is asked for every ten minutes, of the next source if one fails, and counts for an hour', async (t) => {
  const { sql, contextAt, time, asked, source } = await install(t);
  const ctx = contextAt();
  let gasPrice = 10n * GWEI;
  const sources = [source('old', null), source('away', away), source('good', () => ({ gasPrice, dataFee: 5n * 10n ** 13n }))];
  const watch = createFeeWatch(ctx, { coin: 'USDC@base', sources });
  const fee = async () => feeCentsOf('USDC@base', await readLiveFees(contextAt()));

  await watch();
  assert.deepEqual(asked, [], 'nothing was read yet');
  await sql`insert into tips (chain, height, hash, scanned_through) values ('base', 1, 'a', clock_timestamp())`;
  assert.equal(await fee(), 1, 'the usual fee');
  await watch();
  await watch();
  assert.deepEqual(asked, ['away', 'good']);
  // 65,000 gas at 10 gwei are 0.00065 ETH, 0.00005 are added for its bytes: 1.40 US dollars.
  assert.equal(await fee(), 140);
  gasPrice += 1_000_000n;
  time.ms += 10 * MINUTE_MS - 1;
  await watch();
  assert.equal(asked.length, 2);
  // As ten minutes later.
  time.ms += 1;
  await sql`update tips set fee_at = fee_at - interval '10 minutes'`;
  await watch();
  assert.equal(asked.length, 4);
  assert.equal(await fee(), 141, 'less than a cent more is a cent');
  await createFeeWatch(contextAt(), { coin: 'USDC@base', sources })();
  assert.equal(asked.length, 4, 'not again after a restart');
  await sql`update tips set fee_at = fee_at - interval '1 hour'`;
  assert.equal(await fee(), 1, 'an old fee says nothing');
  assert.deepEqual(
    (['BTC', 'ETH', 'USDC@polygon'] as const).map((coin) => feeCentsOf(coin, new Map())),
    [null, 30, 1],
  );
});

test('what was read is kept for half a minute, however many pages are shown', async (t) => {
  const { sql, contextAt, time } = await install(t);
  const ctx = contextAt();
  const fee = async () => (await readLiveFees(ctx)).get('USDC@ethereum');
  await sql`
    insert into tips (chain, height, hash, scanned_through, gas_price, data_fee, fee_at)
    values ('ETH', 1, 'a', clock_timestamp(), ${String(GWEI)}::numeric, 0, clock_timestamp())`;
  assert.equal(await fee(), 13);
  await sql`update tips set gas_price = gas_price * 2`;
  time.ms += 29_000;
  assert.equal(await fee(), 13);
  time.ms += 1_000;
  assert.equal(await fee(), 26);
});
