/** Sends signed transactions and follows them until they have enough confirmations, in the process that follows the chains. */
import { type Chain, ChainError } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode, coinsBeside } from '../core/coin.ts';
import { startLoop } from '../db/loop.ts';
import { depthToEnd } from './holdings.ts';

const POLL_MS = 1_000;
/** Transactions of one round. */
const BATCH = 200;
/** A transaction that waits is sent again after this long, because nodes forget them. */
const RESEND_SECONDS = 60;

type Waiting = {
  sweepId: string;
  coin: Coin;
  round: number;
  number: number;
  txid: string;
  raw: Uint8Array;
  due: boolean;
  blockHash: string | null;
};

/** Starts the loop of one chain; `stop` waits for the current round. */
export function startSweeps(ctx: Context, chain: Chain): { stop(): Promise<void> } {
  const loop = startLoop({
    pollMs: POLL_MS,
    round: async () => {
      await followSweeps(ctx, chain);
      return false;
    },
    failed: (error, failures) => ctx.log.error({ err: error, coin: chain.coin, failures }, 'Could not follow sweeps; retrying'),
  });
  return { stop: () => loop.stop() };
}

/** One round: sends what is due, and looks where everything is that was sent. */
export async function followSweeps(ctx: Context, chain: Chain): Promise<void> {
  const coins = coinsBeside(chain.coin);
  const { sql } = ctx.db;
  const waiting = await sql<Waiting[]>`
    select t.sweep_id as "sweepId", s.coin, t.round, t.number, t.txid, t.raw, t.block_hash as "blockHash",
      t.sent_at is null or t.sent_at < clock_timestamp() - make_interval(secs => ${RESEND_SECONDS}) as due
    from sweeps s join sweep_transactions t on t.sweep_id = s.id
    where s.state in ('signed', 'sent') and s.coin = any(${coins}::text[])
    order by t.sent_at nulls first, s.number, t.round, t.number limit ${BATCH}`;
  for (const one of waiting) await followOne(ctx, chain, one);
  for (const id of new Set(waiting.map(({ sweepId }) => sweepId))) await conclude(ctx, chain, id);
}

async function followOne(ctx: Context, chain: Chain, one: Waiting): Promise<void> {
  const { sql } = ctx.db;
  const state = await chain.txState(one.txid);
  const mined = state.blockHash === null ? null : await chain.block(state.blockHash);
  const where = sql`sweep_id = ${one.sweepId} and round = ${one.round} and number = ${one.number}`;
  if (mined) {
    if (mined.hash !== one.blockHash)
      await sql`update sweep_transactions set block_height = ${mined.height}, block_hash = ${mined.hash}, refusal = null,
        sent_at = coalesce(sent_at, clock_timestamp()) where ${where}`;
    return;
  }
  if (one.blockHash !== null) await sql`update sweep_transactions set block_height = null, block_hash = null where ${where}`;
  if (state.state === 'mempool') {
    if (one.due) await sql`update sweep_transactions set sent_at = clock_timestamp(), refusal = null where ${where}`;
    return;
  }
  if (!one.due) return;
  const refusal = await send(chain, one.raw);
  await sql`update sweep_transactions set sent_at = clock_timestamp(), refusal = ${refusal} where ${where}`;
  if (refusal !== null)
    ctx.log.warn({ coin: one.coin, sweep: one.sweepId, txid: one.txid, refusal }, 'A transaction of a sweep was refused');
}

/** Why the chain refused it; null: it was accepted. Errors: ChainError, when nothing could be sent. */
async function send(chain: Chain, raw: Uint8Array): Promise<string | null> {
  try {
    await chain.outlet.send(raw);
    return null;
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'refused') return error.message;
    throw error;
  }
}

/**
 * The state of a sweep from those of its transactions. Transactions with the same number in different rounds spend the same inputs, so at
 * most one of them can be mined.
 */
async function conclude(ctx: Context, chain: Chain, id: string): Promise<void> {
  const tip = await chain.tip();
  await ctx.db.begin(async (tx) => {
    const [sweep] = await tx<{ state: string; coin: Coin; merchantId: string }[]>`
      select state, coin, merchant_id as "merchantId" from sweeps where id = ${id} and state in ('signed', 'sent') for update`;
    if (!sweep) return;
    const rows = await tx<{ number: number; round: number; sent: boolean; refusal: string | null; height: number | null }[]>`
      select number, round, sent_at is not null as sent, refusal, block_height::int as height from sweep_transactions where sweep_id = ${id}`;
    const numbers = new Map<number, (typeof rows)[number][]>();
    for (const row of rows) numbers.set(row.number, [...(numbers.get(row.number) ?? []), row]);
    const depth = depthToEnd(ctx, sweep.coin);
    const done = [...numbers.values()].every((of) => of.some(({ height }) => height !== null && tip.height - height + 1 >= depth));
    const sent = rows.some((row) => row.height !== null || (row.sent && row.refusal === null));
    const refused = rows.find(({ refusal }) => refusal !== null)?.refusal ?? null;
    if (done) {
      await tx`update sweeps set state = 'confirmed', sent_at = coalesce(sent_at, clock_timestamp()), ended_at = clock_timestamp(), failure = null where id = ${id}`;
      ctx.log.info({ sweep: id, chain: chainCode(sweep.coin) }, 'A sweep is confirmed');
    } else if (sent)
      await tx`update sweeps set state = 'sent', sent_at = coalesce(sent_at, clock_timestamp()), failure = ${refused} where id = ${id}`;
    else if (refused !== null) await tx`update sweeps set failure = ${refused} where id = ${id}`;
  });
}
