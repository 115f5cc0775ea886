/** Public block explorers. Florin links to them and never sends them requests. */
import { type Coin, chainOf, type Network } from './coin.ts';

/** Null for private chains, and for IDs in an unexpected form. */
export function explorerUrl(coin: Coin, network: Network, txid: string | null): string | null {
  const site = chainOf(coin).explorer[network];
  return site && txid && /^(0x)?[0-9a-f]{64}$/i.test(txid) ? site + txid : null;
}
