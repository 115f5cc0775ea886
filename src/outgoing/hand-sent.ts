/**
 * Looks for the transactions with which members sent refunds and payouts from their own wallets: whether they are final, and pay what they
 * should, beside all else for which they were recorded. Where no source can find a transaction, or say what it pays, nothing is concluded.
 */

import { decodeAddress } from '#addresses';
import { ChainError, type JoinedSource, orNull, readAccountPayments } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, coinText, contractOf, isToken, kindOf, LIGHTNING, type Mode, onChainCoin } from '#core/coin';
import { formatUnits, lightningUnits } from '#core/money';
import { Problem } from '#core/problem';
import type { Fragment, Sql, Tx } from '#db';
import { readEndHeight } from '#signing';
import { notifyOfOutgoing } from './approvals.ts';
import type { OutgoingKind } from './outgoing-payments.ts';

/** How often each one is looked for, and how many in one round. */
const LOOK_SECONDS = 60;
const LOOKS = 10;
/** After so many looks in which nothing found it, its merchant is notified, because the network shows a transaction within seconds. */
const MISSES_TO_TELL = 30;

type HandSent = {
  kind: OutgoingKind;
  id: string;
  merchantId: string;
  mode: Mode;
  coin: Coin;
  units: bigint;
  address: string;
  txid: string;
  sentAt: Date;
  /** In how many looks nothing found it since it was entered; null: none yet. */
  missed: number | null;
};

/** What an address on-chain gets of what arrived over Lightning is bitcoin. */
const paidCoin = (sql: Sql | Tx, one: Fragment): Fragment =>
  sql`case when ${one}.coin = ${LIGHTNING} then ${onChainCoin(LIGHTNING)} else ${one}.coin end`;
const paidUnits = (sql: Sql | Tx, one: Fragment): Fragment =>
  sql`case when ${one}.coin = ${LIGHTNING} then div(${one}.units, ${lightningUnits(onChainCoin(LIGHTNING), 1n).toString()}::numeric) else ${one}.units end`;

/** Whether the transaction pays it, beside all others that it pays. Only one at a time can find out. */
type IsPaid = (tx: Tx) => Promise<boolean>;

/** Looks for those that were not looked for the longest, and writes down what became of each. */
export async function followHandSent(ctx: Context, write: (one: HandSent, isPaid: IsPaid) => Promise<unknown>): Promise<void> {
  const { sql } = ctx.db;
  const found = await sql<HandSent[]>`
    update outgoing_payments as r set looked_at = clock_timestamp()
    from (
      select id from outgoing_payments
      where state = 'sent' and file_id is null and mode = 'live' and (failure is null or missed > 0) and address is not null
        and (looked_at is null or looked_at < clock_timestamp() - make_interval(secs => ${LOOK_SECONDS}))
      order by looked_at nulls first, number limit ${LOOKS} for update skip locked
    ) chosen
    where r.id = chosen.id
    returning r.kind, r.id, r.merchant_id as "merchantId", r.mode, ${paidCoin(sql, sql`r`)} as coin, ${paidUnits(sql, sql`r`)} as units, r.address, r.txid, r.sent_at as "sentAt", r.missed`;
  await Promise.all(
    found.map(async (one) => {
      try {
        const sight = await lookFor(ctx, one);
        if (typeof sight === 'string') await writeSight(ctx, one, sight);
        else if (sight.isFinal) await write(one, async (tx) => leftOf(sight, await takenOf(ctx, tx, one)) >= one.units);
        else await writeSight(ctx, one, 'waits');
      } catch (error) {
        ctx.log.warn({ err: error, id: one.id }, 'Could not follow a transaction that a member sent; trying again');
      }
    }),
  );
}

/** What to say about a transaction that is final and pays too little. */
export const unpaidText = ({ txid, coin, units }: HandSent): string =>
  `The transaction ${txid} does not pay ${formatUnits(coin, units)} ${coinText(coin)} to the address. Enter the right transaction.`;
const missingText = ({ txid }: HandSent): string =>
  `No source knows the transaction ${txid}. If it has a typing error, enter the right transaction.`;

/** What a transaction pays to the address, and each other output or transfer, its change too. */
type Pays = { own: bigint; others: readonly To[]; isFinal: boolean };
type To = { key: string | null; units: bigint };
/** What a look shows: what the transaction pays, or less. */
type Sight = Pays | 'waits' | 'unknown' | 'cannot tell';
/** Writes down whether it was found. The merchant is notified once that it was not. */
const writeSight = (ctx: Context, one: HandSent, sight: Exclude<Sight, Pays>): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const missed = sight === 'waits' ? 0 : (one.missed ?? 0) + 1;
    const isNews = sight === 'unknown' && missed === MISSES_TO_TELL;
    const failure = sight === 'unknown' && missed >= MISSES_TO_TELL ? missingText(one) : null;
    const written = await tx`
      update outgoing_payments set missed = ${missed}, failure = ${failure}
      where id = ${one.id} and state = 'sent' and file_id is null and txid = ${one.txid} and (failure is null or missed > 0)`;
    if (written.count > 0 && isNews) await notifyOfOutgoing(ctx, tx, [one], 'failed');
  });

