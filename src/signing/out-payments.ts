/**
 * Which outputs pay for a refund or for payouts: for a refund the one that the customer sent, others only if they are needed. And whether
 * gas is worth what it moves.
 */
import type { Script } from '#addresses';
import type { Context } from '#context';
import { type Coin, feeCoinOf, isToken, pricedAs } from '#core/coin';
import { worthUsdE8 } from '#core/money';
import type { Holding } from './holdings.ts';
import type { Part } from './make-utxo.ts';
import { feeFor, inputSizeOf, mostInputs, neededFor } from './utxo.ts';

/** A refund stays out of a file if its fee would be above this part of its amount, in percent. The merchant pays the fee. */
export const MAX_REFUND_FEE_PERCENT = 25n;

/** Refunds in one file. */
export const MOST_REFUNDS = 20;

/** A transfer with its outputs, which are spent together. */
export type OutputLot = { holding: Holding; parts: readonly Part[]; units: bigint };
export const lotOf = (holding: Holding, parts: readonly Part[]): OutputLot => ({ holding, parts, units: holding.units });
export const anchorOf = ({ parts }: OutputLot): string => `${parts[0]!.txid}:${parts[0]!.n}`;

const bySize = (one: OutputLot, other: OutputLot): number => (one.units === other.units ? 0 : one.units > other.units ? -1 : 1);
const sizeOf = (lots: readonly OutputLot[]): number => lots.reduce((sum, { parts }) => sum + parts.length, 0);
const worthOf = (lots: readonly OutputLot[]): bigint => lots.reduce((sum, { units }) => sum + units, 0n);

/** The blocks that made their transfers. */
export const blocksOf = (lots: readonly OutputLot[]): Set<string> =>
  new Set(lots.flatMap(({ parts }) => parts.map(({ blockHash }) => blockHash)));

export type Chosen = { lots: readonly OutputLot[]; anchor: string };
/**
 * The transfers to spend for `units`, paid to `scripts`. `anchors`: the outputs that earlier files spent, which have to be spent again, so
 * that only one of them can be mined. Otherwise it is the customer's largest transfer, or the largest other one if nothing of the payment is
 * left. Payouts have no customer: `own` is empty.
 * Transfers whose inputs cost more than they hold are never added. Results without transfers: `moved` (another transaction spent an
 * anchor), `short` (too little money), `fee` (the fee is too large a part of the amount), `many` (too many inputs for one transaction, or from more than `mostBlocks`).
 */
export function chooseLots({
  units,
  scripts,
  anchors,
  own,
  others,
  wallet,
  rateE8,
  mostBlocks,
}: {
  units: bigint;
  scripts: readonly Uint8Array[];
  anchors: readonly string[];
  own: readonly OutputLot[];
  others: readonly OutputLot[];
  wallet: { chainKey: string; script: Script };
  rateE8: bigint;
  mostBlocks: number;
}): Chosen | 'moved' | 'short' | 'fee' | 'many' {
  const inputSize = inputSizeOf(wallet);
  const perInput = feeFor(inputSize, rateE8);
  const isWorthIt = ({ parts, units }: OutputLot): boolean => units > perInput * BigInt(parts.length);
  const isLarge = (part: bigint): boolean => part * 100n > units * MAX_REFUND_FEE_PERCENT;
  const all = [...own.toSorted(bySize), ...others.toSorted(bySize)];
  const worthIt = all.filter(isWorthIt);
  const fixed = anchors.map((anchor) => all.find((lot) => anchorOf(lot) === anchor));
  if (!fixed.every((lot) => lot !== undefined)) return 'moved';
  const lots = fixed.length > 0 ? [...new Set(fixed)] : worthIt.slice(0, 1);
  // Money that came as dust is not exchanged for the money of other customers.
  const ownWorthIt = worthOf(own.filter(isWorthIt));
  if (ownWorthIt < units && isLarge(worthOf(own) - ownWorthIt)) return 'fee';
  const [first] = lots;
  if (!first) return 'short';
  if (sizeOf(lots) > mostInputs(inputSize) || (lots.length > 1 && blocksOf(lots).size > mostBlocks)) return 'many';
  let left = worthIt.filter((lot) => !lots.includes(lot));
  const needed = (chosen: readonly OutputLot[]): bigint => neededFor({ units, scripts }, { inputs: sizeOf(chosen), inputSize, rateE8 });
  const isEnough = (chosen: readonly OutputLot[]): boolean => worthOf(chosen) >= needed(chosen);
  const isTooDear = (chosen: readonly OutputLot[]): boolean => isLarge(needed(chosen) - units);
  while (!isTooDear(lots) && !isEnough(lots)) {
    // Those of the customer come first. Of others, the smallest that is enough, or else the largest.
    const next = left.find((lot) => own.includes(lot)) ?? left.findLast((lot) => isEnough([...lots, lot])) ?? left[0];
    if (!next) return 'short';
    if (sizeOf(lots) + next.parts.length > mostInputs(inputSize) || blocksOf([...lots, next]).size > mostBlocks) return 'many';
    lots.push(next);
    left = left.filter((lot) => lot !== next);
  }
  return isTooDear(lots) ? 'fee' : { lots, anchor: anchorOf(first) };
}

// What gas costs beside the money that it moves, where both have a price.

/** US dollars with eight decimals for one coin that pays for gas, and for one of the token. */
export type GasPrices = { gas: bigint; token: bigint };

/** Null: one of them has no price on which sources agree. */
export function readGasPrices({ prices }: Pick<Context, 'prices'>, coin: Coin): GasPrices | null {
  const gas = prices.valuing(pricedAs(feeCoinOf(coin)));
  const token = prices.valuing(pricedAs(coin));
  return gas && token && { gas: gas.priceE8, token: token.priceE8 };
}

/** Whether a fee, in the coin that pays for gas, is more than `percent` of `units`. Without prices, no fee of a token is. */
export function isDear(
  coin: Coin,
  { fee, units, percent, prices }: { fee: bigint; units: bigint; percent: bigint; prices: GasPrices | null },
): boolean {
  if (!isToken(coin)) return fee * 100n > units * percent;
  if (prices === null) return false;
  return worthUsdE8(feeCoinOf(coin), fee, prices.gas) * 100n > worthUsdE8(coin, units, prices.token) * percent;
}
