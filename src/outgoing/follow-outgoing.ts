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
import type { RefundEventType } from '#core/event';
import { mayBecome, type RefundState } from '#core/refund';
import { dueIf, type Fragment, type Sql, startQueue, type Tx } from '#db';
import { accountOfAnchor, EXPIRED_SECONDS, FOLLOW_MS, MONEY_OUT, nonceIn, type Sweep, usedAmong } from '#signing';
import { followHandSent, type HandSent, type IsPaid, tellUnpaid, unpaidText } from './hand-sent.ts';
import { changePayout, PAYOUT_COLUMNS, type Payout, writeStep } from './payouts.ts';
import { changeRefund, REFUND_COLUMNS, type Refund } from './refunds.ts';

/** Refunds, or payouts, of one round. */
const BATCH = 100;

type Execution = {
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

type Table = 'refunds' | 'payouts';

/** Starts the loop; `stop` waits for the current round. */
export function startOutgoing(ctx: Context): { stop(): Promise<void> } {
  const isUnderWay = (sql: Sql, table: Table): Fragment => sql`
    exists (select 1 from ${sql(table)} where mode = 'live' and state in ('approved', 'signed', 'sent')
      and (file_id is not null or state <> 'approved'))`;
  return startQueue(ctx, {
    name: MONEY_OUT,
    againMs: FOLLOW_MS,
    due: (sql) => dueIf(sql, sql`${isUnderWay(sql, 'refunds')} or ${isUnderWay(sql, 'payouts')}`),
    round: async () => {
      const moved = [await followRefunds(ctx), await followPayouts(ctx)];
      await followSentRefunds(ctx);
      await followSentPayouts(ctx);
      return moved.includes(BATCH);
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not follow refunds and payouts; retrying'),
  });
}

/** One round of those in signing files. Returns how many moved on. */
export const followRefunds = (ctx: Context): Promise<number> => followFiles(ctx, REFUNDS);
export const followPayouts = (ctx: Context): Promise<number> => followFiles(ctx, PAYOUTS);
/** Follows the transactions that members sent. */
export const followSentRefunds = (ctx: Context): Promise<void> => followSent(ctx, REFUNDS);
export const followSentPayouts = (ctx: Context): Promise<void> => followSent(ctx, PAYOUTS);

async function followFiles(ctx: Context, kind: Kind): Promise<number> {
  let moved = 0;
  for (const row of await kind.read(ctx)) {
    try {
      const mined = await wasPaid(ctx, row);
      if (mined === null) continue;
      await moveOn(ctx, kind, { ...row, mined });
      moved++;
    } catch (error) {
      ctx.log.error({ err: error, object: row.id }, 'Could not follow a refund or payout; the others continue');
    }
  }
  return moved;
}

const moveOn = (ctx: Context, kind: Kind, row: Execution): Promise<unknown> =>
  ctx.db.begin((tx) =>
    kind.change(ctx, tx, row, async ({ before, update, step }) => {
      // Another watcher may already have put it into another file, which spends the same.
      if (before.sweepId !== row.sweepId) return;
      if (row.file === 'canceled') {
        const columns = kind.free(tx, before.state);
        return columns === null ? undefined : update(columns);
      }
      if (before.state === 'sent' && row.mined) await update(tx`txid = ${row.txid}`);
      const target = targetState(row);
      for (const state of statesBetween(before.state, target))
        await step({ state, txid: state === 'signed' ? null : row.txid, failure: state === 'failed' ? kind.failure(row) : null });
      await kind.publish(update, tx, row, target);
    }),
  );

const followSent = (ctx: Context, kind: Kind): Promise<void> =>
  followHandSent(ctx, kind.table, (one, isPaid) => concludeHandSent(ctx, kind, one, isPaid));

/** The final transaction that a member entered pays it, or it does not: then the member may enter another one. */
const concludeHandSent = (ctx: Context, kind: Kind, one: HandSent, isPaid: IsPaid): Promise<unknown> =>
  ctx.db.begin((tx) =>
    kind.change(ctx, tx, one, async ({ before, update, step }) => {
      if (before.state !== 'sent' || before.txid !== one.txid || before.sweepId !== null) return;
      if (await isPaid(tx)) return step({ state: 'confirmed', txid: one.txid, failure: null });
      await update(tx`failure = ${unpaidText(one)}, missed = 0`);
      await tellUnpaid(ctx, tx, kind.table, one);
    }),
  );

// What refunds and payouts do in their own ways.

type Step = { state: RefundState; txid: string | null; failure: string | null };
/** One that is locked: as it was, and how to change columns of it or take a step, which is reported. */
type Locked = {
  before: Pick<Refund, 'state' | 'txid' | 'sweepId'>;
  update(columns: Fragment): Promise<void>;
  step(step: Step): Promise<void>;
};
type Kind = {
  table: Table;
  /** Those whose file or transactions moved on. */
  read(ctx: Context): Promise<readonly Execution[]>;
  /** Why it failed. */
  failure(row: Execution): string;
  change(
    ctx: Context,
    tx: Tx,
    of: { merchantId: string; mode: Mode; id: string },
    write: (locked: Locked) => Promise<void>,
  ): Promise<unknown>;
  /** The columns that take it out of a canceled file; null: in this state it stays, because somebody may send what was signed. */
  free(tx: Tx, state: RefundState): Fragment | null;
  /** Records whether others can still send its authorizations. */
  publish(update: Locked['update'], tx: Tx, row: Execution, target: RefundState): Promise<void>;
};

const EVENTS: Readonly<Partial<Record<RefundState, RefundEventType>>> = {
  sent: 'refund.sent',
  confirmed: 'refund.confirmed',
  failed: 'refund.failed',
};
const REFUNDS: Kind = {
  table: 'refunds',
  read: readRefunds,
  failure: (row) =>
    row.validBefore !== null
      ? 'The authorization of this refund expired before anybody sent it. Nothing was paid: cancel this refund to free its amount.'
      : failureText({ ...row, what: 'refund', paid: 'the customer' }),
  change: (ctx, tx, { merchantId, mode, id }, write) =>
    changeRefund(ctx, tx, { merchantId, mode, id }, async (before, { now }) => {
      let refund = before;
      const events: [RefundEventType, Refund][] = [];
      const update = async (columns: Fragment) => {
        [refund = refund] = await tx<Refund[]>`update refunds set ${columns} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      };
      await write({
        before,
        update,
        step: async ({ state, txid, failure }) => {
          const ends = state === 'confirmed' || state === 'failed';
          const sentAt = state === 'sent' || state === 'confirmed' ? (refund.sentAt ?? now) : refund.sentAt;
          await update(tx`state = ${state}, txid = ${txid}, failure = ${failure}, sent_at = ${sentAt}, ended_at = ${ends ? now : null}`);
          if (ends) await release(tx, refund);
          const type = EVENTS[state];
          if (type) events.push([type, refund]);
        },
      });
      return { refund, events };
    }),
  free: (tx, state) => (state === 'approved' ? tx`file_id = null, transaction_number = null` : null),
  publish: async () => {},
};

const WAITS = 'Its transaction did not pay it. Make the next signing file, which pays it with the same authorizations.';
const PAYOUTS: Kind = {
  table: 'payouts',
  read: async (ctx) => [...(await readPayouts(ctx)), ...(await readExpired(ctx))],
  failure: (row) =>
    row.validBefore === null
      ? failureText({ ...row, what: 'payout', paid: 'the recipient' })
      : [
          'The authorization of this payout expired before anybody sent it. Nothing was paid: cancel this payout, and request it again.',
          ...(row.gathers ? [`Deposits that pay it together may have been moved to the deposit address ${row.from}.`] : []),
        ].join(' '),
  change: (ctx, tx, { merchantId, mode, id }, write) =>
    changePayout(tx, { merchantId, mode, id }, async (before, now) => {
      let payout = before;
      await write({
        before,
        update: async (columns) => {
          [payout = payout] = await tx<Payout[]>`update payouts set ${columns} where id = ${id} returning ${PAYOUT_COLUMNS(tx)}`;
        },
        step: async (step) => {
          payout = await writeStep(ctx, tx, { ...step, id, now });
        },
      });
      return payout;
    }),
  free: (tx) => tx`file_id = null, transaction_number = null, failure = case when published_until is not null then ${WAITS} end`,
  publish: async (update, tx, { file, validBefore }, target) => {
    if (target === 'confirmed' || target === 'failed') await update(tx`published_until = null`);
    // The transaction failed, and anybody can still send the authorizations: so the next file, which has the same ones, may do that.
    else if (file === 'confirmed' || file === 'failed')
      await update(tx`file_id = null, transaction_number = null, published_until = ${validBefore}, failure = ${WAITS}`);
  },
};

function readRefunds({ db: { sql } }: Context): Promise<readonly Execution[]> {
  return sql<Execution[]>`
    select r.id, r.merchant_id as "merchantId", r.mode, s.id as "sweepId", s.state as file, s.failure, t.signed, t.sent, t.mined, t.txid,
      r.coin, r.anchor, a.address as "from", u.until as "validBefore", coalesce(${isExpired(sql, sql`u.until`)}, true) as expired, false as gathers
    from refunds r join signing_files s on s.id = r.file_id
    left join deposit_addresses a on a.payment_id = r.payment_id and a.wallet_id = s.wallet_id
    cross join lateral (select (s.file->'requests'->r.transaction_number->>'validBefore')::bigint as until) u
    cross join lateral ${transactionsOf(sql, { number: sql`r.transaction_number`, from: sql`a.address` })} t
    where r.file_id is not null and r.state in ('approved', 'signed', 'sent')
      and ((s.state = 'canceled' and r.state = 'approved')
        or (s.state in ('confirmed', 'failed')
          and (t.mined or coalesce(${isExpired(sql, sql`u.until`)}, true)))
        or (r.state = 'approved' and t.signed) or (r.state = 'signed' and t.sent)
        or (r.state = 'sent' and r.txid is distinct from t.txid and t.mined))
    order by r.number limit ${BATCH}`;
}

function readPayouts({ db: { sql } }: Context): Promise<readonly Execution[]> {
  return sql<Execution[]>`
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
function readExpired({ db: { sql } }: Context): Promise<readonly Execution[]> {
  return sql<Execution[]>`
    select id, merchant_id as "merchantId", mode, null as "sweepId", 'failed' as file, null as failure, true as signed, state = 'sent' as sent,
      false as mined, txid, coin, anchor, parts -> 'parts' -> 0 ->> 'address' as "from", published_until as "validBefore", true as expired,
      jsonb_array_length(coalesce(parts -> 'parts', '[]')) > 1 as gathers
    from payouts
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
async function wasExecuted(ctx: Context, { id, coin, from, anchor, validBefore }: Execution): Promise<boolean | null> {
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
/** An earlier file may have paid it. What all its transactions use shows that. `paid`: who may have got the money. */
export const failureText = ({
  failure,
  anchor,
  what,
  paid,
}: Pick<Execution, 'failure' | 'anchor'> & { what: 'refund' | 'payout'; paid: string }): string =>
  [
    `${failure ?? 'another transaction spent the money'}.`,
    ...(anchor === null ? [] : [`Every transaction of this ${what} ${anchorText(anchor)}.`]),
    `Check in a block explorer where the money went: ${paid} may have been paid.`,
  ].join(' ');
