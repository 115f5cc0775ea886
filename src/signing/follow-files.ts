/** Sends signed transactions and follows them until they have enough confirmations, in the process that follows the chains. */

import { type BlockRef, ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, coinsBeside, kindOf } from '#core/coin';
import { type AccountRequest, type BatchRequest, signingFileOf } from '#core/signing-file';
import { asObject } from '#core/stored-json';
import { dueIf, type Sql, startQueue, type Tx } from '#db';
import { readSignedTransaction, TRANSFER_TOPIC } from '#evm';
import { startLoop } from '#loop';
import { blockByOutputs, OLD_FORM, readSweepBlocks } from './blocks.ts';
import { usedAmong } from './canceled.ts';
import { DEPOSIT_GONE, followConflict, heldBack, type Refused } from './conflicts.ts';
import { readEndHeight, takenOf } from './holdings.ts';
import { followMoved } from './moved.ts';
import { forMode } from './rehearsal.ts';
import { tipsIn } from './simulated-blocks.ts';

/** How often deposits that other wallets may have moved are looked at. */
const MOVED_MS = 60_000;
/** Transactions of one round. */
const BATCH = 200;
/** A transaction that waits is sent again after this long, because nodes forget them. */
const RESEND_SECONDS = 60;

type PendingTransaction = Refused & {
  /** Why it is not out. */
  refusal: string | null;
  round: number;
  txid: string;
  newest: boolean;
  stale: boolean;
  /** It was sent, and something showed that it was accepted. */
  isOut: boolean;
  failed: boolean;
  blockHeight: number | null;
  blockHash: string | null;
  /** Whether blocks showed that another transaction spent an input of the sweep, or a deposit of it is in no block any more. */
  isRobbed: boolean;
  /** Whether it may be in a block that was pruned before it was searched. */
  isUnsearched: boolean;
};
/** What one round knows about the chain. */
type Round = {
  isNewTip: boolean;
  /** Whether the source finds transactions in blocks. */
  isIndexed: boolean;
};

/** The channel that wakes those who follow money that leaves, and how often they look while some is under way. */
export const MONEY_OUT = 'money_out';
export const FOLLOW_MS = 1_000;

/** Starts the loop of one chain; `stop` waits for the current round. */
export function startSweeps(ctx: Context, chain: JoinedSource): { stop(): Promise<void> } {
  let seen: string | null = null;
  const coins = coinsBeside(chain.coin);
  const failed = (error: unknown, failures: number) =>
    ctx.log.error({ err: error, coin: chain.coin, failures }, 'Could not follow sweeps; retrying');
  // Other wallets move deposits at any time.
  const moved = startLoop({
    pollMs: MOVED_MS,
    round: async () => {
      await followMoved(ctx, chain);
      return false;
    },
    failed,
  });
  const sweeps = startQueue(ctx, {
    name: MONEY_OUT,
    due: (sql) =>
      dueIf(
        sql,
        sql`exists (select 1 from signing_files where state in ('signed', 'sent') and coin = any(${coins}::text[]) and mode = 'live')`,
      ),
    againMs: FOLLOW_MS,
    round: async () => {
      seen = await followSweeps(ctx, chain, seen);
      return false;
    },
    failed,
  });
  return { stop: async () => void (await Promise.all([sweeps.stop(), moved.stop()])) };
}

/** One round for the files of rehearsals, on their simulated chains. Nobody else can move what these spend. */
export async function followRehearsals(ctx: Context): Promise<void> {
  const rows = await ctx.db.sql<{ coin: Coin }[]>`
    select distinct coin from signing_files where state in ('signed', 'sent') and mode = 'test'`;
  const test = forMode(ctx, 'test');
  for (const id of new Set(rows.map(({ coin }) => COIN[coin].chain))) {
    const chain = test.chains.get(id);
    if (chain) await followSweeps(test, chain, null);
  }
}

/**
 * One round: sends what is due, and looks where everything is that was sent. Those that waited longest come first. `seen`: the hash of the
 * tip at the last round; the new one is returned.
 */
