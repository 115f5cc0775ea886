/**
 * Deposits that another wallet moved with a transaction that Florin does not know, such as somebody who sent a canceled signing file. Once
 * that is final, the books say that the money left.
 */
import { type BlockRef, ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, coinsBeside, contractOf, isToken, kindOf } from '#core/coin';
import type { Fragment, Tx } from '#db';
import { DEFAULT_WISH, type Holding, readEndHeight, takenOf } from './holdings.ts';
import { onChain, readGasPrice, TRANSFER_GAS } from './make-accounts.ts';
import { outputsOfHolding } from './make-utxo.ts';

/** How often each deposit is looked at, how often while it is missing, and how many are in one round. */
const LOOK_SECONDS = 6 * 3_600;
const MISSING_SECONDS = 600;
const LOOKS = 100;

/**
 * Watches the deposits of a file that was canceled: somebody may have sent it, unless it was a rehearsal. An account may lose all of a
 * transfer of which the file would have taken a part.
 */
export async function watchCanceled(ctx: Pick<Context, 'mode'>, tx: Tx, { sweepId }: { sweepId: string }): Promise<void> {
  if (ctx.mode === 'test') return;
  await tx`
  insert into moved_deposits (chain, input, merchant_id, coin, payment_id, ref, units)
  select i.chain, i.input, s.merchant_id, i.coin, i.payment_id, i.ref, case when i.input like i.coin || ':%' then t.units else i.units end
  from signing_inputs i join signing_files s on s.id = i.file_id
  join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
  where s.id = ${sweepId} and i.units is not null
  on conflict do nothing`;
}

/** Watches deposits of one chain that this did not have any more when a file was made. */
export async function watchMissing(
  ctx: Context,
  { merchantId, holdings }: { merchantId: string; holdings: Iterable<Holding> },
): Promise<void> {
  const found = [...holdings].flatMap(({ coin, paymentId, ref, units, ...holding }) => {
    const deposit = { coin, paymentId, ref };
    if (kindOf(coin) === 'ethereum') return [{ ...deposit, input: `${coin}:${paymentId}:${ref}`, units: units.toString() }];
    const outputs = outputsOfHolding({ coin, paymentId, ref, units, ...holding });
    if (outputs === 'unreadable') return [];
    return outputs.map((one) => ({ ...deposit, input: `${one.txid}:${one.n}`, units: one.units.toString() }));
  });
  if (found.length === 0 || ctx.mode === 'test') return;
  await ctx.db.sql`
    insert into moved_deposits (chain, input, merchant_id, coin, payment_id, ref, units)
    select ${chainCode(found[0]!.coin)}, input, ${merchantId}, coin, "paymentId", ref, units
    from jsonb_to_recordset(${ctx.db.sql.json(found)}) as found (coin text, "paymentId" text, ref text, input text, units numeric)
    on conflict do nothing`;
}

/** The payments among these of which another transaction spent a deposit, perhaps to return it. */
export async function readRobbed(
  { db: { sql } }: Context,
  { coin, paymentIds }: { coin: Coin; paymentIds: readonly string[] },
): Promise<ReadonlySet<string>> {
  const rows = await sql<{ id: string }[]>`
    select payment_id as id from signing_inputs
    where payment_id = any(${paymentIds as string[]}::text[]) and coin = ${coin} and released_at is null and lost_at is not null
    union select payment_id from moved_deposits
    where payment_id = any(${paymentIds as string[]}::text[]) and coin = ${coin} and moved_at is not null`;
  return new Set(rows.map(({ id }) => id));
}

type WatchedDeposit = {
  input: string;
  coin: Coin;
  /** Accounts: what all deposits there had left that no file of ours took, also those that were moved. */
  units: bigint;
  address: string;
  /** The block that contains it. */
  height: number;
  hash: string;
  missingHeight: number | null;
  missingHash: string | null;
  isMoved: boolean;
};

