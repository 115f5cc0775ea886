/** What the transactions of a signing file, and others that used what it signed, say about a refund or a payout in it. */
import { ChainError } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, contractOf } from '#core/coin';
import { mayBecome, type RefundState } from '#core/refund';
import { dueIf, type Fragment, type Sql } from '#db';
import { usedAmong } from './canceled.ts';
import { accountOfAnchor, nonceIn } from './holdings.ts';
import { EXPIRED_SECONDS } from './make-accounts.ts';
import type { SweepState } from './signing-files.ts';

export type Execution = {
  file: SweepState;
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
};

/** The channel that wakes those who follow money that leaves, and how often they look while some is under way. */
export const MONEY_OUT = 'money_out';
export const FOLLOW_MS = 1_000;
/** The queue of refunds or payouts that are under way, or in a signing file. */
export const following = (table: 'refunds' | 'payouts') => ({
  name: MONEY_OUT,
  againMs: FOLLOW_MS,
  due: (sql: Sql): Fragment =>
    dueIf(
      sql,
      sql`exists (select 1 from ${sql(table)} where mode = 'live' and state in ('approved', 'signed', 'sent')
        and (file_id is not null or state <> 'approved'))`,
    ),
});

/** Whether an authorization expired at a second, so long ago that the blocks before it are final. Null for null. */
export const isExpired = (sql: Sql, second: Fragment): Fragment =>
  sql`(${second} < extract(epoch from clock_timestamp()) - ${EXPIRED_SECONDS})`;

/**
 * The transactions of the request with a number in the sweep `s`, in all its rounds: they spend the same output, or use the same nonce of an
 * account or of an authorization. `from`: the account that pays; a mined transaction may have left its money where it was.
 */
export const transactionsOf = (sql: Sql, { number, from }: { number: Fragment; from: Fragment }): Fragment => sql`(
  select count(*) > 0 as signed, coalesce(bool_or(block_height is not null or (sent_at is not null and refusal is null)), false) as sent,
    coalesce(bool_or(block_height is not null and not lower(coalesce(${from}, '')) = any(unmoved)), false) as mined,
    (array_agg(txid order by (block_height is not null) desc, (sent_at is not null) desc, round desc))[1] as txid
  from signed_transactions where file_id = s.id and number = ${number}
)`;

/**
 * Whether a mined transaction paid it, of its file or, before its authorization expired, of anybody who sent that. Null: nobody knows now.
 */
export const wasPaid = async (ctx: Context, one: Execution & { id: string }): Promise<boolean | null> =>
  targetState(one) === 'failed' && one.validBefore !== null ? wasExecuted(ctx, one) : one.mined;

/** Whether anybody sent an authorization before it expired; null: nobody knows now. */
async function wasExecuted(ctx: Context, { id, coin, from, anchor, validBefore }: Execution & { id: string }): Promise<boolean | null> {
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
