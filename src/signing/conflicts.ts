/**
 * Transactions of signing files that cannot be mined: another one spent one of their inputs or used their account nonce, or the deposit
 * that they would send is not on the chain any more.
 */
import { ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode, familyIn, kindOf } from '#core/coin';
import { type AccountRequest, signingFileOf } from '#core/signing-file';
import { goneAfterMs } from '#core/transfer';
import type { Fragment, Sql, Tx } from '#db';
import { spentInBlocks } from './blocks.ts';
import { lockRefundsIn, readEndHeight, readUnpayable } from './holdings.ts';
import { readBalances, readNonces } from './make-accounts.ts';
import { tipsIn } from './simulated-blocks.ts';
import { inputsOfRaw } from './utxo-check.ts';

export type Refused = {
  merchantId: string;
  sweepId: string;
  coin: Coin;
  number: number;
  raw: Uint8Array;
  /** The block at which it was first seen that it cannot be mined. */
  conflictHeight: number | null;
  conflictHash: string | null;
};
/**
 * The inputs that another transaction did not spend. On chains of accounts the next file reads what is left. `proven`: a block contains the
 * other transaction. `isGone`: there is none, but a deposit left the chain with its block and did not come back.
 */
type Loss = { unspent: readonly string[]; proven: boolean; isGone: boolean };

const CONFLICT = 'conflict: another transaction already spent an input or used the account nonce';
/** The refusal of a transaction whose deposit is gone. */
export const DEPOSIT_GONE = 'the deposit that it would send is not on the chain any more';

/** The refusals of a transaction that is not sent now, because of a refund that it pays. */
const HELD = {
  open: 'it waits, because the payment of its refund is not final at the moment, and more money could complete it',
  gone: 'it waits, because what the payment of its refund received is not confirmed any more',
} as const;

/**
 * Why a transaction that nobody was sent yet is not sent now; null: it may be. Its refunds could be paid when its file was signed, and
 * that may have changed since: the deposits of others that it spends would still pay them.
 */
export const heldBack = (ctx: Context, one: Refused): Promise<string | null> => ctx.db.begin((tx) => readHold(ctx, tx, one));

/** The same, which stays so until `tx` ends: its payments are locked. */
async function readHold(ctx: Context, tx: Tx, { merchantId, sweepId, coin, number }: Refused): Promise<string | null> {
  const asked = await lockRefundsIn(tx, { merchantId, sweepId, number });
  if (asked.length === 0) return null;
  const [out] = await tx`
    select 1 from signed_transactions
    where file_id = ${sweepId} and number = ${number} and (block_height is not null or (sent_at is not null and refusal is null)) limit 1`;
  if (out) return null;
  const [why] = (await readUnpayable(ctx, tx, { merchantId, coin, asked })).values();
  return why === undefined ? null : HELD[why];
}

/**
 * Checks whether a refused transaction lost its inputs to another one. Once that is as deep as sent money must be to count as gone, the
 * transaction has failed, and what it did not lose may be swept again.
 */
export async function followConflict(ctx: Context, chain: JoinedSource, one: Refused): Promise<void> {
  // As text, because a Date has no microseconds: what was sent just before would look as if it was sent since.
  const [looked] = await ctx.db.sql<{ at: string }[]>`select clock_timestamp()::text as at`;
  const held = await ctx.db.begin((tx) => refundLoss(ctx, tx, one));
  const loss = held ?? (kindOf(one.coin) === 'ethereum' ? await accountLoss(ctx, chain, one) : await outputLoss(ctx, chain, one));
  if (!loss || !(loss.proven || (await areUnknown(ctx, chain, one)))) {
    if (one.conflictHash !== null) await writeConflict(ctx, one, { height: null, hash: null });
    return;
  }
  const tip = await chain.tip();
  const { conflictHeight: height, conflictHash: hash } = one;
  const isSame = height !== null && (await chain.blockAt(height))?.hash === hash;
  // It is looked at a second time even where one block is enough, because a block may arrive between two questions.
  if (!isSame) return void (await writeConflict(ctx, one, tip));
  if (height > (await readEndHeight(ctx, one.coin, tip))) return;
  const isFailed = await ctx.db.begin(async (tx) => {
    // What it would send may have been paid again since, and then another process may have sent it, or sends it now.
    const rows = await tx<{ isSent: boolean }[]>`
      select coalesce(sent_at > ${looked!.at}::text::timestamptz, false) as "isSent" from signed_transactions
      where file_id = ${one.sweepId} and (number = ${one.number} or after_number = ${one.number}) order by number, round for update`;
    if (rows.some(({ isSent }) => isSent) || (held && !(await refundLoss(ctx, tx, one)))) return false;
    await fail(tx, one, loss);
    return true;
  });
  if (!isFailed) return;
  const what = loss.isGone ? 'The deposit of a transaction of a sweep is gone' : 'A transaction of a sweep lost its inputs to another one';
  ctx.log.warn({ coin: one.coin, sweep: one.sweepId, number: one.number }, what);
}