export async function followSweeps(ctx: Context, chain: JoinedSource, seen: string | null): Promise<string | null> {
  const coins = coinsBeside(chain.coin);
  const [open] = await ctx.db.sql<{ canBeRenamed: boolean | null }[]>`
    select bool_or(w.script = ${OLD_FORM}) as "canBeRenamed" from signing_files s left join wallets w on w.id = s.wallet_id
    where s.state in ('signed', 'sent') and s.coin = any(${coins}::text[]) and s.mode = ${ctx.mode}`;
  if (open!.canBeRenamed === null) return seen;
  const tip = await chain.tip();
  const isIndexed = kindOf(chain.coin) === 'ethereum' || (await chain.health()).txindex === true;
  if (!isIndexed || open!.canBeRenamed) await readSweepBlocks(ctx, chain, tip);
  const waiting = await ctx.db.sql<PendingTransaction[]>`
    with unmined as materialized (
      select i.file_id from transfers d
      join signing_inputs i on i.payment_id = d.payment_id and i.coin = d.coin and i.ref = d.ref and i.released_at is null
      where d.coin = any(${coins}::text[]) and d.unmined_since is not null and d.block_height is null
    )
    update signed_transactions t set looked_at = clock_timestamp()
    from (
      select t.file_id, t.round, t.number, s.merchant_id, s.coin, s.unsearched_below from signing_files s join signed_transactions t on t.file_id = s.id
      where s.state in ('signed', 'sent') and s.coin = any(${coins}::text[]) and s.mode = ${ctx.mode}
        and (t.after_number is null or exists (select 1 from signed_transactions f
          where f.file_id = t.file_id and f.number = t.after_number and f.block_height is not null))
      -- Another process looks at the others.
      order by t.looked_at nulls first, s.number, t.round, t.number limit ${BATCH} for update of t skip locked
    ) chosen
    where t.file_id = chosen.file_id and t.round = chosen.round and t.number = chosen.number
    returning chosen.merchant_id as "merchantId", t.file_id as "sweepId", chosen.coin, t.round, t.number, t.txid, t.raw, t.block_height::int as "blockHeight",
      t.block_hash as "blockHash",
      t.refusal, t.failed_at is not null as failed, t.conflict_height::int as "conflictHeight", t.conflict_hash as "conflictHash",
      t.sent_at is null or t.sent_at < clock_timestamp() - make_interval(secs => ${RESEND_SECONDS}) as stale,
      t.sent_at is not null and t.refusal is null as "isOut",
      -- Another round of it may be mined already. What paid for its gas may be an earlier round, which is enough for the same round only.
      t.round = (select max(o.round) from signed_transactions o where o.file_id = t.file_id and o.number = t.number
        and (o.after_number is null or exists (select 1 from signed_transactions f
          where f.file_id = o.file_id and f.number = o.after_number and f.block_height is not null and f.round >= o.round)))
        and not exists (select 1 from signed_transactions m
        where m.file_id = t.file_id and m.number = t.number and m.round <> t.round and m.block_height is not null) as newest,
      exists (select 1 from signing_inputs i where i.file_id = t.file_id and i.spent_hash is not null)
        or t.file_id in (select file_id from unmined) as "isRobbed",
      chosen.unsearched_below is not null as "isUnsearched"`;
  const sweeps = [...Map.groupBy(waiting, ({ sweepId }) => sweepId)];
  const failures: unknown[] = [];
  for (const [id, transactions] of sweeps) {
    try {
      // In the order of their nonces, because a node refuses gaps or keeps them waiting.
      for (const one of transactions.toSorted((a, b) => a.round - b.round || a.number - b.number))
        await followOne(ctx, chain, one, { isNewTip: tip.hash !== seen, isIndexed });
      await conclude(ctx, chain, { tip, id, coin: transactions[0]!.coin });
    } catch (error) {
      failures.push(error);
      ctx.log.warn({ err: error, coin: chain.coin, sweep: id }, 'Could not follow a sweep; the others continue');
    }
  }
  // When nothing works, the source is away, and the next round waits longer.
  if (failures.length > 0 && failures.length === sweeps.length) throw failures[0];
  return tip.hash;
}

