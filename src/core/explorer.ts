/** Public block explorers. Florin links to them and never sends them requests. */
import type { Coin, Network } from './coin.ts';

const SITES: Readonly<Record<Coin, Partial<Record<Network, string>>>> = {
  BTC: { mainnet: 'https://mempool.space/tx/', testnet: 'https://mempool.space/testnet4/tx/' },
  ETH: { mainnet: 'https://etherscan.io/tx/', testnet: 'https://sepolia.etherscan.io/tx/' },
  LTC: { mainnet: 'https://litecoinspace.org/tx/', testnet: 'https://litecoinspace.org/testnet/tx/' },
  DASH: { mainnet: 'https://insight.dash.org/insight/tx/' },
  DOGE: { mainnet: 'https://dogechain.info/tx/' },
};

/** Null for private chains, and for ids in an unexpected form. */
export function explorerUrl(coin: Coin, network: Network, txid: string | null): string | null {
  const site = SITES[coin][network];
  return site && txid && /^(0x)?[0-9a-f]{64}$/i.test(txid) ? site + txid : null;
}
