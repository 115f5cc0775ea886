/** Liveness, readiness, and the metrics for an operator's monitoring. */

import type { Context } from '../context.ts';
import { DOUBTS } from '../core/certainty.ts';
import { COIN, COINS, type Coin, chainCode, type Family } from '../core/coin.ts';
import { GUARD_CODES } from '../core/guard.ts';
import { readUnwatched } from '../follow/unwatched.ts';
import { requestLogCounts } from '../keys/requests.ts';
import { explainTrouble, readGuards, readTroubles } from '../payments/chain-state.ts';
import { readDeliveryQueue } from '../webhooks/queue.ts';

export const isAlive = (): object => ({ status: 'ok' });

/** Followers poll every few seconds: one that has not polled for this long is broken or not running. */
const UNREAD_SECONDS = 25;
/** Polls that are never complete are one problem that nothing else reports. */
const INCOMPLETE_SECONDS = 180;

/** Whether the service can work: database, followers, prices of the payable coins. Reasons say what is missing. */
export async function readReadiness(
  ctx: Context,
): Promise<{ ready: boolean; reasons: string[]; holds: string[]; warnings: string[]; followers: object }> {
  const reasons: string[] = [];
  // On a chain on hold nothing completes, but payments are created, detected and reported as usual, so requests need no rerouting.
  const holds: string[] = [];
  const warnings: string[] = [];
  const followers: Record<string, object> = {};
  try {
    const tips = await ctx.db.sql<{ coin: string; height: bigint; lagSeconds: number; unreadSeconds: number; holdReason: string | null }[]>`
      select coin, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as "lagSeconds",
        extract(epoch from clock_timestamp() - looked_at)::float8 as "unreadSeconds", hold_reason as "holdReason" from tips`;
    const troubles = await readTroubles(ctx);
    for (const coin of COINS.filter((c) => ctx.chains.get(COIN[c].chain)?.follows)) {
      const tip = tips.find((row) => row.coin === chainCode(coin));
      const trouble = troubles.find((one) => one.coin === coin);
      const found = trouble ? explainTrouble(trouble) : [];
      for (const { text, grave } of found)
        (grave ? reasons : warnings).push(`${coin}: ${tip ? text : `the follower has not begun: ${text}`}`);
      if (!tip && found.length === 0) reasons.push(`${coin}: the follower has not begun`);
      if (tip && tip.unreadSeconds > UNREAD_SECONDS)
        reasons.push(`${coin}: its source was read last ${Math.round(tip.unreadSeconds)} s ago`);
      else if (tip && tip.lagSeconds > INCOMPLETE_SECONDS && !trouble?.doubt)
        reasons.push(`${coin}: last scanned ${Math.round(tip.lagSeconds)} s ago`);
      if (tip?.holdReason) reasons.push(`${coin}: ${tip.holdReason}`);
      if (tip) followers[coin] = { height: Number(tip.height), lag_seconds: Math.round(tip.lagSeconds) };
      const price = ctx.prices.quotable(COIN[coin].asset);
      if (!('price' in price)) reasons.push(`${coin}: ${price.reason}`);
    }
    for (const coin of await listUnreadWallets(ctx))
      warnings.push(`${coin}: a wallet is set up, but no source is connected, so it cannot be paid`);
    for (const { coin, from, to, failure } of await readUnwatched(ctx)) {
      if (from === null || to === null) continue;
      const rest = `${coin}: blocks ${Math.max(1, to)} to ${from - 1} are still to be read for addresses given before`;
      (failure === null ? warnings : reasons).push(failure === null ? rest : `${rest}: ${failure}`);
    }
    for (const { coin, binding, reasons: found, aboveReason, sources } of await readGuards(ctx)) {
      (binding ? holds : warnings).push(...found.map((reason) => `${coin}: ${reason}`));
      // Holds only larger payments.
      if (aboveReason !== null) warnings.push(`${coin}: ${aboveReason}`);
      const without = sources.filter((source) => source.state !== 'ok').length;
      if (without > 0 && sources.length > 1) warnings.push(`${coin}: ${without} of ${sources.length} sources have no vote`);
    }
  } catch {
    reasons.push('the database does not answer');
  }
  return { ready: reasons.length === 0, reasons, holds, warnings, followers };
}

/** Coins with a wallet and without a source: customers cannot choose them. */
async function listUnreadWallets(ctx: Context): Promise<Coin[]> {
  const rows = await ctx.db.sql<{ coin: Family }[]>`select distinct coin from wallets where active`;
  return COINS.filter((coin) => rows.some((row) => row.coin === COIN[coin].family) && !ctx.chains.get(COIN[coin].chain)?.follows);
}

