/** Reads a block crafted to be as expensive as possible with the real follower into the real database, and settles what it pays. */
import { setImmediate } from 'node:timers/promises';
import { openCore } from '../../src/app.ts';
import { createCoreSource } from '../../src/chains/bitcoin/core-rpc.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { COIN, type NativeCoin } from '../../src/core/coin.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { lockAndSettle, settleDuePayments } from '../../src/settling/settle-payments.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { makeLivePayment } from '../../test/kit/payments.ts';
import { startChild } from '../kit.ts';

export type FloodedCoin = 'BTC' | 'LTC' | 'DASH' | 'DOGE';
/** Transactions with so many inputs and outputs each, all to one script, and an honest payment. */
export type Flood = {
  coin: FloodedCoin;
  script: string;
  units: string;
  honest: string;
  honestUnits: string;
  transactions: number;
  inputs: number;
  outputs: number;
};
export type Figures = {
  blockBytes: number;
  seconds: number;
  /** Above what was used before, at most. */
  memoryBytes: number;
  /** The longest time that nothing else could run, and how much of it this thread had a processor. */
  heldMs: number;
  heldCpuMs: number;
  transfers: number;
  outpoints: number;
  honest: string;
  flooded: string;
};

export const PRICE = { BTC: '97000', ETH: '2600', LTC: '100', DASH: '30', DOGE: '0.20' } as const;
/** The amount of both payments. */
export const CENTS = 1_000n;

/** A payment whose customer has chosen the coin, created as by the service except for the address. */
export async function openPayment(ctx: Context, coin: NativeCoin, merchantId: string, key: string, units: bigint): Promise<string> {
  const id = await makeLivePayment(ctx, { merchantId, amountUsdCents: CENTS, expiresInSeconds: 3_600 });
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [id], async () => {
      await tx`
        insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
        values (${id}, 1, ${merchantId}, ${coin}, ${key}, ${String(BigInt(Number(PRICE[coin]) * 100) * 1_000_000n)}, ${String(units)}, now(),
          now() + interval '15 minutes')`;
      await tx`
        insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
        values (${coin}, ${key}, ${key}, ${id}, ${merchantId}, 'wal_1', ${Number.parseInt(key.slice(-8, -4), 16)}, now())`;
    }),
  );
  return id;
}

/** Runs `work` and measures its memory and event loop delays. */
export async function watch(work: () => Promise<void>): Promise<Pick<Figures, 'seconds' | 'memoryBytes' | 'heldMs' | 'heldCpuMs'>> {
  (globalThis as { gc?: () => void }).gc?.();
  const idle = process.memoryUsage.rss();
  const started = performance.now();
  let watching = true;
  let most = idle;
  let heldMs = 0;
  let heldCpuMs = 0;
  const watcher = (async () => {
    let before = process.threadCpuUsage();
    for (let at = performance.now(); watching; ) {
      await setImmediate();
      const now = performance.now();
      const used = process.threadCpuUsage(before);
      heldMs = Math.max(heldMs, now - at);
      heldCpuMs = Math.max(heldCpuMs, (used.user + used.system) / 1_000);
      before = process.threadCpuUsage();
      at = now;
      most = Math.max(most, process.memoryUsage.rss());
    }
  })();
  await work();
  const seconds = (performance.now() - started) / 1000;
  watching = false;
  await watcher;
  return { seconds, memoryBytes: most - idle, heldMs, heldCpuMs };
}

/** One block of one coin, from the node to settled payments. */
export async function readFlood(coin: FloodedCoin, size: Pick<Flood, 'transactions' | 'inputs' | 'outputs'>): Promise<Figures> {
  const log = createLog('fatal');
  const database = await testDatabase({ parent: '/var/tmp' });
  const environment = { PRICES: `static:${coin}=${PRICE[coin]}`, [`${coin}_CONFIRMATIONS`]: '1', LOG_LEVEL: 'fatal' };
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder, environment)), log);
  const { ctx } = core;
  await ctx.prices.start();
  const { merchantId } = await createMerchant(ctx, { name: 'Flooded' });
  const [script, honest] = [`76a914${'00'.repeat(18)}000188ac`, `76a914${'00'.repeat(18)}000288ac`];
  const due = (CENTS * 100_000_000n) / BigInt(Number(PRICE[coin]) * 100) + 1n;
  const ids = [await openPayment(ctx, coin, merchantId, script, due), await openPayment(ctx, coin, merchantId, honest, due)];
  const flood: Flood = { ...size, coin, script, honest, units: String(COIN[coin].dustUnits), honestUnits: String(due) };
  const node = await startChild('bench/poison/node.ts', {}, [JSON.stringify(flood)]);
  const url = `http://127.0.0.1:${node.line}`;
  const source = createCoreSource({ coin, network: 'regtest', url, outgoing: ctx.outgoing, log, clock: ctx.clock });
  try {
    const follower = createFollower(ctx, source);
    await follower.step();
    const body = Buffer.from('{"id":0,"method":"grow","params":[]}');
    const grown = await ctx.outgoing.request({ url, method: 'POST', body, timeoutMs: 30_000, maxReplyBytes: 1_000 });
    const taken = await watch(async () => {
      await follower.step();
      while ((await settleDuePayments(ctx, { limit: 200 })) > 0);
    });
    const [row] = await ctx.db.sql<{ transfers: number; outpoints: number }[]>`
      select (select count(*)::int from transfers) as transfers, (select count(*)::int from spent_outpoints) as outpoints`;
    const statuses = await ctx.db.sql<{ id: string; status: string }[]>`select id, status from payments`;
    const [flooded, paid] = ids.map((id) => statuses.find((one) => one.id === id)!.status);
    const blockBytes = JSON.parse(Buffer.from(grown.body).toString()).result;
    return { blockBytes, ...taken, ...row!, flooded: flooded!, honest: paid! };
  } finally {
    source.close();
    await node.stop();
    await ctx.prices.stop();
    await core.close();
    await database.drop();
  }
}

if (process.argv[1] === import.meta.filename) {
  const [coin, size] = process.argv.slice(2) as [FloodedCoin, string];
  process.stdout.write(`${JSON.stringify(await readFlood(coin, JSON.parse(size)))}\n`);
}
