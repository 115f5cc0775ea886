/** Moves payouts on with the transactions of their signing files, and with those that members sent: signed, sent, confirmed or failed. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { startLoop } from '../db/loop.ts';
import { pathOf, targetOf } from './follow-refunds.ts';
import { followHandSent, type HandSent, unpaidText } from './hand-sent.ts';
import { changePayout, type Payout, writeStep } from './payouts.ts';
import type { SweepState } from './sweeps.ts';

const POLL_MS = 1_000;
/** Payouts of one round. */
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
  /** Whether a mined transaction paid it. */
  mined: boolean;
  txid: string | null;
  anchor: string;
};

/** Starts the loop; `stop` waits for the current round. */
export function startPayouts(ctx: Context): { stop(): Promise<void> } {
  const loop = startLoop({
    pollMs: POLL_MS,
    round: async () => {
      const moved = await followPayouts(ctx);
      await followSentPayouts(ctx);
      return moved === BATCH;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow payouts; retrying'),
  });
  return { stop: () => loop.stop() };
}

/** Follows the transactions of payouts that members sent. */
export const followSentPayouts = (ctx: Context): Promise<void> =>
  followHandSent(ctx, 'payouts', (one, isPaid) => concludeHandSent(ctx, one, isPaid));

/** One round. Returns how many payouts moved on. */
export async function followPayouts(ctx: Context): Promise<number> {
  // A transaction of any round pays the payout, because all of them spend the same output.
  const rows = await ctx.db.sql<Row[]>`
    select p.id, p.merchant_id as "merchantId", p.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid, p.anchor
    from payouts p join sweeps s on s.id = p.sweep_id
    cross join lateral (
      select count(*) > 0 as signed, coalesce(bool_or(block_height is not null or (sent_at is not null and refusal is null)), false) as sent,
        coalesce(bool_or(block_height is not null), false) as mined,
        (array_agg(txid order by (block_height is not null) desc, (sent_at is not null) desc, round desc))[1] as txid
      from sweep_transactions where sweep_id = s.id and number = p.sweep_number
    ) t
    where p.sweep_id is not null and p.state in ('approved', 'signed', 'sent')
      and (s.state in ('canceled', 'confirmed', 'failed')
        or (p.state = 'approved' and t.signed) or (p.state = 'signed' and t.sent)
        or (p.state = 'sent' and p.txid is distinct from t.txid and t.mined))
    order by p.number limit ${BATCH}`;
  let moved = 0;
  for (const row of rows) {
    try {
      await moveOn(ctx, row);
      moved++;
    } catch (error) {
      ctx.log.error({ err: error, payout: row.id }, 'Could not follow a payout; the others continue');
    }
  }
  return moved;
}

/** An earlier file of the payout may have paid it. All its transactions spend the same output, so that shows it. */
const failureOf = ({ failure, anchor }: Row): string =>
  [
    `${failure ?? 'another transaction spent the money'}.`,
    `Every transaction of this payout spends the output ${anchor}.`,
    'Check in a block explorer where the money went: the recipient may have been paid.',
  ].join(' ');

async function moveOn(ctx: Context, row: Row): Promise<void> {
  const { id, merchantId, mode, txid } = row;
  await ctx.db.begin((tx) =>
    changePayout(tx, { merchantId, mode, id }, async (before, now) => {
      if (row.file === 'canceled') {
        // It can be in another file, which spends the same output. Another watcher may already have put it there.
        await tx`
          update payouts set sweep_id = null, sweep_number = null where id = ${id} and sweep_id = ${row.sweepId} and state = 'approved'`;
        return before;
      }
      if (before.state === 'sent' && row.mined) await tx`update payouts set txid = ${txid} where id = ${id}`;
      let payout = before;
      for (const state of pathOf(before.state, targetOf({ ...row, expired: true }))) {
        const failure = state === 'failed' ? failureOf(row) : null;
        payout = await writeStep(ctx, tx, { id, state, txid: state === 'signed' ? null : txid, failure, now });
      }
      return payout;
    }),
  );
}

/** The final transaction that a member entered pays the payout, or it does not: then the member may enter another one. */
const concludeHandSent = (ctx: Context, one: HandSent, isPaid: boolean): Promise<Payout> =>
  ctx.db.begin((tx) =>
    changePayout(tx, one, async (before, now) => {
      const isOpen = before.state === 'sent' && before.txid === one.txid && before.sweepId === null;
      if (!isOpen) return before;
      if (isPaid) return writeStep(ctx, tx, { id: one.id, state: 'confirmed', txid: one.txid, failure: null, now });
      const failure = unpaidText(one);
      await tx`update payouts set failure = ${failure} where id = ${one.id}`;
      return { ...before, failure };
    }),
  );