/** Prometheus text format. */
export async function readMetrics(ctx: Context): Promise<string> {
  const queue = await readDeliveryQueue(ctx);
  const [due] = await ctx.db.sql<{ payments: bigint; blocks: bigint; outages: bigint }[]>`
    select (select count(*) from payments where due_at <= clock_timestamp()) as payments, (select count(*) from due_work where kind = 'settle') as blocks,
      (select count(*) from payment_outages where ended_at is null) as outages`;
  const tips = await ctx.db.sql<{ coin: string; height: bigint; lag: number }[]>`
    select coin, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as lag from tips`;
  const [guards, troubles] = await Promise.all([readGuards(ctx), readTroubles(ctx)]);
  const sources = guards.flatMap(({ coin, sources: all }) =>
    all.map((source) => ({ ...source, labels: `{coin="${coin}",source="${source.name.replace(/[\\"\n]/g, '')}"}` })),
  );
  const memory = process.memoryUsage();
  const lines = [
    ['florin_deliveries_due', 'gauge', 'Webhook deliveries due now', [['', queue.due]]],
    ['florin_deliveries_in_flight', 'gauge', 'Webhook deliveries leased by a worker', [['', queue.inFlight]]],
    ['florin_deliveries_oldest_seconds', 'gauge', 'Age of the oldest due delivery', [['', queue.oldestSeconds]]],
    [
      'florin_delivery_attempts_total',
      'counter',
      'Attempts of webhook deliveries by outcome',
      queue.attempts.map((a) => [`{outcome="${a.outcome}"}`, a.attempts]),
    ],
    ['florin_webhook_endpoints_off', 'gauge', 'Webhook endpoints that were switched off because they failed', [['', queue.endpointsOff]]],
    ['florin_payments_due', 'gauge', 'Payments due to be settled', [['', Number(due!.payments)]]],
    ['florin_settle_queue', 'gauge', 'Payments queued by followers', [['', Number(due!.blocks)]]],
    ['florin_chain_height', 'gauge', 'Height scanned', tips.map((t) => [`{coin="${t.coin}"}`, Number(t.height)])],
    ['florin_chain_lag_seconds', 'gauge', 'Time since the last complete scan', tips.map((t) => [`{coin="${t.coin}"}`, t.lag])],
    [
      'florin_chain_failures',
      'gauge',
      'Rounds of a follower that failed one after the other',
      troubles.map((t) => [`{coin="${t.coin}"}`, t.failures]),
    ],
    [
      'florin_chain_block_failures',
      'gauge',
      'How often a follower failed at the block it is at, from three times on',
      troubles.map((t) => [`{coin="${t.coin}"}`, t.failingBlock?.failures ?? 0]),
    ],
    [
      'florin_chain_uncertain',
      'gauge',
      'Why nothing expires: what the source of a coin does not show may have happened all the same',
      troubles.flatMap((t) => DOUBTS.map((code) => [`{coin="${t.coin}",reason="${code}"}`, t.doubt?.code === code ? 1 : 0] as const)),
    ],
    [
      'florin_chain_held',
      'gauge',
      'Whether completion is held on the chain',
      guards.map((g) => [`{coin="${g.coin}"}`, g.binding && g.reasons.length > 0 ? 1 : 0]),
    ],
    [
      'florin_chain_unhealthy',
      'gauge',
      'What the chain-health guard found',
      guards.flatMap((g) => GUARD_CODES.map((code) => [`{coin="${g.coin}",reason="${code}"}`, g.codes.includes(code) ? 1 : 0] as const)),
    ],
    ['florin_chain_source_up', 'gauge', 'Whether a source has a vote', sources.map((s) => [s.labels, s.state === 'ok' ? 1 : 0])],
    [
      'florin_chain_source_height',
      'gauge',
      'Tip of a source',
      sources.flatMap((s) => (s.height === null ? [] : [[s.labels, s.height] as const])),
    ],
    [
      'florin_chain_answers_unusable_total',
      'counter',
      'Answers of a source, in this process, that were too large, too late or broken, and that another answer replaced',
      [...ctx.chains].flatMap(([coin, chain]) =>
        chain.sources.flatMap(({ name, source }) =>
          [...(source.unusable?.() ?? [])].map(
            ([method, answers]) => [`{coin="${coin}",source="${name.replace(/[\\"\n]/g, '')}",method="${method}"}`, answers] as const,
          ),
        ),
      ),
    ],
    [
      'florin_price_usable',
      'gauge',
      'Whether live quotes can be made',
      COINS.map((coin) => [`{coin="${coin}"}`, 'price' in ctx.prices.quotable(COIN[coin].asset) ? 1 : 0]),
    ],
    [
      'florin_merchants_unpayable',
      'gauge',
      'Merchants whose customers met no payable currency, until one is ready',
      [['', Number(due!.outages)]],
    ],
    [
      'florin_requests_logged_total',
      'counter',
      'Requests of merchants in the log of this process: kept, counted only, dropped because the database lagged',
      Object.entries(requestLogCounts(ctx)).map(([outcome, requests]) => [`{outcome="${outcome}"}`, requests] as const),
    ],
    ['process_resident_memory_bytes', 'gauge', 'Resident memory', [['', memory.rss]]],
  ] as const;
  return lines
    .map(
      ([name, type, help, values]) =>
        `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${values.map(([labels, value]) => `${name}${labels} ${value}\n`).join('')}`,
    )
    .join('');
}