/** For what a transaction was recorded: refunds and payouts by address, and what members say went back, where nobody knows to whom. */
type Taken = { own: bigint; others: readonly To[]; somewhere: readonly bigint[] };
/** A member may have kept a fee of what they returned, at most so large a part. */
const KEPT_PERCENT = 10n;
/**
 * What went back to nobody knows whom is an output of nearly that amount that nothing else was recorded for. Change is any amount, so no
 * other one can be that. Returns what is in no output, and the outputs that are left.
 */
function allot(outputs: readonly To[], { others, somewhere }: Pick<Taken, 'others' | 'somewhere'>): { missing: bigint; left: To[] } {
  const left = outputs.map((one) => ({ ...one }));
  for (const { key, units } of others) {
    let rest = units;
    for (const one of left) {
      if (one.key !== key) continue;
      const part = one.units < rest ? one.units : rest;
      one.units -= part;
      rest -= part;
    }
  }
  let missing = 0n;
  for (const units of somewhere) {
    const place = left.findIndex((one) => one.units <= units && one.units * 100n >= units * (100n - KEPT_PERCENT));
    if (place < 0) missing += units;
    else left.splice(place, 1);
  }
  return { missing, left };
}
/** What is left of it for the address. */
const leftOf = ({ own, others }: Pays, taken: Taken): bigint => own - taken.own - allot(others, taken).missing;

/** `id`: of a refund or payout, or of the payment whose money is said to have gone back. `address`: null for nobody knows which. */
type Claim = { id: string; mode: Mode; coin: Coin; txid: string; address: string | null };
/**
 * What others have of the same transaction: refunds and payouts of any merchant that it paid, that a signing file pays with it, or for which
 * it was entered before, also refunds of shops that fit no payment, and what members said it returned of payments.
 */