const writeConflict = (ctx: Context, { sweepId, number }: Refused, { height, hash }: { height: number | null; hash: string | null }) =>
  ctx.db.sql`
    update signed_transactions set conflict_height = ${height}, conflict_hash = ${hash} where file_id = ${sweepId} and number = ${number}`;

/** Whether a deposit, the transfer `t`, left the chain for good: replaced in a block, or not seen for as long as a payment waits for one. */
const isGoneFor = (sql: Sql, coin: Coin): Fragment => sql`
  (t.ref is null or t.conflict_height is not null
    or coalesce(tips.scanned_through - t.absent_since >= make_interval(secs => ${goneAfterMs(coin) / 1_000}), false))`;

/** A transaction that is held back never pays its refund, once no deposit of that payment can come back. It lost nothing itself. */
async function refundLoss(ctx: Context, tx: Tx, one: Refused): Promise<Loss | null> {
  if ((await readHold(ctx, tx, one)) !== HELD.gone) return null;
  const { merchantId, sweepId, coin, number, raw } = one;
  const [gone] = await tx`
    select 1 from outgoing_payments r join transfers t on t.payment_id = r.payment_id and t.coin = r.coin
    left join ${tipsIn(ctx, ctx.db.sql, coin)} on tips.chain = ${chainCode(coin)}
    where r.file_id = ${sweepId} and r.transaction_number = ${number} and r.merchant_id = ${merchantId} and t.block_height is null
    having bool_and(${isGoneFor(ctx.db.sql, coin)})`;
  if (!gone) return null;
  const unspent = kindOf(coin) === 'ethereum' ? [] : inputsOfRaw(Buffer.from(raw).toString('hex'));
  // That a deposit was replaced says nothing about the transaction, which may spend those of others, and somebody may have published it.
  return { unspent, proven: false, isGone: true };
}

/** Whether no version of the transaction is mined or waits to be mined. */
async function areUnknown(ctx: Context, chain: JoinedSource, { sweepId, number }: Refused): Promise<boolean> {
  const rounds = await ctx.db.sql<{ txid: string }[]>`
    select txid from signed_transactions where file_id = ${sweepId} and number = ${number} order by round desc limit 100`;
  const states = await Promise.all(rounds.map(({ txid }) => chain.txState(txid)));
  return states.every(({ state }) => state === 'unknown');
}

/**
 * The deposits of a file that are in no block. `isGone`: another transaction replaced theirs in a block, or nothing has seen theirs for as
 * long as a payment waits for one. Accounts: also what only a balance showed, in a block that was taken back.
 */
async function readUnmined(
  ctx: Context,
  { sweepId, coin }: Pick<Refused, 'sweepId' | 'coin'>,
): Promise<readonly { input: string; address: string; isGone: boolean; isReplaced: boolean }[]> {
  const { sql } = ctx.db;
  return sql<{ input: string; address: string; isGone: boolean; isReplaced: boolean }[]>`
    select i.input, a.address, t.conflict_height is not null as "isReplaced",
      ${isGoneFor(sql, coin)} as "isGone"
    from signing_inputs i join deposit_addresses a on a.payment_id = i.payment_id and a.family = ${familyIn(ctx.mode, coin)}
    left join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
    left join ${tipsIn(ctx, ctx.db.sql, coin)} on tips.chain = ${chainCode(coin)}
    where i.file_id = ${sweepId} and i.released_at is null and t.block_height is null`;
}

async function outputLoss(ctx: Context, chain: JoinedSource, { sweepId, coin, raw }: Refused): Promise<Loss | null> {
  const outpoints = inputsOfRaw(Buffer.from(raw).toString('hex'));
  const lost = await spentInBlocks(ctx, chain, { sweepId, outpoints });
  if (lost.size > 0) return { unspent: outpoints.filter((outpoint) => !lost.has(outpoint)), proven: true, isGone: false };
  const answers = await askUnspent(chain, outpoints);
  // An output also disappears with the block that contained it.
  const isMissing = (input: string): boolean => outpoints.includes(input) && answers?.[outpoints.indexOf(input)] !== true;
  const unmined = (await readUnmined(ctx, { sweepId, coin })).filter(({ input }) => isMissing(input));
  const absent = new Set(unmined.map(({ input }) => input));
  const unspent = outpoints.filter((outpoint, i) => answers?.[i] !== false || absent.has(outpoint));
  // Its customer spent the money of the deposit in another transaction instead, so that no transaction can spend the deposit.
  if (unmined.some(({ isGone }) => isGone)) return { unspent, proven: unmined.some(({ isReplaced }) => isReplaced), isGone: true };
  if (!answers || unmined.length > 0 || answers.every((isUnspent) => isUnspent)) return null;
  // Without an index of transactions, a node does not find our own mined transaction, which also spends all of them.
  if (unspent.length === 0 && (await chain.health()).txindex !== true) return null;
  return { unspent, proven: false, isGone: false };
}
/** Null: no source knows. */
async function askUnspent(chain: JoinedSource, outpoints: readonly string[]): Promise<boolean[] | null> {
  try {
    return await chain.outlet.areUnspent(outpoints, { onlyBlocks: true });
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'unsupported') return null;
    throw error;
  }
}