/** One round for a chain, in the process that follows it. What one of our files spends is not moved by others. */
export async function followMoved(ctx: Context, chain: JoinedSource): Promise<void> {
  const { sql } = ctx.db;
  const coins = coinsBeside(chain.coin);
  const isAccount = kindOf(chain.coin) === 'ethereum';
  const isOurs = sql`(exists (select 1 from signing_inputs i where i.chain = m.chain and i.input = m.input and i.released_at is null)
    -- What an open file of ours leaves on an account is known when it ends.
    or (${isAccount} and exists (select 1 from signing_inputs i join signing_files s on s.id = i.file_id
      where i.payment_id = m.payment_id and i.coin = m.coin and i.released_at is null and s.state in ('made', 'signed', 'sent'))))`;
  const left = sql`
    (select coalesce(sum(t.units - ${takenOf(sql)}), 0) from transfers t
      where t.payment_id = m.payment_id and t.coin = m.coin and t.block_height is not null and t.conflict_height is null
        and not exists (select 1 from signing_inputs i
          where i.payment_id = t.payment_id and i.coin = t.coin and i.ref = t.ref and i.released_at is null))`;
  const watched = await sql<WatchedDeposit[]>`
    update moved_deposits as m set looked_at = clock_timestamp()
    from (
      select m.chain, m.input, t.address, t.block_height, t.block_hash from moved_deposits m
      join transfers t on t.payment_id = m.payment_id and t.coin = m.coin and t.ref = m.ref and t.block_height is not null
      where m.coin = any(${coins}::text[]) and not ${isOurs}
        and (m.looked_at is null or m.looked_at < clock_timestamp() - make_interval(secs =>
          case when m.missing_hash is not null and m.moved_at is null then ${MISSING_SECONDS}::int else ${LOOK_SECONDS}::int end))
      order by m.looked_at nulls first limit ${LOOKS} for update of m skip locked
    ) chosen
    where m.chain = chosen.chain and m.input = chosen.input
    returning m.input, m.coin, case when ${isAccount} then ${left} else m.units end as units, chosen.address,
      chosen.block_height::int as height, chosen.block_hash as hash, m.missing_height::int as "missingHeight",
      m.missing_hash as "missingHash", m.moved_at is not null as "isMoved"`;
  if (watched.length === 0) return;
  const tip = await chain.tip();
  for (const [coin, some] of Map.groupBy(watched, (one) => one.coin)) {
    const missing = await missingAmong(ctx, chain, { coin, some });
    const endHeight = await readEndHeight(ctx, coin, tip);
    for (const one of some) await conclude(ctx, chain, { one, isMissing: missing.has(one), tip, endHeight, isOurs });
  }
}

/** Those that the chain does not have any more, without what only waits; none where no source can tell. */
async function missingAmong(
  ctx: Context,
  chain: JoinedSource,
  { coin, some }: { coin: Coin; some: readonly WatchedDeposit[] },
): Promise<ReadonlySet<WatchedDeposit>> {
  if (kindOf(coin) !== 'ethereum') {
    try {
      const unspent = await chain.outlet.areUnspent(
        some.map(({ input }) => input),
        { onlyBlocks: true },
      );
      return new Set(some.filter((_, i) => !unspent[i]));
    } catch (error) {
      if (error instanceof ChainError && error.kind === 'unsupported') return new Set();
      throw error;
    }
  }
  const lots = some.map(({ address, units }) => ({ address, units, index: 0, holdings: [] }));
  const held = await onChain(chain, lots, contractOf(coin, ctx.settings.networks[COIN[coin].chain]));
  // Its transaction may have left something of native coin. It is missing if nothing on the account is worth a fee. Others may pay the account
  // again, so it is there again if the account has what all of them left.
  const worthless = isToken(coin) ? 0n : TRANSFER_GAS * (await readGasPrice(chain, DEFAULT_WISH)).max;
  return new Set(some.filter(({ units, isMoved }, i) => held[i]!.units < units && (isMoved || held[i]!.units <= worthless)));
}

/** It was moved once the block at which it was first missing is final, and it is still missing. It was not, if it is there after all. */
async function conclude(
  { db: { sql }, log }: Context,
  chain: JoinedSource,
  {
    one,
    isMissing,
    tip,
    endHeight,
    isOurs,
  }: { one: WatchedDeposit; isMissing: boolean; tip: BlockRef; endHeight: number; isOurs: Fragment },
): Promise<void> {
  const { input, missingHeight: height, missingHash: hash, isMoved } = one;
  const where = sql`m.chain = ${chainCode(one.coin)} and m.input = ${input}`;
  if (!isMissing) {
    // An account may just have been paid again, with what is not recorded yet, so a second look decides that it was not moved.
    const isSure = !isMoved || kindOf(one.coin) !== 'ethereum' || hash === null;
    if (hash !== null || isMoved)
      await sql`
        update moved_deposits m set missing_height = null, missing_hash = null, moved_at = case when ${isSure} then null else moved_at end
        where ${where}`;
    return;
  }
  // A source that is still reading older blocks does not have it yet.
  if (tip.height < one.height || (await chain.blockAt(one.height))?.hash !== one.hash) return;
  if (height === null || (await chain.blockAt(height))?.hash !== hash) {
    await sql`update moved_deposits m set missing_height = ${tip.height}, missing_hash = ${tip.hash} where ${where}`;
    return;
  }
  if (height > endHeight) return;
  const { count } =
    await sql`update moved_deposits m set moved_at = clock_timestamp() where ${where} and moved_at is null and not ${isOurs}`;
  if (count > 0) log.warn({ coin: one.coin, input }, 'Another wallet moved a deposit');
}
