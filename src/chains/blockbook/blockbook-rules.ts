/** What a Blockbook server shows differently for chains of outputs and for chains of accounts. */
import type { AddressSummary, ChainTransaction, FeeTier, Unspent } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import type { Get } from './blockbook-requests.ts';
import { integer, text, type Units } from './replies.ts';

/** The unspent part of mined outputs, and the totals of an address. */
export type OutputsOf = { address: string; outputs: readonly { ref: string; units: bigint }[] };
export type BlockbookRules = {
  describe(tx: Fields): ChainTransaction;
  addressSummary(address: string): Promise<AddressSummary>;
  readUnspent(of: OutputsOf): Promise<Unspent>;
  /** The lowest rate that is suggested when the server has no estimate; null: an estimate is required. Base units. */
  lowestRate: bigint | null;
  /** The fee of a typical payment at this rate. */
  tierAt(rate: bigint): Pick<FeeTier, 'rateE8' | 'units'>;
  minutes: Readonly<Record<FeeTier['speed'], string>>;
};
export type RulesInput = { server: string; get: Get; units: Units };

/** Where a transaction is. */
export function placeOf(
  tx: Fields,
): Pick<ChainTransaction, 'confirmations' | 'blockHeight' | 'blockHash' | 'timestamp'> & { mined: boolean } {
  const confirmations = integer(tx.confirmations);
  const mined = confirmations > 0 && integer(tx.blockHeight) >= 0;
  return {
    mined,
    confirmations: mined ? confirmations : 0,
    blockHeight: mined ? integer(tx.blockHeight) : null,
    blockHash: mined ? text(tx.blockHash) : null,
    timestamp: mined ? new Date(integer(tx.blockTime) * 1000) : null,
  };
}

/** The short summary of an address. Without `details` the server omits the mempool. */
export const readAddress = async (get: Get, address: string): Promise<Fields> =>
  fields(await get(`v2/address/${address}?details=txids&pageSize=1`));
