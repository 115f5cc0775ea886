/** Watches the contracts of tokens: one that is paused, was replaced or upgraded, or is not what the table says takes no payments until that is over. */
import { ChainError, type ContractState, type GasFee, type JoinedSource, type NamedSource, type Sighting } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, coinsBeside, coinText, isOfferable } from '#core/coin';
import { isBinding } from '#core/guard';
import type { Tx } from '#db';
import { queueProcessing } from '#settling';
import { CONTRACTS_SECONDS, FEES_SECONDS } from './poll-pace.ts';

/** What a contract says that keeps it from being offered; null when nothing does. `known`: the code that was accepted. */
export function whyNotOffered({ coin, exists, decimals, paused, deprecated, code }: ContractState, known: string | null): string | null {
  if (!exists) return `there is no contract of ${coinText(coin)} at its address`;
  if (decimals !== COIN[coin].decimals)
    return `the contract of ${coinText(coin)} has ${decimals ?? 'unknown'} decimals, but ${COIN[coin].decimals} are expected`;
  if (deprecated) return `the contract of ${coinText(coin)} is deprecated: its issuer replaced it with another one`;
  if (known !== null && !isSameCode(known, code))
    return `the contract of ${coinText(coin)} was upgraded; an operator must check it and release the chain`;
  return paused ? `the contract of ${coinText(coin)} is paused` : null;
}

/** Code that was accepted earlier may name fewer places where proxies store it. */
const isSameCode = (known: string, code: string): boolean => known === code || code.startsWith(`${known},`);

/** `paid`: the tokens that the transfers to record next are in. */
export type WatchContracts = (paid?: readonly Coin[]) => Promise<void>;
/**
 * Asks all sources that can tell; the first that says that something is wrong counts. Never fails because of a source. Every few minutes it
 * asks about all tokens of the chain, and each time about those that were paid: what a contract reports after an
 * upgrade is held before it can complete.
 */
export function createContractWatch(ctx: Context, chain: Pick<JoinedSource, 'coin' | 'network' | 'sources'>): WatchContracts {
  let askedAtMs = Number.NEGATIVE_INFINITY;
  const ask = async ({ source }: NamedSource, only: readonly Coin[] | undefined): Promise<readonly ContractState[]> => {
    try {
      return (await source.contracts?.(only)) ?? [];
    } catch (error) {
      if (error instanceof ChainError) return [];
      throw error;
    }
  };
  return async (paid = []) => {
    const nowMs = ctx.clock.monotonicMs();
    const isDue = nowMs - askedAtMs >= CONTRACTS_SECONDS * 1_000;
    if (!isDue && paid.length === 0) return;
    if (isDue) askedAtMs = nowMs;
    const states = (await Promise.all(chain.sources.map((one) => ask(one, isDue ? undefined : paid)))).flat();
    if (states.length > 0) await ctx.db.begin((tx) => record(ctx, tx, chain, states));
  };
}

async function record(
  ctx: Context,
  tx: Tx,
  { coin: chain, network }: Pick<JoinedSource, 'coin' | 'network'>,
  states: readonly ContractState[],
): Promise<void> {
  const coins = [...new Set(states.map(({ coin }) => coin))];
  const rows = await tx<{ coin: Coin; code: string | null; hold: string | null }[]>`
    select coin, code, hold from token_contracts where coin = any(${coins}::text[]) for update`;
  let lifted = false;
  for (const coin of coins) {
    const known = rows.find((row) => row.coin === coin);
    const said = states.filter((state) => state.coin === coin);
    const held = said.map((state) => ({ state, why: whyNotOffered(state, known?.code ?? null) })).find(({ why }) => why !== null);
    const hold = held?.why ?? null;
    const seen = held?.state.code ?? said[0]!.code;
    if (known && known.hold === hold && (hold !== null || known.code === seen)) continue;
    await tx`
      insert into token_contracts (coin, code, seen_code, hold) values (${coin}, ${said[0]!.exists ? seen : null}, ${seen}, ${hold})
      on conflict (coin) do update set seen_code = excluded.seen_code, hold = excluded.hold,
        code = case when excluded.hold is null then excluded.seen_code else token_contracts.code end`;
    if (hold === null && known?.hold) lifted = true;
    // Test networks do not have all of them.
    if (hold !== null) ctx.log[isBinding(network) ? 'error' : 'debug']({ coin, reason: hold }, 'A stablecoin is held');
  }
  if (lifted) await queueProcessing(tx, { coin: chain });
}

/** The tokens that are paid, of those whose contracts are watched. */
export const tokensPaid = (sightings: readonly Sighting[]): Coin[] => [
  ...new Set(sightings.flatMap(({ coin, kind }) => (kind === 'token' && coin !== undefined && isOfferable(coin) ? [coin] : []))),
];

/** An operator checked the upgraded contracts of a chain. Returns what was held. */
export async function acceptContracts(tx: Tx, chain: Coin): Promise<string[]> {
  const rows = await tx<{ hold: string }[]>`
    update token_contracts t set hold = null, code = seen_code
    from (select coin, hold from token_contracts where coin = any(${coinsBeside(chain)}::text[]) for update) as before
    where t.coin = before.coin and before.hold is not null and t.code is distinct from t.seen_code returning before.hold`;
  return rows.map(({ hold }) => hold);
}

// Keeps what transfers cost on an EVM chain now, for customers who choose between networks. Page views read it from the database.

/** Asks the first source that can tell, at most every ten minutes. Never fails because of a source. */
export function createFeeWatch(ctx: Context, { coin, sources }: Pick<JoinedSource, 'coin' | 'sources'>): () => Promise<void> {
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
