/** Lookups answered from the ledger: what arrived at addresses that were issued here, and in which transactions. */
import { type AddressSummary, ChainError, type ChainTransaction, type JoinedSource, type Ours, type Unspent } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, kindOf, type Mode } from '#core/coin';
import { Problem } from '#core/problem';
import { PAYER, testIdentifier } from '#core/simulated';
import { outputsFromJson } from '#core/stored-payment';
import type { Db } from '#db';
import { readRecords, tipsOf } from '#settling';

type ReceivedTransfer = {
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
  ctx.db.sql<ReceivedTransfer[]>`
    select t.ref, t.txid, t.units, t.outputs, t.block_height is not null as "isMined",
      t.absent_since is null and t.conflict_txid is null as "isStanding"
    from transfers t join payments p on p.id = t.payment_id
    where t.merchant_id = ${merchantId} and t.coin = ${coin} and t.address = ${address} and p.mode = ${mode}`;

const sum = (rows: readonly ReceivedTransfer[]): bigint => rows.reduce((total, row) => total + row.units, 0n);

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

type LookUpParameters = { merchantId: string | null; coin: Coin };
/** `isExact`: the chain was asked what of it is unspent. Without `summary`, the address holds more than was recorded. */
type DepositBalance = { summary: AddressSummary | null; isExact: boolean };

/**
 * A deposit address of this merchant, or of any (`null`): deposits are recorded, and a node reports which of them are unspent, without an
 * index. Where no source could, what Florin itself sent on is known. What an address holds is public. Null: not such an address.
 * Errors: ChainError.
 */
export async function getDepositBalance(
  ctx: Context,
  chain: JoinedSource,
  { merchantId, coin, key }: LookUpParameters & { key: string },
): Promise<DepositBalance | null> {
  const [own] = await ctx.db.sql<{ address: string; merchantId: string }[]>`
    select address, merchant_id as "merchantId" from deposit_addresses
    where family = ${COIN[coin].family} and key = ${key} and (${merchantId}::text is null or merchant_id = ${merchantId})`;
  if (!own) return null;
  const rows = await readReceived(ctx, { ...own, mode: 'live', coin });
  const mined = rows.filter((row) => row.isMined);
  const receivedUnits = sum(mined);
  const waitingUnits = sum(rows.filter((row) => !row.isMined && row.isStanding));
  const receipts = new Set(mined.map((row) => row.txid ?? row.ref)).size;
  const outputs = outputsOf(mined);
  // LTC: a peg-out keeps the ref it had in the mempool, which is not the output on the chain.
  const isAskable =
    outputs !== null &&
    outputs.length <= MAX_OUTPUTS &&
    (kindOf(coin) === 'ethereum' || mined.every((row) => /^[0-9a-f]{64}:\d+$/.test(row.ref) && row.ref.startsWith(row.txid ?? '')));
  const none: Unspent = { units: 0n, leavingUnits: 0n };
  const unspent = !isAskable ? null : outputs.length === 0 ? none : await askUnspent(chain, { coin, address: own.address, outputs });
  if (unspent && unspent.units > receivedUnits) return { summary: null, isExact: false };
  const sent = unspent?.units === receivedUnits ? NOTHING_SENT : await readSent(ctx, { coin, outputs: outputs ?? [] });
  const sentUnits = unspent ? receivedUnits - unspent.units : sent.units;
  return {
    isExact: unspent !== null && sentUnits === 0n,
    summary: {
      balanceUnits: receivedUnits - sentUnits,
      unconfirmedUnits: waitingUnits - (unspent ?? sent).leavingUnits,
      receivedUnits,
      sentUnits,
      transactions: receipts + Math.max(sent.transactions, sentUnits > 0n ? 1 : 0),
    },
  };
}

type Part = { ref: string; units: bigint };
/** The outputs of transfers; null when a stored one cannot be read. */
function outputsOf(mined: readonly ReceivedTransfer[]): Part[] | null {
  const parts: Part[] = [];
  for (const { ref, txid, units, outputs } of mined) {
    const list = outputsFromJson(outputs);
    if (list === 'unreadable') return null;
    parts.push(...(list === null ? [{ ref, units }] : list.map((one) => ({ ref: `${txid}:${one.n}`, units: one.units }))));
  }
  return parts;
}

/** What the chain says is unspent. Null where no source can tell, except for accounts, whose spending only the chain shows. */
async function askUnspent(
  chain: JoinedSource,
  { coin, ...of }: { coin: Coin; address: string; outputs: readonly Part[] },
): Promise<Unspent | null> {
  try {
    return await chain.readUnspent(of);
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'unsupported' && kindOf(coin) !== 'ethereum') return null;
    throw error;
  }
}

type SpentSum = { units: bigint; leavingUnits: bigint; transactions: number };
const NOTHING_SENT: SpentSum = { units: 0n, leavingUnits: 0n, transactions: 0 };
/** What of these outputs Florin's own transactions spent, or another one that it met while it followed them. */
async function readSent({ db: { sql } }: Context, { coin, outputs }: { coin: Coin; outputs: readonly Part[] }): Promise<SpentSum> {
  const units = new Map(outputs.map((part) => [part.ref, part.units]));
  const rows = await sql<{ input: string; by: string; isMined: boolean }[]>`
    select i.input, coalesce(i.spent_hash, s.id) as by, i.spent_hash is not null or s.state = 'confirmed' or exists (
        select 1 from signed_transactions t where t.file_id = s.id and t.block_height is not null) as "isMined"
    from signing_inputs i join signing_files s on s.id = i.file_id
    where i.chain = ${chainCode(coin)} and i.input = any(${[...units.keys()]}::text[])
      and (i.spent_hash is not null or (i.released_at is null and s.state in ('sent', 'confirmed')))`;
  const unitsOf = (isMined: boolean): bigint =>
    rows.reduce((total, row) => (row.isMined === isMined ? total + (units.get(row.input) ?? 0n) : total), 0n);
  return {
    units: unitsOf(true),
    leavingUnits: unitsOf(false),
    transactions: new Set(rows.flatMap((row) => (row.isMined ? [row.by] : []))).size,
  };
}

