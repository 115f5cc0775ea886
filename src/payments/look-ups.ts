/** Lookups answered from the ledger alone: what arrived at an address that was issued here. */
import type { Ours } from '../chains/bitcoin/electrum/electrum-desk.ts';
import type { AddressSummary, Chain, TransactionHint } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { COIN, type Coin, kindOf, type Mode } from '../core/coin.ts';
import type { Db } from '../db/db.ts';
import { outputsFromJson } from './stored.ts';

type Received = {
  ref: string;
  txid: string | null;
  units: bigint;
  /** When the transfer covers more than one output of its transaction. */
  outputs: unknown;
  isMined: boolean;
  isStanding: boolean;
};
/** Outputs that a node is asked about, one by one. */
const MAX_OUTPUTS = 1_000;

const readReceived = (ctx: Context, { merchantId, mode, coin, address }: { merchantId: string; mode: Mode; coin: Coin; address: string }) =>
  ctx.db.sql<Received[]>`
    select t.ref, t.txid, t.units, t.outputs, t.block_height is not null as "isMined",
      t.absent_since is null and t.conflict_txid is null as "isStanding"
    from transfers t join payments p on p.id = t.payment_id
    where t.merchant_id = ${merchantId} and t.coin = ${coin} and t.address = ${address} and p.mode = ${mode}`;

const sum = (rows: readonly Received[]): bigint => rows.reduce((total, row) => total + row.units, 0n);

/** A test address as its payments' simulated chains show it; nothing is ever spent from it. */
export async function getTestBalance(ctx: Context, wanted: { merchantId: string; coin: Coin; address: string }): Promise<AddressSummary> {
  const rows = await readReceived(ctx, { ...wanted, mode: 'test' });
  const mined = rows.filter((row) => row.isMined);
  return {
    balanceUnits: sum(mined),
    unconfirmedUnits: sum(rows.filter((row) => !row.isMined && row.isStanding)),
    receivedUnits: sum(mined),
    sentUnits: 0n,
    transactions: new Set(mined.map((row) => row.txid ?? row.ref)).size,
  };
}

/**
 * A deposit address of this merchant, or of any (`null`), without an index: deposits are recorded, and the node reports which of them
 * are unspent. What an address holds is public. Null: not such an address. `unknown`: money was spent from it, and only an index knows in how many transactions.
 * Errors: ChainError.
 */
export async function getDepositBalance(
  ctx: Context,
  chain: Chain,
  { merchantId, coin, key }: { merchantId: string | null; coin: Coin; key: string },
): Promise<AddressSummary | 'unknown' | null> {
  const [own] = await ctx.db.sql<{ address: string; merchantId: string }[]>`
    select address, merchant_id as "merchantId" from deposit_addresses
    where coin = ${COIN[coin].family} and key = ${key} and (${merchantId}::text is null or merchant_id = ${merchantId})`;
  if (!own) return null;
  const rows = await readReceived(ctx, { ...own, mode: 'live', coin });
  const mined = rows.filter((row) => row.isMined);
  const receivedUnits = sum(mined);
  // LTC: a peg-out keeps the ref it had in the mempool, which is not the output on the chain.
  if (kindOf(coin) !== 'ethereum' && mined.some((row) => !/^[0-9a-f]{64}:\d+$/.test(row.ref) || !row.ref.startsWith(row.txid ?? '')))
    return 'unknown';
  const parts = mined.map((row) => ({ ...row, outputs: outputsFromJson(row.outputs) }));
  const outputs = parts.flatMap(({ ref, txid, units, outputs }) => {
    if (outputs === 'unreadable') return [];
    return outputs === null ? [{ ref, units }] : outputs.map((one) => ({ ref: `${txid}:${one.n}`, units: one.units }));
  });
  if (outputs.length > MAX_OUTPUTS || parts.some((part) => part.outputs === 'unreadable')) return 'unknown';
  const unspent = outputs.length === 0 ? { units: 0n, leavingUnits: 0n } : await chain.readUnspent({ address: own.address, outputs });
  if (unspent.units !== receivedUnits) return 'unknown';
  return {
    balanceUnits: receivedUnits,
    unconfirmedUnits: sum(rows.filter((row) => !row.isMined && row.isStanding)) - unspent.leavingUnits,
    receivedUnits,
    sentUnits: 0n,
    transactions: new Set(mined.map((row) => row.txid ?? row.ref)).size,
  };
}

/** The block of one of this merchant's transfers, so that a node without an index can find its transaction. Undefined: unknown. */
export async function findTransferBlock(
  ctx: Context,
  { merchantId, coin, txid }: { merchantId: string; coin: Coin; txid: string },
): Promise<TransactionHint | undefined> {
  const [found] = await ctx.db.sql<TransactionHint[]>`
    select t.block_hash as "blockHash" from transfers t join payments p on p.id = t.payment_id
    where t.txid = ${txid} and t.coin = ${coin} and t.merchant_id = ${merchantId} and t.block_hash is not null and p.mode = 'live' limit 1`;
  return found;
}

/** What belongs to payments of any merchant, so that strangers' servers are not asked about it. */
export const oursOf = ({ sql }: Db, coin: Coin): Ours => ({
  hasTransaction: async (txid) => (await sql`select 1 from transfers where txid = ${txid} and coin = ${coin} limit 1`).length > 0,
  scriptsOf: async (scripts) => {
    const rows = await sql<{ key: string }[]>`
      select key from deposit_addresses where coin = ${COIN[coin].family} and key = any(${scripts}::text[])`;
    return new Set(rows.map(({ key }) => key));
  },
});
