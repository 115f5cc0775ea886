/** Which outputs pay for a refund: always the one that the customer sent, and others only if the amount and the fee need them. Pure. */
import type { BitcoinScript } from '../chains/bitcoin/params.ts';
import type { Holding } from './holdings.ts';
import type { Part } from './make-utxo.ts';
import { MAX_INPUTS, neededFor } from './utxo.ts';

/** A transfer with its outputs, which are spent together. */
export type Lot = { holding: Holding; parts: readonly Part[]; units: bigint };
export const lotOf = (holding: Holding, parts: readonly Part[]): Lot => ({ holding, parts, units: holding.units });
const anchorOf = ({ parts }: Lot): string => `${parts[0]!.txid}:${parts[0]!.n}`;

const bySize = (one: Lot, other: Lot): number => (one.units === other.units ? 0 : one.units > other.units ? -1 : 1);
const sizeOf = (lots: readonly Lot[]): number => lots.reduce((sum, { parts }) => sum + parts.length, 0);
const worthOf = (lots: readonly Lot[]): bigint => lots.reduce((sum, { units }) => sum + units, 0n);

export type Chosen = { lots: readonly Lot[]; anchor: string };
/**
 * The transfers to spend. `anchor`: the output that earlier files of this refund spent, which has to be spent again, so that only one of
 * them can be mined. Otherwise the largest transfer of the customer is it; if nothing of the payment is left, the largest other one.
 */
export function chooseLots({
  units,
  script,
  anchor,
  own,
  others,
  inputScript,
  rateE8,
}: {
  units: bigint;
  script: Uint8Array;
  anchor: string | null;
  own: readonly Lot[];
  others: readonly Lot[];
  inputScript: BitcoinScript;
  rateE8: bigint;
}): Chosen | 'moved' | 'short' {
  const all = [...own.toSorted(bySize), ...others.toSorted(bySize)];
  const first = anchor === null ? all[0] : all.find((lot) => anchorOf(lot) === anchor);
  if (!first) return anchor === null ? 'short' : 'moved';
  const lots = [first];
  let left = all.filter((lot) => lot !== first);
  const isEnough = (chosen: readonly Lot[]): boolean =>
    worthOf(chosen) >= neededFor({ units, script }, { inputs: sizeOf(chosen), inputScript, rateE8 });
  while (!isEnough(lots)) {
    // Those of the customer come first. Of others, the smallest that is enough, or else the largest.
    const next = left.find((lot) => own.includes(lot)) ?? left.findLast((lot) => isEnough([...lots, lot])) ?? left[0];
    if (!next || sizeOf(lots) + next.parts.length > MAX_INPUTS) return 'short';
    lots.push(next);
    left = left.filter((lot) => lot !== next);
  }
  return { lots, anchor: anchorOf(first) };
}
