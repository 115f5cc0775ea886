/** Finds payments in transactions as a Blockbook server shows them. */
import type { Coin, Network } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { decodeAddress } from '../address.ts';
import type { Conflict, Matcher, Sighting } from '../chain.ts';
import type { Fields } from '../reply.ts';
import { firstAddress, integer, rows, text, type Units } from './replies.ts';

export type Matches = { sightings: Sighting[]; conflicts: Conflict[] };
/** Adds what one transaction pays to watched keys, and which watched outpoints it spends. */
export type Match = (tx: Fields, matcher: Matcher, kind: Sighting['kind'], into: Matches) => void;

/** The output script of an address; null when it has none (data outputs are shown as words). */
function keyOf(address: string, on: { coin: Coin; network: Network }): string | null {
  try {
    return decodeAddress(address, on).key;
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

export const createMatch =
  ({ coin, network, units }: { coin: Coin; network: Network; units: Units }): Match =>
  (tx, matcher, kind, { sightings, conflicts }) => {
    const txid = text(tx.txid);
    // Zero is omitted: an input without `vout` spends the first output. Block pages do not list inputs.
    const spends = kind === 'output' ? rows(tx.vin).flatMap((i) => (i.txid ? [`${text(i.txid)}:${integer(i.vout)}`] : [])) : [];
    for (const output of rows(tx.vout)) {
      const key = text(output.hex) || (output.isAddress === true ? keyOf(firstAddress(output.addresses), { coin, network }) : null);
      if (!key || !matcher.has(key)) continue;
      const value = units(output.value ?? '0', 'the value of an output');
      if (value > 0n) sightings.push({ key, ref: `${txid}:${integer(output.n)}`, txid, units: value, kind, spends, lock: null });
    }
    if (matcher.watchesSpends) for (const outpoint of spends) if (matcher.spends(outpoint)) conflicts.push({ outpoint, txid });
  };
