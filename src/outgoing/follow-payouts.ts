/** Moves payouts on with the transactions of their signing files, and with those that members sent: signed, sent, confirmed or failed. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { startQueue } from '#db';
import { type Execution, failureText, following, isExpired, statesBetween, targetState, transactionsOf, wasPaid } from '#signing';
import { followHandSent, type HandSent, type IsPaid, tellUnpaid, unpaidText } from './hand-sent.ts';
import { changePayout, type Payout, writeStep } from './payouts.ts';

/** Payouts of one round. */
const BATCH = 100;

/** `sweepId`: null while a published authorization waits for its next file, or to expire. */
type Row = Execution & { id: string; merchantId: string; mode: Mode; sweepId: string | null; gathers: boolean };

/** Starts the loop; `stop` waits for the current round. */
export function startPayouts(ctx: Context): { stop(): Promise<void> } {
  return startQueue(ctx, {
    ...following('payouts'),
    round: async () => {
      const moved = await followPayouts(ctx);
      await followSentPayouts(ctx);
      return moved === BATCH;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow payouts; retrying'),
  });
}

/** Follows the transactions of payouts that members sent. */
export const followSentPayouts = (ctx: Context): Promise<void> =>
  followHandSent(ctx, 'payouts', (one, isPaid) => concludeHandSent(ctx, one, isPaid));

/** One round. Returns how many payouts moved on. */
export async function followPayouts(ctx: Context): Promise<number> {
  let moved = 0;
  for (const row of [...(await readInFiles(ctx)), ...(await readExpired(ctx))]) {
    try {
      const mined = await wasPaid(ctx, row);
      if (mined === null) continue;
      await moveOn(ctx, { ...row, mined });
      moved++;
    } catch (error) {
      ctx.log.error({ err: error, payout: row.id }, 'Could not follow a payout; the others continue');
    }
  }
  return moved;
}

/** Payouts whose file or transactions moved on. */
function readInFiles({ db: { sql } }: Context): Promise<readonly Row[]> {
  return sql<Row[]>`
    select p.id, p.merchant_id as "merchantId", p.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid,
      p.coin, p.anchor, a.payer as "from", u.until as "validBefore", coalesce(${isExpired(sql, sql`u.until`)}, true) as expired,
      jsonb_array_length(coalesce(p.parts -> 'parts', '[]')) > 1 as gathers
    from payouts p join signing_files s on s.id = p.file_id
    cross join lateral (
      select coalesce(p.parts -> 'parts' -> 0 ->> 'address', case when p.anchor like 'nonce:%' then split_part(p.anchor, ':', 2) end) as payer
    ) a
    cross join lateral (
      select greatest(p.published_until, (s.file -> 'requests' -> p.transaction_number ->> 'validBefore')::bigint) as until
    ) u
    cross join lateral ${transactionsOf(sql, { number: sql`p.transaction_number`, from: sql`a.payer` })} t
    where p.file_id is not null and p.state in ('approved', 'signed', 'sent')
      and (s.state in ('canceled', 'confirmed', 'failed')
        or (p.state = 'approved' and t.signed) or (p.state = 'signed' and t.sent)
        or (p.state = 'sent' and p.txid is distinct from t.txid and t.mined))
    order by p.number limit ${BATCH}`;
}

/** Payouts that are in no file, and whose published authorizations expired. */
function readExpired({ db: { sql } }: Context): Promise<readonly Row[]> {
  return sql<Row[]>`
    select id, merchant_id as "merchantId", mode, null as "sweepId", 'failed' as file, null as failure, true as signed, state = 'sent' as sent,
      false as mined, txid, coin, anchor, parts -> 'parts' -> 0 ->> 'address' as "from", published_until as "validBefore", true as expired,
      jsonb_array_length(coalesce(parts -> 'parts', '[]')) > 1 as gathers
    from payouts
    where state in ('signed', 'sent') and file_id is null and published_until is not null and ${isExpired(sql, sql`published_until`)}
    order by published_until limit ${BATCH}`;
}

const WAITS = 'Its transaction did not pay it. Make the next signing file, which pays it with the same authorizations.';
const failureOf = (row: Row): string =>
  row.validBefore === null
    ? failureText({ ...row, what: 'payout', paid: 'the recipient' })
    : [
        'The authorization of this payout expired before anybody sent it. Nothing was paid: cancel this payout, and request it again.',
        ...(row.gathers ? [`Deposits that pay it together may have been moved to the deposit address ${row.from}.`] : []),
      ].join(' ');

async function moveOn(ctx: Context, row: Row): Promise<void> {
  const { id, merchantId, mode, txid } = row;
  await ctx.db.begin((tx) =>
    changePayout(tx, { merchantId, mode, id }, async (before, now) => {
      // Another watcher may already have put it into another file, which uses the same.
      if (before.sweepId !== row.sweepId) return before;
      if (row.file === 'canceled') {
        await tx`
          update payouts set file_id = null, transaction_number = null, failure = case when published_until is not null then ${WAITS} end
          where id = ${id}`;
        return before;
      }
      if (before.state === 'sent' && row.mined) await tx`update payouts set txid = ${txid} where id = ${id}`;
      let payout = before;
      const target = targetState(row);
      for (const state of statesBetween(before.state, target)) {
        const failure = state === 'failed' ? failureOf(row) : null;
        payout = await writeStep(ctx, tx, { id, state, txid: state === 'signed' ? null : txid, failure, now });
      }
      if (target === 'confirmed' || target === 'failed') await tx`update payouts set published_until = null where id = ${id}`;
      // The transaction failed, and anybody can still send the authorizations: so the next file, which has the same ones, may do that.
      else if (row.file === 'confirmed' || row.file === 'failed')
        await tx`
          update payouts set file_id = null, transaction_number = null, published_until = ${row.validBefore}, failure = ${WAITS} where id = ${id}`;
      return payout;
    }),
  );
}

/** The final transaction that a member entered pays the payout, or it does not: then the member may enter another one. */
const concludeHandSent = (ctx: Context, one: HandSent, isPaid: IsPaid): Promise<Payout> =>
  ctx.db.begin((tx) =>
    changePayout(tx, one, async (before, now) => {
      const isOpen = before.state === 'sent' && before.txid === one.txid && before.sweepId === null;
      if (!isOpen) return before;
      if (await isPaid(tx)) return writeStep(ctx, tx, { id: one.id, state: 'confirmed', txid: one.txid, failure: null, now });
      const failure = unpaidText(one);
      await tx`update payouts set failure = ${failure}, missed = 0 where id = ${one.id}`;
      await tellUnpaid(ctx, tx, 'payouts', one);
      return { ...before, failure };
    }),
  );
