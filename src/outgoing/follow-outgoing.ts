/**
 * Moves refunds and payouts on with what the chains say about them: signed, sent, confirmed or failed.
 *
 * One in a signing file is paid by a transaction of any round of that file, because all of them spend the same output or use the same nonce.
 * It is confirmed when one of them is final, and fails when another transaction used that first. A published authorization can be sent by
 * anybody until it expires, even if its transaction failed: a refund waits for that, and a payout may meanwhile be in the next file, which
 * has the same authorizations. If its file is canceled, it is free for another one, which spends the same. One that a member sent follows the
 * transaction that was entered (hand-sent.ts).
 *
 * Each step is taken under the lock of its payment or payout, and only while it is still in the file that was looked at, so several watchers
 * may follow at once. What nobody can say now is asked again in the next round, and an error keeps nothing else waiting.
 */
import { ChainError } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, contractOf, kindOf, type Mode } from '#core/coin';
import { mayBecome, type RefundState } from '#core/refund';
import { dueIf, type Fragment, type Sql, startQueue, type Tx } from '#db';
import {
  accountOfAnchor,
  EXPIRED_SECONDS,
  FOLLOW_MS,
  followRehearsals,
  forMode,
  MONEY_OUT,
  nonceIn,
  type Sweep,
  usedAmong,
} from '#signing';
import { notifyOfOutgoing } from './approvals.ts';
import { changeOutgoing } from './change-outgoing.ts';
import { followHandSent, unpaidText } from './hand-sent.ts';
import type { OutgoingKind, OutgoingPayment, Refund } from './outgoing-payments.ts';
import { endInvoices } from './refund-invoices.ts';

/** Those of one round. */
const BATCH = 100;

type Execution = {
  kind: OutgoingKind;
  id: string;
  merchantId: string;
  mode: Mode;
  /** Null while a published authorization waits for its next file, or to expire. */
  sweepId: string | null;
  /** What became of the file. */
  file: Sweep['state'];
  failure: string | null;
  signed: boolean;
  sent: boolean;
  /** Whether a mined transaction paid it. */
  mined: boolean;
  txid: string | null;
  coin: Coin;
  /** The deposit address that pays, what every transaction uses, and the second at which its authorization expires, if it has one. */
  from: string | null;
  anchor: string | null;
  validBefore: bigint | null;
  /** Whether no transaction of its file can pay it any more. */
  expired: boolean;
  /** Whether several deposits pay it together. */
  gathers: boolean;
};