async function followOne(ctx: Context, chain: JoinedSource, one: PendingTransaction, { isNewTip, isIndexed }: Round): Promise<void> {
  if (one.failed) return;
  if (!isIndexed && one.blockHash !== null && (await chain.blockAt(one.blockHeight!))?.hash === one.blockHash) return;
  const { sql } = ctx.db;
  const state = await chain.txState(one.txid);
  const looksAtOutputs = one.isUnsearched && state.blockHash === null && (isNewTip || one.stale);
  const mined = looksAtOutputs ? await blockByOutputs(chain, one) : state.blockHash === null ? null : await chain.block(state.blockHash);
  const where = sql`file_id = ${one.sweepId} and round = ${one.round} and number = ${one.number}`;
  if (mined) {
    if (mined.hash === one.blockHash) return;
    const { unmoved, paid, arrived } = kindOf(one.coin) === 'ethereum' ? await readOutcome(ctx, chain, one) : NO_RECEIPT;
    await sql`
      update signed_transactions set block_height = ${mined.height}, block_hash = ${mined.hash}, refusal = null, unmoved = ${unmoved}::text[],
        paid_units = ${paid?.toString() ?? null}::numeric, arrived_units = ${arrived?.toString() ?? null}::numeric,
        conflict_height = null, conflict_hash = null, sent_at = coalesce(sent_at, clock_timestamp()) where ${where}`;
    return;
  }
  if (one.blockHash !== null)
    await sql`update signed_transactions set block_height = null, block_hash = null, unmoved = '{}', paid_units = null, arrived_units = null
      where ${where}`;
  // Without an index, what waited may be in a block that is not read yet, and peers only say that it waited once.
  if (state.state === 'mempool' && isIndexed) {
    if ((one.newest && one.stale) || one.conflictHash !== null)
      await sql`
        update signed_transactions set sent_at = clock_timestamp(), refusal = null, conflict_height = null, conflict_hash = null
        where ${where}`;
    return;
  }
  // It was announced, and now another mempool shows that it is out.
  if (state.state === 'mempool' && one.newest && one.refusal !== null && one.conflictHash === null && !one.isRobbed) {
    await sql`update signed_transactions set sent_at = clock_timestamp(), refusal = null where ${where}`;
    return;
  }
  // Nodes refuse what was replaced.
  if (!one.newest) return;
  const held = one.isOut || !one.stale ? null : await heldBack(ctx, one);
  if (held !== null) {
    if (one.refusal !== held) {
      // Not if another process has sent or ended it since.
      await sql`
        update signed_transactions set refusal = ${held}
        where ${where} and failed_at is null and (sent_at is null or refusal is not null)`;
      ctx.log.warn({ coin: one.coin, sweep: one.sweepId, txid: one.txid }, 'A transaction waits: the deposit of a refund changed');
    }
    await followConflict(ctx, chain, one);
    return;
  }
  if (one.stale) {
    const refusal = await sendOnce(ctx, chain, one).catch(async (error: unknown) => {
      if (error instanceof ChainError)
        await sql`update signing_files set failure = ${error.message.slice(0, 300)} where id = ${one.sweepId}`;
      throw error;
    });
    if (refusal === 'ended') return;
    if (refusal === null && !one.isRobbed) return;
    if (refusal !== null)
      ctx.log.warn({ coin: one.coin, sweep: one.sweepId, txid: one.txid, refusal }, 'A transaction of a sweep was refused');
  } else if ((one.refusal === null && !one.isRobbed) || !isNewTip) return;
  await followConflict(ctx, chain, one);
}

/** What a merchant can do about a refusal, before what the source said. */
const REMEDIES: readonly (readonly [refusal: RegExp, text: string])[] = [
  [
    /less than (block )?base fee|max ?fee ?per ?gas|fee cap less than|underpriced/i,
    'the network fee rose above what this file pays; raise the fee and sign the file again, or wait until the fee falls',
  ],
  [
    /insufficient ?(funds|balance)/i,
    'the address it is sent from holds too little for the amount and the fee; if it holds the amount, raise the fee and sign the file again',
  ],
];
const refusalText = (refusal: string): string => {
  const remedy = REMEDIES.find(([pattern]) => pattern.test(refusal));
  return remedy ? `${remedy[1]} (${refusal.slice(0, 150)})` : refusal.slice(0, 300);
};

/**
 * Why the chain refused it; null: it was accepted. `ended`: another process ended it, before its deposit was paid again. None ends it while
 * it is on its way, because that would release money that moves. Errors: ChainError, when nothing could be sent.
 */
