/** Transfers in blocks that a source of others showed and the operator's own node has: the node vouches for them. */
import type { SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainOf, coinsBeside, isToken, kindOf } from '../core/coin.ts';
import { lockAndSettle } from '../payments/settle-payments.ts';
import type { Evidence } from './source-agreement.ts';

/** Blocks below the cursor that are checked first: those of a day. */
const BLOCKS_AT_START = 7_200;
/** Transfers written in one round; more wait for the next. */
const AT_ONCE = 500;

type Seen = ReadonlyMap<SourceState, Evidence>;

/**
 * One per coin. Call it with what all voting sources show now. Only for Ethereum, whose blocks are checked against their hash: a node that
 * has the hash has the same transfers.
 */
export function createVouching(ctx: Context, { coin }: { coin: Coin }): (seen: Seen, cursor: { height: number }) => Promise<void> {
  let through: number | null = null;
  let asked = '';
  return async (seen, cursor) => {
    if (kindOf(coin) !== 'ethereum' || isToken(coin)) return;
    const [own] = [...seen]
      .flatMap(([{ trust }, evidence]) => (trust === 'own' && evidence.through ? [evidence.through] : []))
      .toSorted((a, b) => b.height - a.height);
    if (!own || own.hash === asked) return;
    const from = through === null ? cursor.height - BLOCKS_AT_START : Math.min(through, own.height) - chainOf(coin).maxReorg;
    const isAll = await vouch(ctx, coin, { from, upTo: own.height });
    if (!isAll) return;
    through = own.height;
    asked = own.hash;
  };
}

/** Whether all of them are written. */
async function vouch(ctx: Context, coin: Coin, { from, upTo }: { from: number; upTo: number }): Promise<boolean> {
  const rows = await ctx.db.sql<{ paymentId: string; coin: Coin; ref: string; hash: string }[]>`
    select t.payment_id as "paymentId", t.coin, t.ref, t.block_hash as hash from transfers t join payments p on p.id = t.payment_id
    where t.coin = any(${coinsBeside(coin)}::text[]) and t.block_height > ${from} and t.block_height <= ${upTo} and t.verified_by is null
      and p.mode = 'live'
    limit ${AT_ONCE}`;
  if (rows.length === 0) return true;
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      rows.map(({ paymentId }) => paymentId),
      async () => {
        // Only in the block that the node has: a reorganization may have moved it since.
        await tx`
          update transfers t set verified_by = 'node'
          from jsonb_to_recordset(${tx.json(rows)}) as r ("paymentId" text, coin text, ref text, hash text)
          where t.payment_id = r."paymentId" and t.coin = r.coin and t.ref = r.ref and t.block_hash = r.hash`;
      },
    ),
  );

  return rows.length < AT_ONCE;
}
