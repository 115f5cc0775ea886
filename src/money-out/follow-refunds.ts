/** Moves refunds on with the transactions of their signing files: signed, sent, confirmed or failed. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { RefundEventType } from '../core/event.ts';
import { mayBecome, type RefundState } from '../core/refund.ts';
import { startLoop } from '../db/loop.ts';
import { changeRefund, REFUND_COLUMNS, type Refund } from './refunds.ts';
import type { SweepState } from './sweeps.ts';

const POLL_MS = 1_000;
/** Refunds of one round. */
const BATCH = 100;

type Row = {
  id: string;
  merchantId: string;
  mode: Mode;
  sweepId: string;
  file: SweepState;
  failure: string | null;
  signed: boolean;
  sent: boolean;
  mined: boolean;
  txid: string | null;
};

/** Starts the loop; `stop` waits for the current round. */
export function startRefunds(ctx: Context): { stop(): Promise<void> } {
  const loop = startLoop({
    pollMs: POLL_MS,
    round: async () => (await followRefunds(ctx)) === BATCH,
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow refunds; retrying'),
  });
  return { stop: () => loop.stop() };
}

/** One round. Returns how many refunds moved on. */
export async function followRefunds(ctx: Context): Promise<number> {
  // A transaction of any round executes the refund, because all of them spend the same output.
  const rows = await ctx.db.sql<Row[]>`
    select r.id, r.merchant_id as "merchantId", r.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid
    from refunds r join sweeps s on s.id = r.sweep_id
    cross join lateral (
      select count(*) > 0 as signed, coalesce(bool_or(block_height is not null or (sent_at is not null and refusal is null)), false) as sent,
        coalesce(bool_or(block_height is not null), false) as mined,
        (array_agg(txid order by (block_height is not null) desc, (sent_at is not null) desc, round desc))[1] as txid
      from sweep_transactions where sweep_id = s.id and number = r.sweep_number
    ) t
    where r.sweep_id is not null and r.state in ('approved', 'signed', 'sent')
      and (s.state in ('canceled', 'confirmed', 'failed') or (r.state = 'approved' and t.signed) or (r.state = 'signed' and t.sent)
        or (r.state = 'sent' and r.txid is distinct from t.txid and t.mined))
    order by r.number limit ${BATCH}`;
  for (const row of rows) await moveOn(ctx, row);
  return rows.length;
}

function targetOf({ file, signed, sent, mined }: Row): RefundState {
  if (file === 'confirmed' || file === 'failed') return mined ? 'confirmed' : 'failed';
  return sent ? 'sent' : signed ? 'signed' : 'approved';
}
const NEXT: Readonly<Partial<Record<RefundState, RefundState>>> = { approved: 'signed', signed: 'sent', sent: 'confirmed' };
const EVENTS: Readonly<Partial<Record<RefundState, RefundEventType>>> = {
  sent: 'refund.sent',
  confirmed: 'refund.confirmed',
  failed: 'refund.failed',
};
/** The states after `from` on the way to `to`. */
function pathOf(from: RefundState, to: RefundState): RefundState[] {
  const path: RefundState[] = [];
  for (let at = from; at !== to; ) {
    const next = mayBecome(at, to) ? to : NEXT[at];
    if (next === undefined) return [];
    path.push(next);
    at = next;
  }
  return path;
}

async function moveOn(ctx: Context, row: Row): Promise<void> {
  const { id, merchantId, mode, txid } = row;
  await ctx.db.begin((tx) =>
    changeRefund(ctx, tx, { merchantId, mode, id }, async (before, { now }) => {
      if (row.file === 'canceled') {
        // It can be in another file, which spends the same output. Another watcher may already have put it there.
        const [free] = await tx<Refund[]>`
          update refunds set sweep_id = null, sweep_number = null
          where id = ${id} and sweep_id = ${row.sweepId} and state = 'approved' returning ${REFUND_COLUMNS(tx)}`;
        return { refund: free ?? before, events: [] };
      }
      const path = pathOf(before.state, targetOf(row));
      const events: [RefundEventType, Refund][] = [];
      let refund = before;
      if (before.state === 'sent' && row.mined)
        [refund = before] = await tx<Refund[]>`update refunds set txid = ${txid} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      for (const state of path) {
        const ends = state === 'confirmed' || state === 'failed';
        const failure = state === 'failed' ? (row.failure ?? 'another transaction spent the money') : null;
        const [after] = await tx<Refund[]>`
          update refunds set state = ${state}, txid = ${state === 'signed' ? null : txid}, failure = ${failure},
            sent_at = ${state === 'signed' || state === 'failed' ? refund.sentAt : (refund.sentAt ?? now)}, ended_at = ${ends ? now : null}
          where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
        refund = after!;
        const type = EVENTS[state];
        if (type) events.push([type, refund]);
      }
      return { refund, events };
    }),
  );
}
