/** The metrics for an operator's monitoring, in Prometheus text format. */

import { readReports } from '#chain-store';
import { isStale, purposeOfPeers, type StoredReport } from '#chains';
import type { Context } from '#context';
import { DOUBTS } from '#core/certainty';
import { CHAIN, COIN, COINS, chainCode, contractOf, isToken, NATIVE_COINS } from '#core/coin';
import { GUARD_CODES } from '#core/guard';
import { readDeliveryQueue } from '#deliveries';
import { requestLogCounts } from '#keys';
import { readLightningHealth } from '#lightning';
import { readGuards, readTokenHolds, readTroubles } from '#readiness';
import { type Histogram, readLoop } from '#transport';
import { readDatabase } from './health.ts';

type Value = readonly [labels: string, value: number];
type Metric =
  | readonly [name: string, type: 'gauge' | 'counter', help: string, values: readonly Value[]]
  | readonly [name: string, type: 'histogram', help: string, values: Histogram];

/** All metrics of this process and its database. */
export async function readMetrics(ctx: Context): Promise<string> {
  const [database, queue, due, tips, guards, troubles, reports, held, lightning] = await Promise.all([
    readDatabase(ctx),
    readDeliveryQueue(ctx),
    readDue(ctx),
    readTips(ctx),
    readGuards(ctx),
    readTroubles(ctx),
    readReports(ctx.db.sql),
    readTokenHolds(ctx),
    readLightningHealth(ctx),
  ]);
  return metricsText([
    ['florin_database_timeline', 'gauge', 'Timeline of the database, which grows with each failover', [['', database.state.timeline ?? 0]]],
    ...deliveryMetrics(queue),
    ...paymentMetrics(due),
    ...chainMetrics({ tips, guards, troubles }),
    ...sourceMetrics(ctx, guards),
    ...rangeMetrics(ctx, held),
    ...lightningMetrics(lightning),
    ...peerMetrics(
      ctx,
      reports.filter((report) => !isStale(report)),
    ),
    ...processMetrics(ctx),
  ]);
}