const sendOnce = (ctx: Context, chain: JoinedSource, one: PendingTransaction): Promise<string | null> =>
  ctx.db.begin(async (tx) => {
    const where = tx`file_id = ${one.sweepId} and round = ${one.round} and number = ${one.number}`;
    const [open] = await tx`select 1 from signed_transactions where ${where} and failed_at is null for update`;
    if (!open) return 'ended';
    const refusal = await send(chain, one);
    await tx`update signed_transactions set sent_at = clock_timestamp(), refusal = ${refusal} where ${where}`;
    return refusal;
  });

/** Why the chain refused it; null: it was accepted. Errors: ChainError, when nothing could be sent. */
async function send(chain: JoinedSource, { coin, raw, isOut }: PendingTransaction): Promise<string | null> {
  if (kindOf(coin) === 'ethereum') {
    const [reply] = await chain.ask([['eth_sendRawTransaction', `0x${Buffer.from(raw).toString('hex')}`]]);
    const refusal = reply!.error?.message ?? null;
    return refusal === null || /already known|already imported/i.test(refusal) ? null : refusalText(refusal);
  }
  try {
    await chain.outlet.send(raw);
    return null;
  } catch (error) {
    if (!(error instanceof ChainError) || (error.kind !== 'refused' && error.kind !== 'unseen')) throw error;
    // Peers that have it do not announce it again.
    return error.kind === 'unseen' && isOut ? null : error.message;
  }
}

type Outcome = {
  /** The accounts whose money did not move. */
  unmoved: string[];
  /** The fee, in the coin that pays for gas. */
  paid: bigint | null;
  /** What it paid to recipients, in the coin of the file. */
  arrived: bigint | null;
};
const NO_RECEIPT: Outcome = { unmoved: [], paid: null, arrived: null };
/** What a mined transaction did, by its receipt. */
async function readOutcome(ctx: Context, chain: JoinedSource, one: PendingTransaction): Promise<Outcome> {
  const { sweepId, number, txid, raw } = one;
  const [[row], [reply]] = await Promise.all([
    ctx.db.sql<{ file: unknown }[]>`select file from signing_files where id = ${sweepId}`,
    chain.ask([['eth_getTransactionReceipt', txid]]),
  ]);
  if (!reply || reply.error || reply.result === null) throw new ChainError('outage', `the source has no receipt of ${txid} yet`);
  const request = signingFileOf(row!.file).requests[number];
  if (!request || request.kind === 'psbt') return NO_RECEIPT;
  const unmoved = await readUnmoved(chain, request, reply.result);
  return { unmoved, paid: paidFor(reply.result), arrived: arrivedBy(request, { raw, unmoved }) };
}

/** What a mined transaction paid to those for whom its file is. */
function arrivedBy(request: AccountRequest, { raw, unmoved }: { raw: Uint8Array; unmoved: readonly string[] }): bigint {
  const isMoved = ({ from }: { from: string }): boolean => !unmoved.includes(from.toLowerCase());
  switch (request.kind) {
    case 'fund':
      return 0n;
    case 'native':
      // Every round pays another amount, so the transaction itself says it.
      return isMoved(request) ? readSignedTransaction(raw)!.units : 0n;
    case 'token':
      return isMoved(request) ? request.line.units : 0n;
    case 'batch':
      return request.authorizations.reduce((sum, one) => (isMoved(one) && one.line.purpose !== 'gather' ? sum + one.line.units : sum), 0n);
  }
}

async function readUnmoved(chain: JoinedSource, request: AccountRequest, receipt: unknown): Promise<string[]> {
  const unmoved = new Set(unmovedBy(request, receipt));
  if (request.kind !== 'batch' || unmoved.size === 0) return [...unmoved];
  // Anybody may send an authorization that was published, also before the transaction that was made for it.
  const published = request.authorizations.filter(({ from }) => unmoved.has(from.toLowerCase()));
  const used = await usedAmong(chain, request.contract, published);
  return stillOwned(request, new Set(published.flatMap((one) => (used.has(one) ? [] : [one.from.toLowerCase()]))));
}

/** With the accounts whose money was only gathered: it is on the account that did not pay. */
const stillOwned = ({ authorizations }: BatchRequest, unmoved: ReadonlySet<string>): string[] =>
  authorizations.flatMap(({ from, line }) => {
    const isGathered = line.purpose === 'gather' && unmoved.has(line.to.toLowerCase());
    return isGathered || unmoved.has(from.toLowerCase()) ? [from.toLowerCase()] : [];
  });

