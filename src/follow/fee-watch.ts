/** Keeps what transfers cost on an EVM chain now, for customers who choose between networks. Page views read it from the database. */
import { type Chain, ChainError, type GasFee, type NamedSource } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { chainCode } from '../core/coin.ts';
import { FEES_SECONDS } from './poll-pace.ts';

/** Asks the first source that can tell, at most every ten minutes. Never fails because of a source. */
export function createFeeWatch(ctx: Context, { coin, sources }: Pick<Chain, 'coin' | 'sources'>): () => Promise<void> {
  const able = sources.filter(({ source }) => source.gasFee);
  let dueAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    const nowMs = ctx.clock.monotonicMs();
    if (nowMs < dueAtMs || able.length === 0) return;
    const code = chainCode(coin);
    const [tip] = await ctx.db.sql<{ isFresh: boolean }[]>`
      select fee_at is not null and fee_at > clock_timestamp() - ${FEES_SECONDS} * interval '1 second' as "isFresh" from tips where chain = ${code}`;
    // Nothing was read yet.
    if (!tip) return;
    dueAtMs = nowMs + FEES_SECONDS * 1_000;
    // Another process asked, or this one before a restart.
    if (tip.isFresh) return;
    const fee = await ask(able);
    if (fee === null) return;
    await ctx.db.sql`
      update tips set gas_price = ${String(fee.gasPrice)}::numeric, data_fee = ${String(fee.dataFee)}::numeric, fee_at = clock_timestamp()
      where chain = ${code}`;
  };

  async function ask(able: readonly NamedSource[]): Promise<GasFee | null> {
    for (const { name, source } of able) {
      try {
        return await source.gasFee!();
      } catch (error) {
        if (!(error instanceof ChainError)) throw error;
        ctx.log.debug({ err: error, coin, source: name }, 'Could not ask for the fee of a transfer');
      }
    }
    return null;
  }
}
