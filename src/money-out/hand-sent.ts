/**
 * Looks for the transactions with which members sent refunds and payouts from their own wallets: whether they are final, and pay what they
 * should. Where no source can find a transaction, or say what it pays, nothing is concluded.
 */
import { decodeAddress } from '../chains/address.ts';
import { type Chain, ChainError, orNull } from '../chains/chain.ts';
import { account, hash32, quantity, rows, smallNumber } from '../chains/ethereum/eth-rpc.ts';
import { movesOfLogs, readReceipt, readTransaction, TRANSFER } from '../chains/ethereum/value-moves.ts';
import { fields } from '../chains/reply.ts';
import type { Context } from '../context.ts';
import { COIN, type Coin, coinText, contractOf, isToken, kindOf, type Mode } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { readEndHeight } from './holdings.ts';

/** How often each one is looked for, and how many in one round. */
const LOOK_SECONDS = 60;
const LOOKS = 10;
/** Gas of a transaction that calls no contract. */
const PLAIN_GAS = 21_000n;

export type HandSent = { id: string; merchantId: string; mode: Mode; coin: Coin; units: bigint; address: string; txid: string };

/** Whether the transaction pays it, beside all others that it paid. Only one at a time can find out. */
export type IsPaid = (tx: Tx) => Promise<boolean>;

/** Looks for those that were not looked for the longest, and writes down what became of each that is final. */
export async function followHandSent(
  ctx: Context,
  table: 'refunds' | 'payouts',
  write: (one: HandSent, isPaid: IsPaid) => Promise<unknown>,
): Promise<void> {
  const { sql } = ctx.db;
  const found = await sql<HandSent[]>`
    update ${sql(table)} as r set looked_at = clock_timestamp()
    from (
      select id from ${sql(table)}
      where state = 'sent' and sweep_id is null and mode = 'live' and failure is null and address is not null
        and (looked_at is null or looked_at < clock_timestamp() - make_interval(secs => ${LOOK_SECONDS}))
      order by looked_at nulls first, number limit ${LOOKS} for update skip locked
    ) chosen
    where r.id = chosen.id returning r.id, r.merchant_id as "merchantId", r.mode, r.coin, r.units, r.address, r.txid`;
  await Promise.all(
    found.map(async (one) => {
      try {
        const units = await unitsPaid(ctx, one);
        if (units !== null) await write(one, async (tx) => units - (await confirmedBy(tx, one)) >= one.units);
      } catch (error) {
        ctx.log.warn({ err: error, id: one.id }, 'Could not follow a transaction that a member sent; trying again');
      }
    }),
  );
}

/** What to say about a transaction that is final and pays too little. */
export const unpaidText = ({ txid, coin, units }: HandSent): string =>
  `The transaction ${txid} does not pay ${formatUnits(coin, units)} ${coinText(coin)} to the address. Enter the right transaction.`;

/** What other refunds and payouts of the merchant to the same address have of the same transaction. */
async function confirmedBy(tx: Tx, { id, merchantId, mode, coin, address, txid }: HandSent): Promise<bigint> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`hand-sent ${txid}`}, 0))`;
  const [row] = await tx<{ units: string }[]>`
    select coalesce(sum(units), 0)::text as units
    from (select id, merchant_id, mode, coin, address, txid, state, units from refunds
      union all select id, merchant_id, mode, coin, address, txid, state, units from payouts) as paid
    where merchant_id = ${merchantId} and mode = ${mode} and state = 'confirmed' and coin = ${coin} and txid = ${txid}
      and address = ${address} and id <> ${id}`;
  return BigInt(row!.units);
}

/** What the transaction pays to the address; null: it is not final, or nobody knows now. */
async function unitsPaid(ctx: Context, one: HandSent): Promise<bigint | null> {
  const chain = ctx.chains.get(COIN[one.coin].chain);
  if (!chain) return null;
  try {
    return kindOf(one.coin) === 'ethereum' ? await paidToAccount(ctx, chain, one) : await paidByOutputs(ctx, chain, one);
  } catch (error) {
    // No source finds transactions, or none can be reached.
    if (error instanceof ChainError) return null;
    throw error;
  }
}

async function isFinal(ctx: Context, chain: Chain, { coin, height, hash }: { coin: Coin; height: number; hash: string }): Promise<boolean> {
  const tip = await chain.tip();
  return height <= (await readEndHeight(ctx, coin, tip)) && (await chain.blockAt(height))?.hash === hash;
}

async function paidByOutputs(ctx: Context, chain: Chain, { coin, address, txid }: HandSent): Promise<bigint | null> {
  const found = await orNull(chain.transaction(txid));
  if (found?.status !== 'confirmed' || found.blockHeight === null || found.blockHash === null) return null;
  if (!(await isFinal(ctx, chain, { coin, height: found.blockHeight, hash: found.blockHash }))) return null;
  const keyOf = (text: string): string | null => {
    try {
      return decodeAddress(text, { coin, network: chain.network }).key;
    } catch (error) {
      if (error instanceof Problem) return null;
      throw error;
    }
  };
  const key = keyOf(address);
  return key === null ? null : found.outputs.reduce((sum, output) => (keyOf(output.address) === key ? sum + output.units : sum), 0n);
}

async function paidToAccount(ctx: Context, chain: Chain, { coin, address, txid }: HandSent): Promise<bigint | null> {
  const [receipt, transaction] = (
    await chain.ask([
      ['eth_getTransactionReceipt', txid],
      ['eth_getTransactionByHash', txid],
    ])
  ).map((reply) => (reply.error ? null : reply.result));
  if (!receipt || !transaction) return null;
  const { blockNumber, blockHash, gasUsed } = fields(receipt);
  if (!(await isFinal(ctx, chain, { coin, height: smallNumber(blockNumber), hash: hash32(blockHash) }))) return null;
  const { ok, logs, feeUnits } = readReceipt(receipt);
  if (!ok) return 0n;
  const to = account(address);
  const contract = contractOf(coin, ctx.settings.networks[COIN[coin].chain]);
  if (isToken(coin) && contract === null) return null;
  if (contract !== null) {
    const moves = logs.map(fields).filter((log) => account(log.address) === account(contract) && isTransferTo(log.topics, to));
    return moves.reduce((sum, { data }) => sum + quantity(data), 0n);
  }
  const sent = readTransaction(transaction);
  const direct = sent.to === to ? sent.units : 0n;
  const logged = movesOfLogs([{ ok, logs, feeUnits }]).reduce((sum, move) => (move.to === to ? sum + move.units : sum), 0n);
  if (direct > 0n || logged > 0n) return direct > logged ? direct : logged;
  // A contract may have paid it, which only a trace would show.
  return quantity(gasUsed) === PLAIN_GAS ? 0n : null;
}
function isTransferTo(topics: unknown, to: string | null): boolean {
  const [topic, , recipient] = rows(topics);
  return topic === TRANSFER && typeof recipient === 'string' && recipient.slice(-40).toLowerCase() === to;
}
