/**
 * Looks for the transactions with which members sent refunds and payouts from their own wallets: whether they are final, and pay what they
 * should. Where no source can find a transaction, or say what it pays, nothing is concluded.
 */
import { decodeAddress } from '../chains/address.ts';
import { type Chain, ChainError, orNull } from '../chains/chain.ts';
import { account, arrayOf, hash32, quantity, smallNumber } from '../chains/ethereum/eth-rpc.ts';
import { movesOfLogs, readEthTransaction, readReceipt, TRANSFER } from '../chains/ethereum/value-moves.ts';
import { fields } from '../chains/reply.ts';
import type { Context } from '../context.ts';
import { COIN, type Coin, coinText, contractOf, isToken, kindOf, type Mode } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { readEndHeight } from './holdings.ts';
import { notifyOfPayouts, notifyOfRefund } from './money-notices.ts';

/** How often each one is looked for, and how many in one round. */
const LOOK_SECONDS = 60;
const LOOKS = 10;
/** After so many looks in which nothing found it, its merchant is notified, because the network shows a transaction within seconds. */
const MISSES_TO_TELL = 30;
/** Gas of a transaction that calls no contract. */
const PLAIN_GAS = 21_000n;

export type HandSent = {
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

/** Whether the transaction pays it, beside all others that it pays. Only one at a time can find out. */
export type IsPaid = (tx: Tx) => Promise<boolean>;
type Table = 'refunds' | 'payouts';

/** Looks for those that were not looked for the longest, and writes down what became of each. */
export async function followHandSent(
  ctx: Context,
  table: Table,
  write: (one: HandSent, isPaid: IsPaid) => Promise<unknown>,
): Promise<void> {
  const { sql } = ctx.db;
  const found = await sql<HandSent[]>`
    update ${sql(table)} as r set looked_at = clock_timestamp()
    from (
      select id from ${sql(table)}
      where state = 'sent' and sweep_id is null and mode = 'live' and (failure is null or missed > 0) and address is not null
        and (looked_at is null or looked_at < clock_timestamp() - make_interval(secs => ${LOOK_SECONDS}))
      order by looked_at nulls first, number limit ${LOOKS} for update skip locked
    ) chosen
    where r.id = chosen.id
    returning r.id, r.merchant_id as "merchantId", r.mode, r.coin, r.units, r.address, r.txid, r.sent_at as "sentAt", r.missed`;
  await Promise.all(
    found.map(async (one) => {
      try {
        const sight = await lookFor(ctx, one);
        if (typeof sight === 'bigint') await write(one, async (tx) => sight - (await takenOf(ctx, tx, one)) >= one.units);
        else await writeSight(ctx, table, one, sight);
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

/** What a look shows: the units that a final transaction pays to the address, or less. */
type Sight = bigint | 'waits' | 'unknown' | 'cannot tell';
/** Writes down whether it was found. The merchant is notified once that it was not. */
const writeSight = (ctx: Context, table: Table, one: HandSent, sight: Exclude<Sight, bigint>): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const missed = sight === 'waits' ? 0 : (one.missed ?? 0) + 1;
    const isNews = sight === 'unknown' && missed === MISSES_TO_TELL;
    const failure = sight === 'unknown' && missed >= MISSES_TO_TELL ? missingText(one) : null;
    const written = await tx`
      update ${tx(table)} set missed = ${missed}, failure = ${failure}
      where id = ${one.id} and state = 'sent' and sweep_id is null and txid = ${one.txid} and (failure is null or missed > 0)`;
    if (written.count > 0 && isNews) await tellUnpaid(ctx, tx, table, one);
  });

/** Tells the merchant that what a member entered does not pay. */
export const tellUnpaid = (ctx: Context, tx: Tx, table: Table, one: HandSent): Promise<void> =>
  table === 'refunds' ? notifyOfRefund(ctx, tx, one, 'failed') : notifyOfPayouts(ctx, tx, [one], 'failed');

/**
 * What others have of the same transaction: refunds and payouts to the same address, of any merchant, that it paid, that a signing file pays
 * with it, or for which it was entered before, also for refunds of shops that fit no payment.
 */
async function takenOf(ctx: Context, tx: Tx, one: HandSent): Promise<bigint> {
  const { id, mode, coin, txid } = one;
  await tx`select pg_advisory_xact_lock(hashtextextended(${`hand-sent ${txid}`}, 0))`;
  const rows = await tx<{ address: string; units: bigint }[]>`
    with all_paid as (
      select id, mode, coin, address, txid, state, units, sweep_id, failure, sent_at from refunds
      union all select id, mode, coin, address, txid, state, units, sweep_id, failure, sent_at from payouts
      union all select id, mode, coin, address, txid, 'confirmed', units, null, null, sent_at from shop_refunds where units is not null
    )
    select o.address, o.units from all_paid o, all_paid own
    where own.id = ${id} and o.mode = ${mode} and o.coin = ${coin} and o.txid = ${txid} and o.id <> ${id} and o.address is not null
      and (o.state = 'confirmed'
        or (o.state = 'sent' and (o.sweep_id is not null or (o.failure is null and (o.sent_at, o.id) < (own.sent_at, own.id)))))`;
  const key = keyOf(ctx, coin, one.address);
  return rows.reduce((sum, { address, units }) => (keyOf(ctx, coin, address) === key ? sum + units : sum), 0n);
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

async function lookFor(ctx: Context, one: HandSent): Promise<Sight> {
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

async function isFinal(ctx: Context, chain: Chain, { coin, height, hash }: { coin: Coin; height: number; hash: string }): Promise<boolean> {
  const tip = await chain.tip();
  return height <= (await readEndHeight(ctx, coin, tip)) && (await chain.blockAt(height))?.hash === hash;
}

async function paidByOutputs(ctx: Context, chain: Chain, { coin, address, txid }: HandSent): Promise<Sight> {
  const found = await orNull(chain.transaction(txid));
  if (found === null) return 'unknown';
  if (found.status !== 'confirmed' || found.blockHeight === null || found.blockHash === null) return 'waits';
  if (!(await isFinal(ctx, chain, { coin, height: found.blockHeight, hash: found.blockHash }))) return 'waits';
  const key = keyOf(ctx, coin, address);
  return found.outputs.reduce((sum, output) => (keyOf(ctx, coin, output.address) === key ? sum + output.units : sum), 0n);
}

async function paidToAccount(ctx: Context, chain: Chain, { coin, address, txid }: HandSent): Promise<Sight> {
  const replies = await chain.ask([
    ['eth_getTransactionReceipt', txid],
    ['eth_getTransactionByHash', txid],
  ]);
  const [receipt, transaction] = replies.map((reply) => (reply.error ? undefined : reply.result));
  if (receipt === undefined || transaction === undefined) return 'cannot tell';
  if (transaction === null) return 'unknown';
  if (receipt === null) return 'waits';
  const { blockNumber, blockHash, gasUsed } = fields(receipt);
  if (!(await isFinal(ctx, chain, { coin, height: smallNumber(blockNumber), hash: hash32(blockHash) }))) return 'waits';
  const { ok, logs, feeUnits } = readReceipt(receipt);
  if (!ok) return 0n;
  const to = account(address);
  const contract = contractOf(coin, ctx.settings.networks[COIN[coin].chain]);
  if (isToken(coin) && contract === null) return 'cannot tell';
  if (contract !== null) {
    const moves = logs.map(fields).filter((log) => account(log.address) === account(contract) && isTransferTo(log.topics, to));
    return moves.reduce((sum, { data }) => sum + quantity(data), 0n);
  }
  const sent = readEthTransaction(transaction);
  const direct = sent.to === to ? sent.units : 0n;
  const logged = movesOfLogs([{ ok, logs, feeUnits }]).reduce((sum, move) => (move.to === to ? sum + move.units : sum), 0n);
  if (direct > 0n || logged > 0n) return direct > logged ? direct : logged;
  // A contract may have paid it, which only a trace would show. If it did not, the member can correct it.
  return quantity(gasUsed) === PLAIN_GAS ? 0n : 'cannot tell';
}
function isTransferTo(topics: unknown, to: string | null): boolean {
  const [topic, , recipient] = arrayOf(topics);
  return topic === TRANSFER && typeof recipient === 'string' && recipient.slice(-40).toLowerCase() === to;
}