type Row = {
  number: number;
  round: number;
  sent: boolean;
  refusal: string | null;
  height: number | null;
  hash: string | null;
  failed: boolean;
  unmoved: string[];
};
const readTransactions = (sql: Sql | Tx, id: string): Promise<readonly Row[]> =>
  sql<Row[]>`
    select number, round, sent_at is not null as sent, refusal, block_height::int as height, block_hash as hash, failed_at is not null as failed,
      unmoved from signed_transactions where file_id = ${id}`;

/** Whether each transaction is final: one round is so deep in blocks that no reorganization is expected, or all rounds are impossible. */
const areFinal = (rows: readonly Row[], endHeight: number): boolean =>
  [...Map.groupBy(rows, ({ number }) => number).values()].every(
    (rounds) => rounds.every(({ failed }) => failed) || rounds.some(({ height }) => height !== null && height <= endHeight),
  );

/**
 * Whether all blocks of the transactions are still on the chain. Those that are not are looked at first in the next round: this one may
 * not have looked at them, because others waited longer.
 */
async function areInChain(ctx: Context, chain: JoinedSource, { id, rows }: { id: string; rows: readonly Row[] }): Promise<boolean> {
  const blocks = new Map(rows.flatMap(({ hash, height }) => (hash === null || height === null ? [] : [[hash, height] as const])));
  const gone: string[] = [];
  for (const [hash, height] of blocks) if ((await chain.blockAt(height))?.hash !== hash) gone.push(hash);
  if (gone.length > 0)
    await ctx.db.sql`update signed_transactions set looked_at = null where file_id = ${id} and block_hash = any(${gone}::text[])`;
  return gone.length === 0;
}

/** Whether the follower has read the blocks of the transactions. On chains of accounts, these say which deposits were there to be moved. */
async function areRecorded(ctx: Context, chain: JoinedSource, { coin, rows }: { coin: Coin; rows: readonly Row[] }): Promise<boolean> {
  if (kindOf(coin) !== 'ethereum') return true;
  const [tip] = await ctx.db.sql<
    { height: number; hash: string }[]
  >`select height::int, hash from ${tipsIn(ctx, ctx.db.sql, coin)} where chain = ${chainCode(coin)}`;
  if (!tip || rows.some(({ height }) => height !== null && height > tip.height)) return false;
  return (await chain.blockAt(tip.height))?.hash === tip.hash;
}

/**
 * The state of a sweep from those of its transactions. Transactions with the same number in different rounds spend the same inputs, so at
 * most one of them can be mined.
 */
async function conclude(ctx: Context, chain: JoinedSource, { tip, id, coin }: { tip: BlockRef; id: string; coin: Coin }): Promise<void> {
  const looked = await readTransactions(ctx.db.sql, id);
  const endHeight = await readEndHeight(ctx, coin, tip);
  const ends =
    areFinal(looked, endHeight) &&
    (await areInChain(ctx, chain, { id, rows: looked })) &&
    (await areRecorded(ctx, chain, { coin, rows: looked }));
  await ctx.db.begin(async (tx) => {
    const [sweep] = await tx`select 1 from signing_files where id = ${id} and state in ('signed', 'sent') for update`;
    if (!sweep) return;
    const rows = await readTransactions(tx, id);
    const isNewest = ({ number, round }: Row): boolean => !rows.some((row) => row.number === number && row.round > round);
    const refused = rows.find((row) => row.refusal !== null && isNewest(row))?.refusal ?? null;
    // Another process may have found in between that a block is gone.
    if (ends && areFinal(rows, endHeight)) return end(ctx, tx, { id, coin, rows });
    if (rows.some((row) => row.height !== null || (row.sent && row.refusal === null)))
      await tx`update signing_files set state = 'sent', sent_at = coalesce(sent_at, clock_timestamp()), failure = ${refused} where id = ${id}`;
    else if (refused !== null) await tx`update signing_files set failure = ${refused} where id = ${id}`;
  });
}