async function takenOf(ctx: Context, tx: Tx, { id, mode, coin, txid, address }: Claim): Promise<Taken> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`hand-sent ${txid}`}, 0))`;
  const rows = await tx<{ address: string | null; units: bigint }[]>`
    with all_paid as (
      select id, mode, ${paidCoin(tx, tx`o`)} as coin, address, txid, state, ${paidUnits(tx, tx`o`)} as units, file_id, failure, sent_at
        from outgoing_payments o where txid = ${txid}
      union all select id, mode, coin, address, txid, 'confirmed', units, null, null, sent_at from shop_refunds
        where txid = ${txid} and units is not null
    ), own as (select sent_at from all_paid where id = ${id})
    select o.address, o.units from all_paid o
    where o.mode = ${mode} and o.coin = ${coin} and o.id <> ${id} and o.address is not null
      and (o.state = 'confirmed' or (o.state = 'sent' and (o.file_id is not null or (o.failure is null
        and (o.sent_at, o.id) < (coalesce((select sent_at from own), 'infinity'), ${id})))))
    union all
    select a.address, r.units from (${returnedWith(tx, txid)}) r
    join payments p on p.id = r.payment_id and p.mode = ${mode}
    left join refund_addresses a on a.payment_id = r.payment_id and a.coin = r.coin
    where r.coin = ${coin} and r.units > 0 and r.payment_id <> ${id} and r.at <= coalesce((select sent_at from own), 'infinity')`;
  const own = address === null ? null : keyOf(ctx, coin, address);
  const known = rows.flatMap(({ address: to, units }): To[] => (to === null ? [] : [{ key: keyOf(ctx, coin, to), units }]));
  const isOwn = ({ key }: To): boolean => own !== null && key === own;
  return {
    own: known.reduce((sum, one) => (isOwn(one) ? sum + one.units : sum), 0n),
    others: known.filter((one) => !isOwn(one)),
    somewhere: rows.flatMap(({ address: to, units }) => (to === null ? [units] : [])),
  };
}

/** By payment and coin: what members last said a transaction returned. What refunds had returned by then is not part of it. */
const returnedWith = (tx: Tx, txid: string): Fragment => tx`
  select l.payment_id, t.coin, min(l.at) as at, sum(t.units) - coalesce((select sum(r.units) from outgoing_payments r
    where r.payment_id = l.payment_id and r.coin = t.coin and r.state in ('sent', 'confirmed') and r.sent_at <= min(l.at)), 0) as units
  from (
    select distinct on (d.payment_id, ref) d.payment_id, ref, d.kind, d.txid, d.at
    from decisions d cross join lateral unnest(d.transfers) as ref
    where d.kind <> 'cancel' and d.payment_id in (
      select payment_id from decisions where kind = 'refund_sent' and lower(txid) in (${txid}, ${txid.replace(/^0x/, '')}))
    order by d.payment_id, ref, d.number desc
  ) l join transfers t on t.payment_id = l.payment_id and t.ref = l.ref
  where l.kind = 'refund_sent' and lower(l.txid) in (${txid}, ${txid.replace(/^0x/, '')})
  group by l.payment_id, t.coin`;

/**
 * Before a member says that a transaction returned the money of a payment: it is looked up, and where it was recorded for something else, it
 * must pay both. The result is checked in the transaction that records it. Errors: parameter_invalid (txid).
 */
export async function lookForReturn(
  ctx: Context,
  { merchantId, mode, paymentId, txid: given }: { merchantId: string; mode: Mode; paymentId: string; txid: string },
): Promise<(tx: Tx) => Promise<void>> {
  const { sql } = ctx.db;
  const text = given.toLowerCase();
  if (!/^(0x)?[0-9a-f]{64}$/.test(text)) return async () => {};
  const found = await sql<{ coin: Coin; address: string | null }[]>`
    select distinct t.coin, a.address
    from payments p join transfers t on t.payment_id = p.id left join refund_addresses a on a.payment_id = t.payment_id and a.coin = t.coin
    where p.id = ${paymentId} and p.merchant_id = ${merchantId} and p.mode = ${mode}`;
  const looks = await Promise.all(
    found.map(async ({ coin, address }) => {
      const txid = kindOf(coin) === 'ethereum' && !text.startsWith('0x') ? `0x${text}` : text;
      return { coin, address, txid, sight: await lookFor(ctx, { coin, address, txid }) };
    }),
  );
  return async (tx) => {
    for (const { coin, address, txid, sight } of looks) {
      if (typeof sight === 'string') continue;
      const taken = await takenOf(ctx, tx, { id: paymentId, mode, coin, txid, address });
      if (taken.own === 0n && taken.others.length + taken.somewhere.length === 0) continue;
      const [row] = await tx<{ units: bigint }[]>`
        select units from (${returnedWith(tx, txid)}) r where r.payment_id = ${paymentId} and r.coin = ${coin}`;
      const units = row?.units ?? 0n;
      const { missing } = allot(sight.others, { ...taken, somewhere: [...taken.somewhere, units] });
      if (address === null ? missing === 0n : leftOf(sight, taken) >= units) continue;
      const reason = 'the transaction pays other refunds or payouts, and not this money too; enter the right one, or leave it out';
      throw new Problem('parameter_invalid', { reason }, { param: 'txid' });
    }
  };
}

/** What all spellings of an address have in common; null: it is not an address. */
function keyOf(ctx: Context, coin: Coin, address: string): string | null {
  try {
    return decodeAddress(address, { coin, network: ctx.settings.networks[COIN[coin].chain] }).key;
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

type Looked = Pick<Claim, 'coin' | 'address' | 'txid'>;
async function lookFor(ctx: Context, one: Looked): Promise<Sight> {
  const chain = ctx.chains.get(COIN[one.coin].chain);
  if (!chain) return 'cannot tell';
  try {
    return kindOf(one.coin) === 'ethereum' ? await paidToAccount(ctx, chain, one) : await paidByOutputs(ctx, chain, one);
  } catch (error) {
    // No source finds transactions, or none can be reached.
    if (error instanceof ChainError) return 'cannot tell';
    throw error;
  }
}

async function isFinal(
  ctx: Context,
  chain: JoinedSource,
  { coin, height, hash }: { coin: Coin; height: number; hash: string },
): Promise<boolean> {
  const tip = await chain.tip();
  return height <= (await readEndHeight(ctx, coin, tip)) && (await chain.blockAt(height))?.hash === hash;
}

async function paidByOutputs(ctx: Context, chain: JoinedSource, { coin, address, txid }: Looked): Promise<Sight> {
  const found = await orNull(chain.transaction(txid));
  if (found === null) return 'unknown';
  const { status, blockHeight: height, blockHash: hash, outputs } = found;
  const isMined = status === 'confirmed' && height !== null && hash !== null;
  return paysOf(
    outputs.map((one) => ({ key: keyOf(ctx, coin, one.address), units: one.units })),
    { to: address === null ? null : keyOf(ctx, coin, address), isFinal: isMined && (await isFinal(ctx, chain, { coin, height, hash })) },
  );
}
function paysOf(all: readonly To[], { to, isFinal }: { to: string | null; isFinal: boolean }): Pays {
  const isOwn = ({ key }: To): boolean => to !== null && key === to;
  return {
    own: all.reduce((sum, one) => (isOwn(one) ? sum + one.units : sum), 0n),
    others: all.filter((one) => !isOwn(one)),
    isFinal,
  };
}

async function paidToAccount(ctx: Context, chain: JoinedSource, { coin, address, txid }: Looked): Promise<Sight> {
  const contract = contractOf(coin, ctx.settings.networks[COIN[coin].chain]);
  if (isToken(coin) && contract === null) return 'cannot tell';
  const paid = await readAccountPayments(chain, { txid, contract });
  if (typeof paid === 'string') return paid;
  const on = { to: address === null ? null : keyOf(ctx, coin, address), isFinal: await isFinal(ctx, chain, { coin, ...paid.block }) };
  const ways = paid.ways.map((way) => paysOf(way, on));
  const best = ways.reduce((most, one) => (one.own >= most.own ? one : most));
  // A contract may have paid it, which only a trace would show. If it did not, the member can correct it.
  return best.own > 0n ? best : paid.isAll ? ways[0]! : 'cannot tell';
}
