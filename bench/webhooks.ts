/**
 * Deliveries per second compared with a bare POST loop with the same client and receiver (goal >= 0.5); the time from an event to its
 * first attempt (goal p99 <= 1 s); and what receivers that answer badly cost the others (goal p99 <= 1.5).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { openCore } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import type { Context } from '../src/context.ts';
import { startDeliveries } from '../src/deliveries/deliver.ts';
import { createLog } from '../src/log.ts';
import { createMerchant } from '../src/merchants/merchants.ts';
import { createEndpoint } from '../src/webhooks/endpoints.ts';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { startChild } from './kit.ts';

const COUNT = 4_000;
const ENDPOINTS = 8;
const AT_ONCE = 128;
const ROUNDS = 5;
const BAD_WAYS = ['500', '301', 'hang', 'drip', 'reset', 'cut', 'endless', '503', '404'];

const database = await testDatabase({ parent: '/var/tmp' });
const log = createLog('silent');
const core = await openCore(readConfig(testEnvironment(database.url, database.folder)), log);
const { ctx } = core;
const receiver = await startChild('bench/receiver.ts', {});
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const p99 = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;
const figures = async (): Promise<{ arrived: number; latenciesMs: number[] }> =>
  (await fetch(`${receiver.line}/figures`)).json() as Promise<{ arrived: number; latenciesMs: number[] }>;

let made = 0;
const PADDING = 'x'.repeat(1_100);
/** Events of as many payments, as a burst: all due at once, spread over the endpoints of the merchant. */
async function queue(context: Context, merchantId: string, endpointIds: readonly string[], count: number): Promise<void> {
  const first = made;
  made += count;
  await context.db.begin(async (tx) => {
    await tx`
      insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
      select 'evt_' || lpad(n::text, 24, '0'), ${merchantId}, 'live', 'pay_' || lpad(n::text, 24, '0'), 'payment.created', 1, convert_to(
        '{"id":"evt_' || lpad(n::text, 24, '0') || '","type":"payment.created","created_at":"' ||
        to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '","data":{"padding":"' || ${PADDING}::text || '"}}', 'UTF8'),
        clock_timestamp() from generate_series(${first}::int, ${first + count - 1}::int) as n`;
    await tx`
      insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at)
      select 'evt_' || lpad(n::text, 24, '0'), (${endpointIds as string[]}::text[])[1 + n % ${endpointIds.length}::int], ${merchantId}, 'live',
        'pay_' || lpad(n::text, 24, '0'), 1, clock_timestamp() from generate_series(${first}::int, ${first + count - 1}::int) as n`;
    await tx`select pg_notify('deliveries', '')`;
  });
}
type Shop = { merchantId: string; endpointIds: string[] };
async function openShop(context: Context, urls: readonly string[]): Promise<Shop> {
  const { merchantId } = await createMerchant(context, { name: 'Bench', plan: 'enterprise' });
  const endpointIds: string[] = [];
  for (const url of urls) {
    endpointIds.push((await createEndpoint(context, { merchantId, mode: 'live', url, events: ['*'], description: null })).endpointId);
  }
  return { merchantId, endpointIds };
}
const waiting = async (endpointIds: readonly string[]): Promise<number> => {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    select count(*)::int as n from deliveries where state = 'pending' and endpoint_id = any(${endpointIds as string[]}::text[])`;
  return row!.n;
};

const shop = await openShop(
  ctx,
  Array.from({ length: ENDPOINTS }, (_, i) => `${receiver.line}/ok/${i}`),
);
async function bareLoop(): Promise<number> {
  const body = Buffer.from(`{"id":"evt_${'0'.repeat(24)}","type":"payment.created","data":{"padding":"${PADDING}"}}`);
  const started = performance.now();
  let left = COUNT;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) {
        const url = `${receiver.line}/ok/0`;
        await ctx.outgoing.requestMerchantUrl({
          merchantId: 'mer_shop',
          url,
          method: 'POST',
          body,
          headers: {},
          timeoutMs: 10_000,
          maxReplyBytes: 16_384,
        });
      }
    }),
  );
  return (COUNT / (performance.now() - started)) * 1_000;
}
async function deliveries(): Promise<number> {
  await queue(ctx, shop.merchantId, shop.endpointIds, COUNT);
  const started = performance.now();
  const worker = startDeliveries(ctx);
  while (worker.stats().delivered < COUNT) await sleep(5);
  await worker.stop();
  const rate = (COUNT / (performance.now() - started)) * 1_000;
  if ((await waiting(shop.endpointIds)) > 0) throw new Error('not all were delivered');
  return rate;
}
await bareLoop();
await deliveries();
await ctx.db.sql`analyze`;
const runs: { bare: number; ours: number }[] = [];
for (let i = 0; i < ROUNDS; i++) runs.push({ bare: await bareLoop(), ours: await deliveries() });
const ratios = runs.map((run) => run.ours / run.bare);
console.log(`webhooks: ${COUNT} deliveries to ${ENDPOINTS} endpoints
  florin    ${median(runs.map((r) => r.ours)).toFixed(0)}/s
  baseline  ${median(runs.map((r) => r.bare)).toFixed(0)}/s, a bare POST loop with the same client
  ratio     rate ${median(ratios).toFixed(2)} (${ratios.map((r) => r.toFixed(2)).join(' ')})
  goal      rate >= 0.5`);

/** A steady stream of events to healthy endpoints of one service, and the time from each event to its arrival. */
async function trickle(side: { ctx: Context; shop: Shop }, seconds: number): Promise<number[]> {
  const { shop } = side;
  await figures();
  const end = performance.now() + seconds * 1_000;
  let sent = 0;
  while (performance.now() < end) {
    await queue(side.ctx, shop.merchantId, shop.endpointIds, 4);
    sent += 4;
    await sleep(20);
  }
  let latenciesMs: number[] = [];
  for (let tries = 0; latenciesMs.length < sent && tries < 200; tries++) {
    latenciesMs = [...latenciesMs, ...(await figures()).latenciesMs];
    await sleep(50);
  }
  if (latenciesMs.length < sent) throw new Error(`${sent - latenciesMs.length} of ${sent} did not arrive`);
  return latenciesMs;
}
// The same service twice, alone and beside bad receivers, alternating; bad receivers have a separate process.
const otherDatabase = await testDatabase({ parent: '/var/tmp' });
const otherCore = await openCore(readConfig(testEnvironment(otherDatabase.url, otherDatabase.folder)), log);
const badReceiver = await startChild('bench/receiver.ts', {});
const alone = { ctx, shop };
const beside = {
  ctx: otherCore.ctx,
  shop: await openShop(
    otherCore.ctx,
    Array.from({ length: ENDPOINTS }, (_, i) => `${receiver.line}/ok/${i}`),
  ),
};
for (const way of BAD_WAYS) {
  const bad = await openShop(beside.ctx, [`${badReceiver.line}/${way}`]);
  await queue(beside.ctx, bad.merchantId, bad.endpointIds, 1_000);
}
const burst = await openShop(beside.ctx, [`${badReceiver.line}/hang`]);
await queue(beside.ctx, burst.merchantId, burst.endpointIds, 100_000);
const measured: { alone: number; beside: number }[] = [];
for (let i = 0; i <= ROUNDS; i++) {
  const round = { alone: 0, beside: 0 };
  for (const [name, side] of [
    ['alone', alone],
    ['beside', beside],
  ] as const) {
    const worker = startDeliveries(side.ctx);
    await trickle(side, 1);
    round[name] = p99(await trickle(side, 5));
    await worker.stop();
  }
  // The first round warms up.
  if (i > 0) measured.push(round);
}
const worst = measured.map((round) => round.beside / round.alone);
console.log(`webhooks: from the event to its first attempt
  florin    p99 ${median(measured.map((round) => round.alone))} ms (${measured.map((round) => round.alone).join(' ')})
  goal      p99 <= 1000 ms
webhooks: ${BAD_WAYS.length} endpoints that answer badly and a burst of 100,000 events beside the healthy ones (${BAD_WAYS.join(', ')})
  florin    p99 ${median(measured.map((round) => round.beside))} ms
  baseline  p99 ${median(measured.map((round) => round.alone))} ms, the healthy ones alone
  ratio     p99 ${median(worst).toFixed(2)} (${worst.map((r) => r.toFixed(2)).join(' ')})
  goal      p99 <= 1.5`);
await badReceiver.stop();
await otherCore.close();
await otherDatabase.drop();
await receiver.stop();
await core.close();
await database.drop();