/** What to say about the transactions that cannot be mined. */
function conflictsOf(rows: readonly Row[]): string[] {
  const numbers = (of: readonly Row[]): number => new Set(of.map(({ number }) => number)).size;
  const all = numbers(rows);
  const failed = rows.filter((row) => row.failed);
  const gone = numbers(failed.filter(({ refusal }) => refusal === DEPOSIT_GONE));
  const lost = numbers(failed) - gone;
  return [
    ...(lost === 0 ? [] : [`conflict: another transaction spent the inputs or used the account nonce of ${lost} of ${all} transactions`]),
    ...(gone === 0
      ? []
      : [
          `deposit gone: the block with the deposit of ${gone} of ${all} transactions was replaced; if the deposit comes back, they can still be sent`,
        ]),
  ];
}

/** What happened to money whose transaction was mined and did not move it. */
const unmovedText = (count: number): string =>
  `the money of ${count === 1 ? '1 address' : `${count} addresses`} did not move, because the contract of the recipient or of the token refused the transfer`;

/**
 * Ends a sweep. What did not move may be in another file, and the gas address may pay for the next one. What a refund did not pay stays
 * reserved until that has failed: anybody may still send its authorization.
 */
async function end(ctx: Context, tx: Tx, { id, coin, rows }: { id: string; coin: Coin; rows: readonly Row[] }): Promise<void> {
  const unmoved = [...new Set(rows.flatMap((row) => row.unmoved))];
  if (kindOf(coin) === 'ethereum') await moveInstead(tx, { id, unmoved });
  const [{ moved } = { moved: 0 }] = await tx<{ moved: number }[]>`
    with kept as (
      select i.number, s.purpose = 'refund' as waits from signing_inputs i join signing_files s on s.id = i.file_id
      join deposit_addresses a on a.payment_id = i.payment_id and a.wallet_id = s.wallet_id
      where i.file_id = ${id} and i.released_at is null and lower(a.address) = any(${unmoved}::text[])
    ), released as (
      update signing_inputs set released_at = clock_timestamp()
      where file_id = ${id} and released_at is null and (input like 'gas:%' or number in (select number from kept where not waits))
    )
    select count(*)::int as moved from signing_inputs
    where file_id = ${id} and payment_id is not null and released_at is null and number not in (select number from kept)`;
  if (kindOf(coin) === 'ethereum' && rows.some(({ failed }) => !failed)) await leaveRest(tx, { id, unmoved });
  const failures = [...(unmoved.length > 0 ? [unmovedText(unmoved.length)] : []), ...conflictsOf(rows)];
  const failure = failures.length === 0 ? null : failures.join('; ');
  await tx`
    update signing_files set state = ${moved > 0 && rows.some(({ failed }) => !failed) ? 'confirmed' : 'failed'}, sent_at = coalesce(sent_at, clock_timestamp()),
      ended_at = clock_timestamp(), failure = ${failure} where id = ${id}`;
  ctx.log.info({ sweep: id, chain: chainCode(coin), unmoved: unmoved.length }, 'A sweep ended');
}

/**
 * What was left on an account may be moved by another file. The share of its last transfer is smaller than what arrived. What its own
 * transaction sent is known from the chain: it is planned with the highest fee, and with another one in each round.
 */
const leaveRest = (tx: Tx, { id, unmoved }: { id: string; unmoved: readonly string[] }) => tx`
  with moved as (
    select i.number, i.units, t.units as all_units, t.units - ${takenOf(tx)} as left_units, i.payment_id, lower(a.address) as address
    from signing_inputs i join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
    join signing_files f on f.id = i.file_id join deposit_addresses a on a.payment_id = i.payment_id and a.wallet_id = f.wallet_id
    where i.file_id = ${id} and i.released_at is null and not lower(a.address) = any(${unmoved as string[]}::text[])
  ), whole as (
    select payment_id, sum(left_units) as units from moved where units = all_units group by 1
  ), sent as (
    select lower(s.file -> 'requests' -> o.number ->> 'from') as address, o.arrived_units + o.paid_units as units
    from signing_files s join signed_transactions o on o.file_id = s.id and o.block_height is not null and o.after_number is null
    where s.id = ${id} and s.file -> 'requests' -> o.number ->> 'kind' = 'native'
  )
  update signing_inputs i set released_at = clock_timestamp(),
    taken_units = case when m.units = 0 then 0 else greatest(0, least(m.left_units, coalesce(sent.units - coalesce(whole.units, 0), m.units))) end
  from moved m left join whole on whole.payment_id = m.payment_id left join sent on sent.address = m.address
  where i.file_id = ${id} and i.number = m.number and m.units < m.all_units`;