type Requested = { requests: AccountRequest[] /** The most that they pay for each unit of gas. */; maxGasPrice: bigint };
async function readRequested(sql: Context['db']['sql'] | Tx, sweepId: string): Promise<Requested> {
  const [row] = await sql<{ file: unknown }[]>`select file from signing_files where id = ${sweepId}`;
  const { requests, gasPrice } = signingFileOf(row!.file);
  return { requests: requests.flatMap((one) => (one.kind === 'psbt' ? [] : [one])), maxGasPrice: gasPrice?.max ?? 0n };
}

async function accountLoss(ctx: Context, chain: JoinedSource, { sweepId, coin, number }: Refused): Promise<Loss | null> {
  const { requests, maxGasPrice } = await readRequested(ctx.db.sql, sweepId);
  const request = requests[number];
  if (!request) return null;
  // Before the nonce: a block that arrives between the two may contain our own transaction.
  const [held] = await readBalances(chain, [request.from]);
  const [nonce] = await readNonces(chain, [request.from]);
  if (nonce! > request.nonce) return { unspent: [], proven: false, isGone: false };
  if (request.kind !== 'native') return null;
  // Nodes take no transaction of an account that has less than it sends and may pay for gas. The person whom a refund or a payout pays
  // could send that gas and then publish a kept copy, so only a sweep ends for lack of gas.
  const gas = request.line.purpose === 'sweep' ? request.gas * maxGasPrice : 0n;
  if (held! >= request.line.units + gas) return null;
  const from = request.from.toLowerCase();
  const isGone = (await readUnmined(ctx, { sweepId, coin })).some((one) => one.isGone && one.address.toLowerCase() === from);
  return isGone ? { unspent: [], proven: false, isGone } : null;
}

/** Ends a transaction, with those whose gas it would have paid, and releases what they did not lose. Spent outputs and used nonces stay. */
async function fail(tx: Tx, { sweepId, coin, number, raw }: Refused, { unspent, isGone }: Loss): Promise<void> {
  const [sweep] = await tx<{ purpose: string }[]>`
    select purpose from signing_files where id = ${sweepId} and state in ('signed', 'sent') for update`;
  const [mined] = await tx`
    select 1 from signed_transactions where file_id = ${sweepId} and number = ${number} and block_height is not null limit 1`;
  if (!sweep || mined) return;
  await tx`
    update signed_transactions set failed_at = clock_timestamp(), refusal = ${isGone ? DEPOSIT_GONE : CONFLICT}
    where file_id = ${sweepId} and (number = ${number} or after_number = ${number}) and block_height is null and failed_at is null`;
  // An earlier round, whose gas nothing else had to pay, may still be mined.
  const failed = await tx<{ number: number }[]>`
    select number from signed_transactions where file_id = ${sweepId} group by number
    having bool_and(failed_at is not null) and bool_or(number = ${number} or after_number = ${number})`;
  const { inputs, addresses } =
    kindOf(coin) === 'ethereum'
      ? heldBy((await readRequested(tx, sweepId)).requests, {
          failed: failed.map((one) => one.number),
          lost: isGone ? null : number,
          isRefund: sweep.purpose === 'refund',
        })
      : { inputs: unspent, addresses: [] };
  await tx`
    update signing_inputs i set released_at = clock_timestamp()
    where i.file_id = ${sweepId} and i.released_at is null and (i.input = any(${inputs as string[]}::text[])
      or exists (select 1 from signing_files s join deposit_addresses a on a.payment_id = i.payment_id and a.wallet_id = s.wallet_id
        where s.id = i.file_id and lower(a.address) = any(${addresses as string[]}::text[])))`;
  // The books say where this money is not.
  const lost = kindOf(coin) === 'ethereum' ? [] : inputsOfRaw(Buffer.from(raw).toString('hex')).filter((one) => !unspent.includes(one));
  await tx`
    update signing_inputs set lost_at = clock_timestamp()
    where file_id = ${sweepId} and input = any(${lost}::text[]) and released_at is null`;
}

/**
 * What failed requests hold: the nonces that nothing used, and the addresses whose money they would have moved. `lost`: the request whose
 * nonce was used. Authorizations of refunds were published, so their addresses stay reserved until these expire.
 */
function heldBy(
  requests: readonly AccountRequest[],
  { failed, lost, isRefund }: { failed: readonly number[]; lost: number | null; isRefund: boolean },
): { inputs: string[]; addresses: string[] } {
  const unused = new Set(failed.filter((number) => number !== lost));
  const addresses = failed.flatMap((number) => {
    const request = requests[number];
    if (!request || request.kind === 'fund') return [];
    if (request.kind !== 'batch') return [request.from];
    return isRefund ? [] : request.authorizations.map(({ from }) => from);
  });
  return {
    inputs: requests.flatMap(({ from, nonce }, number) => (unused.has(number) ? [`nonce:${from}:${nonce}`] : [])),
    addresses: addresses.map((address) => address.toLowerCase()),
  };
}