/** Starts the loop; `stop` waits for the current round. */
export function startOutgoing(ctx: Context): { stop(): Promise<void> } {
  return startQueue(ctx, {
    name: MONEY_OUT,
    againMs: FOLLOW_MS,
    due: (sql) =>
      sql`least((select min(invoice_expires_at) from outgoing_payments where state in ('requested', 'approved')), ${dueIf(
        sql,
        sql`exists (select 1 from outgoing_payments where state in ('approved', 'signed', 'sent') and (file_id is not null or state <> 'approved'))
          or exists (select 1 from signing_files where state in ('signed', 'sent') and mode = 'test')`,
      )})`,
    round: async () => {
      await followRehearsals(ctx);
      await endInvoices(ctx);
      const moved = await followOutgoing(ctx);
      await followSentByHand(ctx);
      return moved >= BATCH;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow refunds and payouts; retrying'),
  });
}

/** One round of those in signing files, or with published authorizations that expired. Returns how many moved on. */
export async function followOutgoing(ctx: Context): Promise<number> {
  let moved = 0;
  for (const row of [...(await readInFiles(ctx)), ...(await readExpired(ctx))]) {
    try {
      if (row.kind === 'payout' && row.file === 'canceled') {
        moved += await releasePayouts(ctx, row);
        continue;
      }
      const mined = await wasPaid(ctx, row);
      if (mined === null) continue;
      await moveOn(ctx, { ...row, mined });
      moved++;
    } catch (error) {
      ctx.log.error({ err: error, object: row.id }, 'Could not follow a refund or payout; the others continue');
    }
  }
  return moved;
}

/**
 * All payouts of a canceled file leave it at once. If one transaction paid several, it spends what each of them has to spend again: a file
 * made of one alone would leave the others with nothing that can pay them.
 */
async function releasePayouts({ db: { sql } }: Context, { sweepId }: Execution): Promise<number> {
  const { count } = await sql`
    update outgoing_payments set file_id = null, transaction_number = null, failure = case when published_until is not null then ${WAITS} end
    where id = any(array(select id from outgoing_payments where kind = 'payout' and file_id = ${sweepId} and state in ('approved', 'signed', 'sent')
      order by number for update)) and file_id = ${sweepId}`;
  return count;
}

const WAITS = 'Its transaction did not pay it. Make the next signing file, which pays it with the same authorizations.';

const moveOn = (ctx: Context, row: Execution): Promise<unknown> =>
  ctx.db.begin((tx) =>
    changeOutgoing(ctx, tx, row, async ({ rows, write, step }) => {
      const before: OutgoingPayment = rows[0]!;
      // Another watcher may already have put it into another file, which spends the same.
      if (before.sweepId !== row.sweepId) return;
      const isPayout = before.kind === 'payout';
      const leave = tx`file_id = null, transaction_number = null`;
      if (row.file === 'canceled') {
        // A refund that was signed stays in its file, because somebody may send that.
        if (before.state === 'approved') await write(leave);
        return;
      }
      if (before.state === 'sent' && row.mined) await write(tx`txid = ${row.txid}`);
      const target = targetState(row);
      for (const state of statesBetween(before.state, target)) {
        const after = await step({
          state,
          txid: state === 'signed' ? null : row.txid,
          failure: state === 'failed' ? failureText(row) : null,
        });
        if (after.kind === 'refund' && (state === 'confirmed' || state === 'failed')) await release(tx, after);
      }
      if (!isPayout) return;
      if (target === 'confirmed' || target === 'failed') await write(tx`published_until = null`);
      // The transaction failed, and anybody can still send the authorizations: so the next file, which has the same ones, may do that.
      else if (row.file === 'confirmed' || row.file === 'failed')
        await write(tx`${leave}, published_until = ${row.validBefore}, failure = ${WAITS}`);
    }),
  );

/** Follows the transactions that members sent. */
export const followSentByHand = (ctx: Context): Promise<void> =>
  followHandSent(ctx, (one, isPaid) =>
    ctx.db.begin((tx) =>
      changeOutgoing(ctx, tx, one, async ({ rows, write, step }) => {
        const { state, txid, sweepId }: OutgoingPayment = rows[0]!;
        if (state !== 'sent' || txid !== one.txid || sweepId !== null) return;
        if (await isPaid(tx)) return void (await step({ state: 'confirmed', txid, failure: null }));
        // The final transaction that a member entered does not pay it, so the member may enter another one.
        await write(tx`failure = ${unpaidText(one)}, missed = 0`);
        await notifyOfOutgoing(ctx, tx, [one], 'failed');
      }),
    ),
  );

/** Those whose file or transactions moved on. The address of its payment pays a refund from an account. */
function readInFiles({ db: { sql } }: Context): Promise<readonly Execution[]> {
  return sql<Execution[]>`
    select o.kind, o.id, o.merchant_id as "merchantId", o.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid,
      o.coin, o.anchor, f.payer as "from", u.until as "validBefore", coalesce(${isExpired(sql, sql`u.until`)}, true) as expired,
      jsonb_array_length(coalesce(o.parts -> 'parts', '[]')) > 1 as gathers
    from outgoing_payments o join signing_files s on s.id = o.file_id
    left join deposit_addresses a on a.payment_id = o.payment_id and a.wallet_id = s.wallet_id
    cross join lateral (
      select coalesce(a.address, o.parts -> 'parts' -> 0 ->> 'address',
        case when o.kind = 'payout' and o.anchor like 'nonce:%' then split_part(o.anchor, ':', 2) end) as payer
    ) f
    cross join lateral (
      select greatest(o.published_until, (s.file -> 'requests' -> o.transaction_number ->> 'validBefore')::bigint) as until
    ) u
    cross join lateral ${transactionsOf(sql, { number: sql`o.transaction_number`, from: sql`f.payer` })} t
    where o.file_id is not null and o.state in ('approved', 'signed', 'sent')
      and ((s.state = 'canceled' and (o.kind = 'payout' or o.state = 'approved'))
        or (s.state in ('confirmed', 'failed')
          and (o.kind = 'payout' or t.mined or coalesce(${isExpired(sql, sql`u.until`)}, true)))
        or (o.state = 'approved' and t.signed) or (o.state = 'signed' and t.sent)
        or (o.state = 'sent' and o.txid is distinct from t.txid and t.mined))
    order by o.number limit ${BATCH}`;
}

/** Payouts that are in no file, and whose published authorizations expired. */
function readExpired({ db: { sql } }: Context): Promise<readonly Execution[]> {
  return sql<Execution[]>`
    select kind, id, merchant_id as "merchantId", mode, null as "sweepId", 'failed' as file, null as failure, true as signed,
      state = 'sent' as sent, false as mined, txid, coin, anchor, parts -> 'parts' -> 0 ->> 'address' as "from",
      published_until as "validBefore", true as expired, jsonb_array_length(coalesce(parts -> 'parts', '[]')) > 1 as gathers
    from outgoing_payments
    where state in ('signed', 'sent') and file_id is null and published_until is not null and ${isExpired(sql, sql`published_until`)}
    order by published_until limit ${BATCH}`;
}

/**
 * Frees the deposits of an account from the file of a refund that ended: all of them if nothing was paid, else those of which a part is
 * left. Before that, somebody might have sent the refund.
 */
async function release(tx: Tx, { coin, paymentId, sweepId, state }: Refund): Promise<void> {
  if (kindOf(coin) !== 'ethereum') return;
  await tx`
    update signing_inputs i set released_at = clock_timestamp(), taken_units = case when ${state !== 'failed'} then i.units end from transfers t
    where i.file_id = ${sweepId} and i.payment_id = ${paymentId} and i.released_at is null
      and t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref and (${state === 'failed'} or i.units < t.units)`;
}

/** Whether an authorization expired at a second, so long ago that the blocks before it are final. Null for null. */
const isExpired = (sql: Sql, second: Fragment): Fragment => sql`(${second} < extract(epoch from clock_timestamp()) - ${EXPIRED_SECONDS})`;

/**
 * The transactions of the request with a number in the file `s`, in all its rounds: they spend the same output, or use the same nonce of an
 * account or of an authorization. `from`: the account that pays; a mined transaction may have left its money where it was.
 */
const transactionsOf = (sql: Sql, { number, from }: { number: Fragment; from: Fragment }): Fragment => sql`(
  select count(*) > 0 as signed, coalesce(bool_or(block_height is not null or (sent_at is not null and refusal is null)), false) as sent,
    coalesce(bool_or(block_height is not null and not lower(coalesce(${from}, '')) = any(unmoved)), false) as mined,
    (array_agg(txid order by (block_height is not null) desc, (sent_at is not null) desc, round desc))[1] as txid
  from signed_transactions where file_id = s.id and number = ${number}
)`;

/**
 * Whether a mined transaction paid it, of its file or, before its authorization expired, of anybody who sent that. Null: nobody knows now.
 */
const wasPaid = async (ctx: Context, one: Execution): Promise<boolean | null> =>
  targetState(one) === 'failed' && one.validBefore !== null ? wasExecuted(ctx, one) : one.mined;

/** Whether anybody sent an authorization before it expired; null: nobody knows now. */
async function wasExecuted(any: Context, { id, mode, coin, from, anchor, validBefore }: Execution): Promise<boolean | null> {
  const ctx = forMode(any, mode);
  const chain = ctx.chains.get(COIN[coin].chain);
  const contract = contractOf(coin, ctx.settings.networks[COIN[coin].chain]);
  if (!chain || contract === null || from === null || anchor === null || validBefore === null) return null;
  try {
    const { time } = await chain.tip();
    if (BigInt(Math.floor(time.getTime() / 1000)) <= validBefore) return null;
    return (await usedAmong(chain, contract, [{ from, nonce: anchor }])).size > 0;
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    ctx.log.warn({ err: error, object: id }, 'Could not read whether an authorization was executed; trying again');
    return null;
  }
}

/** Where a refund or a payout is, by what is known about its file and its transactions. */
export function targetState({
  file,
  signed,
  sent,
  mined,
  expired,
}: Pick<Execution, 'file' | 'signed' | 'sent' | 'mined' | 'expired'>): RefundState {
  if ((file === 'confirmed' || file === 'failed') && (mined || expired)) return mined ? 'confirmed' : 'failed';
  return sent ? 'sent' : signed ? 'signed' : 'approved';
}
const NEXT: Readonly<Partial<Record<RefundState, RefundState>>> = { approved: 'signed', signed: 'sent', sent: 'confirmed' };
/** The states after `from` on the way to `to`; none, if it does not lead there. */
export function statesBetween(from: RefundState, to: RefundState): RefundState[] {
  const path: RefundState[] = [];
  for (let at = from; at !== to; ) {
    const next = mayBecome(at, to) ? to : NEXT[at];
    if (next === undefined) return [];
    path.push(next);
    at = next;
  }
  return path;
}

const anchorText = (anchor: string): string => {
  const account = accountOfAnchor(anchor);
  return account === null ? `spends the output ${anchor}` : `uses the nonce ${nonceIn(anchor)} of the account ${account}`;
};
/** Why one failed. An earlier file may have paid it: what all its transactions use shows that. */
export function failureText({
  kind,
  failure,
  anchor,
  from,
  validBefore,
  gathers,
}: Pick<Execution, 'kind' | 'failure' | 'anchor' | 'from' | 'validBefore' | 'gathers'>): string {
  const [paid, again] = kind === 'refund' ? ['the customer', 'to free its amount'] : ['the recipient', 'and request it again'];
  if (validBefore !== null) {
    const comma = kind === 'refund' ? '' : ',';
    const expired = `The authorization of this ${kind} expired before anybody sent it. Nothing was paid: cancel this ${kind}${comma} ${again}.`;
    return gathers ? `${expired} Deposits that pay it together may have been moved to the deposit address ${from}.` : expired;
  }
  return [
    `${failure ?? 'another transaction spent the money'}.`,
    ...(anchor === null ? [] : [`Every transaction of this ${kind} ${anchorText(anchor)}.`]),
    `Check in a block explorer where the money went: ${paid} may have been paid.`,
  ].join(' ');
}
