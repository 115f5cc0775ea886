/** Moves refunds on with the transactions of their signing files, and with those that members sent: signed, sent, confirmed or failed. */
import type { Context } from '#context';
import { kindOf, type Mode } from '#core/coin';
import type { RefundEventType } from '#core/event';
import type { RefundState } from '#core/refund';
import { startQueue, type Tx } from '#db';
import { type Execution, failureText, following, isExpired, statesBetween, targetState, transactionsOf, wasPaid } from '#signing';
import { followHandSent, type HandSent, type IsPaid, tellUnpaid, unpaidText } from './hand-sent.ts';
import { changeRefund, REFUND_COLUMNS, type Refund } from './refunds.ts';

/** Refunds of one round. */
const BATCH = 100;

type Row = Execution & { id: string; merchantId: string; mode: Mode; sweepId: string };

/** Starts the loop; `stop` waits for the current round. */
export function startRefunds(ctx: Context): { stop(): Promise<void> } {
  return startQueue(ctx, {
    ...following('refunds'),
    round: async () => {
      const moved = await followRefunds(ctx);
      await followSentRefunds(ctx);
      return moved === BATCH;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow refunds; retrying'),
  });
}

/** Follows the transactions of refunds that members sent. */
export const followSentRefunds = (ctx: Context): Promise<void> =>
  followHandSent(ctx, 'refunds', (one, isPaid) => concludeHandSent(ctx, one, isPaid));

/** One round. Returns how many refunds moved on. */
export async function followRefunds(ctx: Context): Promise<number> {
  // A transaction of any round executes the refund, because all of them spend the same output or use the same nonce of an authorization. A
  // published authorization can be sent by anybody until it expires, even if its transaction failed: only then has the refund failed.
  const { sql } = ctx.db;
  const rows = await sql<Row[]>`
    select r.id, r.merchant_id as "merchantId", r.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid,
      r.coin, r.anchor, a.address as "from", u.until as "validBefore", coalesce(${isExpired(sql, sql`u.until`)}, true) as expired
    from refunds r join signing_files s on s.id = r.file_id
    left join deposit_addresses a on a.payment_id = r.payment_id and a.wallet_id = s.wallet_id
    cross join lateral (select (s.file->'requests'->r.transaction_number->>'validBefore')::bigint as until) u
    cross join lateral ${transactionsOf(sql, { number: sql`r.transaction_number`, from: sql`a.address` })} t
    where r.file_id is not null and r.state in ('approved', 'signed', 'sent')
      and (s.state = 'canceled'
        or (s.state in ('confirmed', 'failed')
          and (t.mined or coalesce(${isExpired(sql, sql`u.until`)}, true)))
        or (r.state = 'approved' and t.signed) or (r.state = 'signed' and t.sent)
        or (r.state = 'sent' and r.txid is distinct from t.txid and t.mined))
    order by r.number limit ${BATCH}`;
  let moved = 0;
  for (const row of rows) {
    try {
      const mined = await wasPaid(ctx, row);
      if (mined === null) continue;
      await moveOn(ctx, { ...row, mined });
      moved++;
    } catch (error) {
      ctx.log.error({ err: error, refund: row.id }, 'Could not follow a refund; the others continue');
    }
  }
  return moved;
}

const EVENTS: Readonly<Partial<Record<RefundState, RefundEventType>>> = {
  sent: 'refund.sent',
  confirmed: 'refund.confirmed',
  failed: 'refund.failed',
};
/** An earlier file of the refund may have paid the customer. What all its transactions use shows that. */
const failureOf = ({ failure, anchor, validBefore }: Row): string =>
  validBefore !== null
    ? 'The authorization of this refund expired before anybody sent it. Nothing was paid: cancel this refund to free its amount.'
    : failureText({ failure, anchor, what: 'refund', paid: 'the customer' });

/**
 * Frees the deposits of an account from the file of a refund that ended: all of them if nothing was paid, else those of which a part is
 * left. Before that, somebody might have sent the refund.
 */
async function release(tx: Tx, { sweepId }: Row, { coin, paymentId, state }: Refund): Promise<void> {
  if (kindOf(coin) !== 'ethereum') return;
  await tx`
    update signing_inputs i set released_at = clock_timestamp() from transfers t
    where i.file_id = ${sweepId} and i.payment_id = ${paymentId} and i.released_at is null
      and t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref and (${state === 'failed'} or i.units < t.units)`;
}

async function moveOn(ctx: Context, row: Row): Promise<void> {
  const { id, merchantId, mode, txid } = row;
  await ctx.db.begin((tx) =>
    changeRefund(ctx, tx, { merchantId, mode, id }, async (before, { now }) => {
      if (row.file === 'canceled') {
        // It can be in another file, which spends the same output. Another watcher may already have put it there.
        const [free] = await tx<Refund[]>`
          update refunds set file_id = null, transaction_number = null
          where id = ${id} and file_id = ${row.sweepId} and state = 'approved' returning ${REFUND_COLUMNS(tx)}`;
        return { refund: free ?? before, events: [] };
      }
      const path = statesBetween(before.state, targetState(row));
      const events: [RefundEventType, Refund][] = [];
      let refund = before;
      if (before.state === 'sent' && row.mined)
        [refund = before] = await tx<Refund[]>`update refunds set txid = ${txid} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      for (const state of path) {
        const ends = state === 'confirmed' || state === 'failed';
        const failure = state === 'failed' ? failureOf(row) : null;
        const [after] = await tx<Refund[]>`
          update refunds set state = ${state}, txid = ${state === 'signed' ? null : txid}, failure = ${failure},
            sent_at = ${state === 'signed' || state === 'failed' ? refund.sentAt : (refund.sentAt ?? now)}, ended_at = ${ends ? now : null}
          where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
        refund = after!;
        if (ends) await release(tx, row, refund);
        const type = EVENTS[state];
        if (type) events.push([type, refund]);
      }
      return { refund, events };
    }),
  );
}

/** The final transaction that a member entered pays the refund, or it does not: then the member may enter another one. */
const concludeHandSent = (ctx: Context, one: HandSent, isPaid: IsPaid): Promise<Refund> =>
  ctx.db.begin((tx) =>
    changeRefund(ctx, tx, one, async (before, { now }) => {
      const isOpen = before.state === 'sent' && before.txid === one.txid && before.sweepId === null;
      if (!isOpen) return { refund: before, events: [] };
      const pays = await isPaid(tx);
      if (!pays) await tellUnpaid(ctx, tx, 'refunds', one);
      const [after] = await tx<Refund[]>`
        update refunds set state = ${pays ? 'confirmed' : 'sent'}, ended_at = ${pays ? now : null}, failure = ${pays ? null : unpaidText(one)},
          missed = 0
        where id = ${one.id} returning ${REFUND_COLUMNS(tx)}`;
      return { refund: after!, events: pays ? [['refund.confirmed', after!]] : [] };
    }),
  );