/**
 * The block of a transaction that paid this merchant or that it sent, or anybody (`null`), so that a source without an index can find it.
 * Null: the transaction is none of ours. Without `blockHash`, it is in no block.
 */
export async function findTransferBlock(
  ctx: Context,
  { merchantId, coin, txid }: LookUpParameters & { txid: string },
): Promise<{ blockHash: string | null } | null> {
  const [found] = await ctx.db.sql<{ blockHash: string | null }[]>`
    select "blockHash" from (
      select t.block_hash as "blockHash" from transfers t join payments p on p.id = t.payment_id
      where t.txid = ${txid} and t.coin = ${coin} and (${merchantId}::text is null or t.merchant_id = ${merchantId}) and p.mode = 'live'
      union all select t.block_hash from signed_transactions t join signing_files s on s.id = t.file_id and s.mode = 'live'
      where t.txid = ${txid} and s.coin = ${coin} and (${merchantId}::text is null or s.merchant_id = ${merchantId})) as ours
    order by "blockHash" is null limit 1`;
  return found ?? null;
}

/** What is recorded of a transaction that paid this merchant: where it is, and what it paid. Null: nothing, or it is gone. */
export async function getRecordedTransaction(
  { db: { sql } }: Context,
  { merchantId, coin, txid }: { merchantId: string; coin: Coin; txid: string },
): Promise<ChainTransaction | null> {
  const rows = await sql<
    (Pick<ReceivedTransfer, 'ref' | 'txid' | 'units' | 'outputs' | 'isStanding'> & {
      address: string;
      blockHeight: number | null;
      blockHash: string | null;
      blockTime: Date | null;
      isReplaced: boolean;
      tip: number | null;
    })[]
  >`
    select t.ref, t.txid, t.units, t.outputs, t.address, t.block_height::int as "blockHeight", t.block_hash as "blockHash",
      t.block_time as "blockTime", t.conflict_txid is not null as "isReplaced", t.absent_since is null as "isStanding",
      (select height::int from tips where chain = ${chainCode(coin)}) as tip
    from transfers t join payments p on p.id = t.payment_id
    where t.merchant_id = ${merchantId} and t.coin = ${coin} and t.txid = ${txid} and p.mode = 'live' order by t.ref`;
  const [first] = rows.toSorted((a, b) => Number(a.blockHeight === null) - Number(b.blockHeight === null));
  if (!first || (first.blockHeight === null && !first.isReplaced && !first.isStanding)) return null;
  const { blockHeight, blockHash, blockTime, tip } = first;
  return {
    txid,
    status: blockHeight !== null ? 'confirmed' : first.isReplaced ? 'replaced' : 'pending',
    confirmations: blockHeight === null ? 0 : Math.max(1, (tip ?? blockHeight) - blockHeight + 1),
    ...{ blockHeight, blockHash, timestamp: blockTime },
    amountUnits: rows.reduce((total, { units }) => total + units, 0n),
    feeUnits: null,
    inputs: null,
    outputs: rows.flatMap((row) => (outputsOf([{ ...row, isMined: true }]) ?? [row]).map(({ units }) => ({ address: row.address, units }))),
  };
}

/** What belongs to payments of any merchant, so that strangers' servers are not asked about it. */
export const oursOf = ({ sql }: Db, coin: Coin): Ours => ({
  hasTransaction: async (txid) =>
    (
      await sql`
        select 1 from transfers where txid = ${txid} and coin = ${coin}
        union all select 1 from signed_transactions where txid = ${txid} limit 1`
    ).length > 0,
  scriptsOf: async (scripts) => {
    const rows = await sql<{ key: string }[]>`
      select key from deposit_addresses where family = ${COIN[coin].family} and key = any(${scripts}::text[])`;
    return new Set(rows.map(({ key }) => key));
  },
});

/** A transaction of a test payment's simulated chain, in the form a node reports it. Errors: transaction_not_found. */
export async function getSimulatedTransaction(
  ctx: Context,
  { merchantId, coin, txid }: { merchantId: string; coin: Coin; txid: string },
): Promise<ChainTransaction> {
  const rows = await ctx.db.sql<{ id: string }[]>`
    select p.id from transfers t join payments p on p.id = t.payment_id
    where t.coin = ${coin} and t.ref in (${`${txid}:0`}, ${`${txid}:tx`}) and p.merchant_id = ${merchantId} and p.mode = 'test'`;
  const [record] = await readRecords(
    ctx,
    ctx.db.sql,
    rows.map((row) => row.id),
  );
  const transfer = record?.transfers.find((t) => t.coin === coin && t.txid === txid);
  if (!record || !transfer) throw new Problem('transaction_not_found', { coin, id: txid }, { param: 'txid' });
  const { block, units, address } = transfer;
  return {
    txid,
    status: transfer.conflict ? 'replaced' : block ? 'confirmed' : 'pending',
    confirmations: block ? (tipsOf(record)[coin]?.height ?? block.height) - block.height + 1 : 0,
    blockHeight: block?.height ?? null,
    blockHash: block?.hash ?? null,
    timestamp: block?.time ?? null,
    amountUnits: units,
    feeUnits: 0n,
    inputs: [{ address: testIdentifier(coin, PAYER), units }],
    outputs: [{ address, units }],
  };
}