/** Metrics as Prometheus reads them. */
export const metricsText = (metrics: readonly Metric[]): string =>
  metrics
    .map((metric) => {
      const [name, type, help] = metric;
      const values = metric[1] === 'histogram' ? linesOf(metric[3]) : metric[3];
      const lines = values.map(([labels, value]) => `${name}${labels} ${value}\n`);
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');

const linesOf = ({ ends, counts, count, sum }: Histogram): Value[] => [
  ...ends.map((end, i): Value => [`_bucket{le="${end}"}`, counts[i]!]),
  ['_bucket{le="+Inf"}', count],
  ['_sum', sum],
  ['_count', count],
];

type Due = { payments: bigint; blocks: bigint; outages: bigint };
async function readDue(ctx: Context): Promise<Due> {
  const [due] = await ctx.db.sql<Due[]>`
    select (select count(*) from payments where due_at <= clock_timestamp()) as payments, (select count(*) from due_work where kind = 'settle') as blocks,
      (select count(*) from payment_outages where ended_at is null) as outages`;
  return due!;
}

type TipRow = { chain: string; height: bigint; lag: number };
const readTips = (ctx: Context) => ctx.db.sql<TipRow[]>`
  select chain, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as lag from tips`;

const deliveryMetrics = (queue: Awaited<ReturnType<typeof readDeliveryQueue>>): Metric[] => [
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
];

const lightningMetrics = (all: Awaited<ReturnType<typeof readLightningHealth>>): Metric[] => {
  const sum = (of: (one: (typeof all)[number]) => number) => all.reduce((total, one) => total + of(one), 0);
  return [
    ['florin_lightning_backends', 'gauge', 'Nodes and providers in use that make Lightning invoices', [['', all.length]]],
    [
      'florin_lightning_backends_failing',
      'gauge',
      'Those whose last request or check failed',
      [['', sum(({ failure }) => (failure === null ? 0 : 1))]],
    ],
    ['florin_lightning_invoices_open', 'gauge', 'Lightning invoices that are looked at', [['', sum(({ open }) => open)]]],
    ['florin_lightning_invoices_unseen', 'gauge', 'Those whose last look failed', [['', sum(({ unseen }) => unseen)]]],
  ];
};

const paymentMetrics = (due: Due): Metric[] => [
  ['florin_payments_due', 'gauge', 'Payments due to be settled', [['', Number(due.payments)]]],
  ['florin_settle_queue', 'gauge', 'Payments queued by followers', [['', Number(due.blocks)]]],
  [
    'florin_merchants_unpayable',
    'gauge',
    'Merchants whose customers met no payable currency, until one is ready',
    [['', Number(due.outages)]],
  ],
];

type Chains = {
  tips: readonly TipRow[];
  guards: Awaited<ReturnType<typeof readGuards>>;
  troubles: Awaited<ReturnType<typeof readTroubles>>;
};
const chainMetrics = ({ tips, guards, troubles }: Chains): Metric[] => [
  ['florin_chain_height', 'gauge', 'Height scanned', tips.map((t) => [`{coin="${t.chain}"}`, Number(t.height)])],
  ['florin_chain_lag_seconds', 'gauge', 'Time since the last complete scan', tips.map((t) => [`{coin="${t.chain}"}`, t.lag])],
  [
    'florin_chain_failures',
    'gauge',
    'Rounds of a follower that failed one after the other',
    troubles.map((t) => [`{coin="${chainCode(t.coin)}"}`, t.failures]),
  ],
  [
    'florin_chain_block_failures',
    'gauge',
    'How often a follower failed at the block it is at, from three times on',
    troubles.map((t) => [`{coin="${chainCode(t.coin)}"}`, t.failingBlock?.failures ?? 0]),
  ],
  [
    'florin_chain_uncertain',
    'gauge',
    'Why nothing expires: what the source of a coin does not show may have happened all the same',
    troubles.flatMap((t) =>
      DOUBTS.map((code) => [`{coin="${chainCode(t.coin)}",reason="${code}"}`, t.doubt?.code === code ? 1 : 0] as const),
    ),
  ],
  [
    'florin_chain_held',
    'gauge',
    'Whether completion is held on the chain',
    guards.map((g) => [`{coin="${chainCode(g.coin)}"}`, g.binding && g.reasons.length > 0 ? 1 : 0]),
  ],
  [
    'florin_chain_unhealthy',
    'gauge',
    'What the chain-health guard found',
    guards.flatMap((g) =>
      GUARD_CODES.map((code) => [`{coin="${chainCode(g.coin)}",reason="${code}"}`, g.codes.includes(code) ? 1 : 0] as const),
    ),
  ],
];

/** Of the process that is connected to peers. The bytes begin at 0 when it starts. Peers that a node is compared with are marked. */
function peerMetrics(ctx: Context, reports: readonly StoredReport[]): Metric[] {
  const all = reports.map((report) => {
    const isCompared = purposeOfPeers(ctx.chains.get(COIN[report.coin].chain)) === 'comparison';
    return { ...report, of: `coin="${report.coin}"${isCompared ? ',purpose="comparison"' : ''}` };
  });
  return [
    ['florin_peers', 'gauge', 'Peers that are connected', all.map((r) => [`{${r.of}}`, r.connected])],
    ['florin_headers_height', 'gauge', 'Height of the header chain read from peers', all.map((r) => [`{${r.of}}`, r.height])],
    ['florin_headers_percent', 'gauge', 'How much of the header chain is read from peers', all.map((r) => [`{${r.of}}`, r.percent])],
    [
      'florin_peer_bytes_total',
      'counter',
      'Bytes exchanged with peers',
      all.flatMap((r) => [[`{${r.of},direction="in"}`, r.bytesIn] as const, [`{${r.of},direction="out"}`, r.bytesOut] as const]),
    ],
  ];
}

const nameLabel = (name: string): string => name.replace(/[\\"\n]/g, '');

function sourceMetrics(ctx: Context, guards: Chains['guards']): Metric[] {
  const sources = guards.flatMap(({ coin, sources: all }) =>
    all.map((source) => ({ ...source, labels: `{coin="${chainCode(coin)}",source="${nameLabel(source.name)}"}` })),
  );
  return [
    ['florin_chain_source_up', 'gauge', 'Whether a source has a vote', sources.map((s) => [s.labels, s.state === 'ok' ? 1 : 0])],
    [
      'florin_chain_source_unproven',
      'gauge',
      'Whether the blocks that a source shows are not on the chain with the most work',
      sources.map((s) => [s.labels, s.state === 'unproven' ? 1 : 0]),
    ],
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
      [...ctx.chains].flatMap(([id, chain]) =>
        chain.sources.flatMap(({ name, source }) =>
          [...(source.unusable?.() ?? [])].map(
            ([method, answers]) => [`{coin="${CHAIN[id].code}",source="${nameLabel(name)}",method="${method}"}`, answers] as const,
          ),
        ),
      ),
    ],
  ];
}

/** Of chains whose blocks come too fast to read each: what providers are asked, what their plans allow, and which tokens are held. */
function rangeMetrics(ctx: Context, held: Awaited<ReturnType<typeof readTokenHolds>>): Metric[] {
  const chains = [...ctx.chains].filter(([, { sources }]) => sources.some(({ source }) => source.ranges));
  const tokens = COINS.filter((coin) => isToken(coin) && ctx.chains.has(COIN[coin].chain));
  return [
    [
      'florin_chain_requests_total',
      'counter',
      'Requests to a source, from this process',
      chains.flatMap(([id, { sources }]) =>
        sources.flatMap(({ name, source: { ranges } }) =>
          ranges ? [[`{coin="${CHAIN[id].code}",source="${nameLabel(name)}"}`, ranges.requests()] as const] : [],
        ),
      ),
    ],
    [
      'florin_chain_requests_allowed',
      'gauge',
      'Requests a day that the settings allow to each source of a chain',
      chains.flatMap(([id, { coin }]) => {
        const allowed = ctx.settings.dailyRequests[coin];
        return allowed === undefined ? [] : [[`{coin="${CHAIN[id].code}"}`, allowed] as const];
      }),
    ],
    [
      'florin_token_held',
      'gauge',
      'Whether a stablecoin is held because its contract is paused, was upgraded or replaced, or is not as expected',
      tokens
        .filter((coin) => contractOf(coin, ctx.settings.networks[COIN[coin].chain]) !== null)
        .map((coin) => [`{coin="${coin}"}`, held.some((one) => one.coin === coin) ? 1 : 0] as const),
    ],
  ];
}

const processMetrics = (ctx: Context): Metric[] => [
  [
    'florin_price_usable',
    'gauge',
    'Whether live quotes can be made',
    NATIVE_COINS.map((coin) => [`{coin="${coin}"}`, 'price' in ctx.prices.quotable(COIN[coin].asset) ? 1 : 0]),
  ],
  [
    'florin_requests_logged_total',
    'counter',
    'Requests of merchants in the log of this process: kept, counted only, dropped because the database lagged',
    Object.entries(requestLogCounts(ctx)).map(([outcome, requests]) => [`{outcome="${outcome}"}`, requests] as const),
  ],
  [
    'florin_event_loop_delay_seconds',
    'histogram',
    'How late the event loop of this process was, looked at every 50 ms',
    readLoop(ctx).delays,
  ],
  [
    'florin_event_loop_holds_total',
    'counter',
    'How often a route computed for more than 100 ms without a break, in CPU time',
    [...readLoop(ctx).holds].map(([route, holds]) => [`{route="${route}"}`, holds] as const),
  ],
  ['process_resident_memory_bytes', 'gauge', 'Resident memory', [['', process.memoryUsage().rss]]],
];
