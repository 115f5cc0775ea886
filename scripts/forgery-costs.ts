/** What forging a completed payment costs: a section of `docs/guides/peers.md`, computed from the tables of coins, rewards and checkpoints. */
import { CHECKPOINTS } from '../src/chains/bitcoin/checkpoints.ts';
import { ASSET, type BitcoinFamily, chainOf } from '../src/core/coin.ts';
import {
  confirmationsWorth,
  confirmationUnits,
  DASH_CONFIRMATIONS_BLIND,
  LEAST_SHARE,
  mostConfirmations,
} from '../src/core/confirmation.ts';
import { E8 } from '../src/core/money.ts';

const TITLE = '## What forging a payment costs';

/** The largest payment of a tier, what it waits for without a node, and the least that a forger gives up for it. Units are those of the coin. */
export type ForgeryCost = {
  coin: BitcoinFamily;
  usdCents: bigint;
  units: bigint;
  confirmations: number;
  costUnits: bigint;
  isMost: boolean;
};

/** The tiers of a coin, and after them the largest payment that its work completes. */
export function forgeryCosts(coin: BitcoinFamily): ForgeryCost[] {
  const { height } = CHECKPOINTS[coin];
  const price = ASSET[coin].sampleE8;
  const one = confirmationUnits(coin, height);
  const most = mostConfirmations(coin);
  return chainOf(coin).confirmations.map(({ belowUsdCents, confirmations, rule }) => {
    const units = belowUsdCents === null ? one * BigInt(most) - 1n : (belowUsdCents * 1_000_000n * E8) / price - 1n;
    const least = rule === 'confirmations' ? confirmations : DASH_CONFIRMATIONS_BLIND;
    const needed = Math.max(least, confirmationsWorth(coin, { units, height }));
    const usdCents = belowUsdCents ?? (units * price) / (1_000_000n * E8);
    return { coin, usdCents, units, confirmations: needed, costUnits: one * BigInt(needed), isMost: belowUsdCents === null };
  });
}

const round = (units: bigint): string => {
  const amount = Number(units) / Number(E8);
  return amount.toLocaleString('en-US', { maximumFractionDigits: amount < 100 ? 1 : 0 });
};
const dollars = (cents: bigint): string => (cents / 100n).toLocaleString('en-US');
const usdOf = ({ coin, costUnits }: ForgeryCost): string => dollars((costUnits * ASSET[coin].sampleE8) / (1_000_000n * E8));

function row(cost: ForgeryCost): string {
  const { coin, usdCents, confirmations, costUnits, isMost } = cost;
  // Past what the work of its coin completes, a tier has no row of its own.
  if (confirmations > mostConfirmations(coin)) return '';
  const blocks = ((confirmations * Number(LEAST_SHARE[0])) / Number(LEAST_SHARE[1])).toFixed(1);
  const amount = isMost ? `${dollars(usdCents)} USD, the most` : `below ${dollars(usdCents)} USD`;
  return `| ${coin} | ${amount} | ${confirmations} | ${blocks} | ${round(costUnits)} ${coin} | ${usdOf(cost)} USD |\n`;
}

const price = (coin: BitcoinFamily): string =>
  `${dollars(ASSET[coin].sampleE8 / 1_000_000n)}.${String((ASSET[coin].sampleE8 / 1_000_000n) % 100n).padStart(2, '0')}`;

const section = (): string => {
  const coins = ['BTC', 'LTC', 'DOGE', 'DASH'] as const;
  return `${TITLE}

Forged blocks need as much work as real ones. A miner who spends that work on them gives up the reward for real blocks, so the reward is the least that a forged payment costs. Florin asks for so many confirmations that this is more than the payment, at the price at which the payment was valued:

| Coin | Payment | Confirmations for the largest | Work, in usual blocks | Reward given up | At sample prices |
|---|---|---|---|---|---|
${coins.flatMap((coin) => forgeryCosts(coin).map(row)).join('')}
- The confirmations in the table are for the largest payment of each row. Smaller ones need fewer, but never fewer than the [confirmations](bitcoin.md#confirmations) of the coin. While a payment waits for them, \`hold_reason\` says so.
- The sample prices are ${coins.map((coin) => `${price(coin)} USD for ${coin}`).join(', ')}. The amounts in USD change with the price; what is counted in coins does not.
- Work is the least in the worst case: someone keeps all honest peers away from you for most of a day. Otherwise each confirmation costs a whole usual block. What is usual comes from the blocks before the payment, so forged blocks cannot lower it.
- A payment that is worth more than the largest amount of its coin stays \`processing\`. Split it, or ask for another coin. \`<COIN>_CONFIRMATIONS\` with lower numbers than the default turns this check off for the tiers that it lowers.
- DASH counts this way where no InstantSend lock and no ChainLock vouches for the payment: always without a node of your own. ChainLocks keep the honest network from replacing two blocks or more, so when that happens, DASH payments wait for a day of blocks. [\`./florin chain release\`](bitcoin.md) ends the wait.

`;
};

/** The guide with this section as the tables have it now. */
export function withForgeryCosts(guide: string): string {
  const from = guide.indexOf(TITLE);
  const to = guide.indexOf('\n## ', from + 1) + 1;
  if (from < 0 || to <= 0) throw new Error(`docs/guides/peers.md needs the title "${TITLE}", and a section after it`);
  return `${guide.slice(0, from)}${section()}${guide.slice(to)}`;
}