/**
 * A deposit may leave the chain after its file was signed. If its customer pays the account again, the file moves that money instead: all
 * that it moves is on the account before its block.
 */
const moveInstead = (tx: Tx, { id, unmoved }: { id: string; unmoved: readonly string[] }) => tx`
  with gone as (
    select i.number, i.chain, i.coin, i.payment_id, i.units from signing_inputs i
    join signing_files s on s.id = i.file_id join wallets w on w.id = s.wallet_id
    join deposit_addresses a on a.payment_id = i.payment_id and a.wallet_id = w.id and a.family = w.family
    where i.file_id = ${id} and i.released_at is null and not lower(a.address) = any(${unmoved as string[]}::text[])
      and not exists (select 1 from transfers t where t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
        and t.block_height is not null and t.conflict_height is null)
  ), wanted as (
    select chain, coin, payment_id, sum(units) as units from gone group by 1, 2, 3
  ), found as (
    select w.chain, w.coin, w.payment_id, t.ref, t.units, left_units, w.units as wanted,
      sum(left_units) over (partition by t.payment_id order by t.block_height, t.first_seen_at, t.ref) - left_units as before
    from wanted w join transfers t on t.payment_id = w.payment_id and t.coin = w.coin
    cross join lateral (select t.units - ${takenOf(tx)} as left_units) rest
    where t.conflict_height is null and t.block_height <= (select max(block_height) from signed_transactions where file_id = ${id})
      and not exists (select 1 from signing_inputs i
        where i.payment_id = t.payment_id and i.coin = t.coin and i.ref = t.ref and i.released_at is null)
  ), released as (
    update signing_inputs set released_at = clock_timestamp()
    where file_id = ${id} and number in (select number from gone where payment_id in (select payment_id from found))
  )
  insert into signing_inputs (file_id, number, chain, input, coin, payment_id, ref, units)
  select ${id}, (select max(number) from signing_inputs where file_id = ${id}) + row_number() over (order by payment_id, ref), chain,
    coin || ':' || payment_id || ':' || ref, coin, payment_id, ref, case when wanted - before < left_units then wanted - before else units end
  from found where before < wanted`;

// What a mined transaction of a sweep moved and cost. A batch succeeds as a whole even where a transfer in it failed, so its transfers are
// counted.

/** The accounts, in lower case, from which the contract reported a transfer. */
function sendersIn(logs: unknown, contract: string): Set<string> {
  const senders = new Set<string>();
  for (const log of Array.isArray(logs) ? logs : []) {
    const { address, topics } = asObject(log);
    const [topic, from] = Array.isArray(topics) ? topics : [];
    if (String(address).toLowerCase() !== contract.toLowerCase() || topic !== TRANSFER_TOPIC || typeof from !== 'string') continue;
    senders.add(`0x${from.slice(-40).toLowerCase()}`);
  }
  return senders;
}

/** The accounts, in lower case, whose money did not move. */
function unmovedBy(request: AccountRequest, receipt: unknown): string[] {
  const { status, logs } = asObject(receipt);
  const failed = BigInt(String(status ?? '0x1')) === 0n;
  if (request.kind === 'native') return failed ? [request.from.toLowerCase()] : [];
  if (request.kind === 'fund') return failed ? [request.to.toLowerCase()] : [];
  const senders = failed ? new Set<string>() : sendersIn(logs, request.contract);
  const wanted = request.kind === 'batch' ? request.authorizations.map(({ from }) => from) : [request.from];
  return wanted.map((from) => from.toLowerCase()).filter((from) => !senders.has(from));
}

/** The fee that a receipt shows, with what chains of the OP stack charge for publishing besides; null: it shows none. */
export function paidFor(receipt: unknown): bigint | null {
  const { gasUsed, effectiveGasPrice, l1Fee = '0x0' } = asObject(receipt);
  if (![gasUsed, effectiveGasPrice, l1Fee].every((one) => typeof one === 'string' && /^0x[0-9a-f]{1,64}$/i.test(one))) return null;
  return BigInt(String(gasUsed)) * BigInt(String(effectiveGasPrice)) + BigInt(String(l1Fee));
}
