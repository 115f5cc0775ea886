/**
 * Coins as people read them: the code of the asset, and its network unless the coin is the network's own. The service names a coin by one
 * code (`BTC`, `USDC@base`), and by `currency` and `network` where it shows a payment as its API does.
 */
import {
  COIN_KINDS,
  COIN_NAMES,
  COINS,
  type Coin,
  NATIVE_NETWORKS,
  NETWORK_NAMES,
  type PaymentNetwork,
  TOKENS,
  UNPRICED_COINS,
} from '../generated/api.ts';

const known = (names: Readonly<Record<string, string>>, name: string): string | undefined => names[name];

/** The code of a coin. While the customer has not chosen the network, that of its asset. */
export const coinOf = ({ currency, network }: { currency: string; network: string | null }): string =>
  network === null || known(NATIVE_NETWORKS, currency) === network ? currency : `${currency}@${network}`;

/** A coin as the API names it. */
export function apiNamesOf(coin: string) {
  const [currency = '', network = known(NATIVE_NETWORKS, coin)] = coin.split('@');
  return { currency, network } as { currency: Coin; network: PaymentNetwork };
}

/** The code of its asset, and the name of its network; null for the network's own coin. */
export function partsOf(coin: string): { asset: string; network: string | null } {
  const [asset = '', network] = coin.split('@');
  return { asset, network: network === undefined ? null : (known(NETWORK_NAMES, network) ?? network) };
}

const on = (text: string, network: string | null): string => (network === null ? text : `${text} on ${network}`);
/** "BTC", "USDC on Base". */
export function coinText(coin: string): string {
  const { asset, network } = partsOf(coin);
  return on(asset, network);
}
/** The chain that a coin names: "BTC", and "Base" for a token there. */
export const chainText = (coin: string): string => partsOf(coin).network ?? coin;
/** What the settings of the chain of a coin begin with. */
export const settingOf = (coin: string): string => (coin.split('@')[1] ?? coin).toUpperCase();
/** "Bitcoin", "USD Coin on Base", "ETH on Base": a network's own coin on another network does not have the name of its network. */
export function coinName(coin: string, name?: string): string {
  const { asset, network } = partsOf(coin);
  const isForeign = network !== null && known(NATIVE_NETWORKS, asset) !== undefined;
  return on(name ?? (isForeign ? asset : (known(COIN_NAMES, coin) ?? asset)), network);
}

/** The names of the networks on which an account has the same address. */
export const accountNetworks = (): string[] => [
  ...new Set(
    COINS.filter((coin) => COIN_KINDS[coin] === 'ethereum').map(
      (coin) => partsOf(coin).network ?? known(NETWORK_NAMES, known(NATIVE_NETWORKS, coin) ?? '') ?? coin,
    ),
  ),
];

/** Whether a coin can have a price; without one it cannot count toward a payment. */
export const canBePriced = (coin: string): boolean => !UNPRICED_COINS.some((one) => one === coin);

const tokenAssets = (): string[] => [...new Set(TOKENS.map((coin) => partsOf(coin).asset))];
const tokensOf = (asset: string) => TOKENS.filter((coin) => partsOf(coin).asset === asset);

/** What can be asked for: the native coins, then each token without its network if there are several. */
export const assetOptions = (): { value: string; label: string }[] => [
  ...coinOptions(COINS),
  ...tokenAssets().flatMap((asset) => (tokensOf(asset).length > 1 ? [{ value: asset, label: asset }] : coinOptions(tokensOf(asset)))),
];
/** The networks of what can be asked for, by the codes of its coins; empty where there is one. A token without its network leaves it to the customer. */
export function networkOptions(asset: string): { value: string; label: string }[] {
  const networkOf = (coin: string) => known(NETWORK_NAMES, apiNamesOf(coin).network) ?? coin;
  const invoices = Object.entries(COIN_KINDS).flatMap(([coin, kind]) =>
    kind === 'lightning' && partsOf(coin).asset === asset ? [coin] : [],
  );
  const coins = invoices.length > 0 ? [asset, ...invoices] : tokensOf(asset);
  return coins.map((value) => ({ value, label: networkOf(value) }));
}

/** Options of a filter: the native coins, then each token on all its networks and on one of them. */
export const coinFilters = (): { value: string; label: string }[] => [
  ...coinOptions(COINS),
  ...tokenAssets().flatMap((asset) => [{ value: asset, label: `${asset} on all networks` }, ...coinOptions(tokensOf(asset))]),
];

/** Options of a menu. */
export const coinOptions = <C extends string>(coins: readonly C[]): { value: C; label: string }[] =>
  coins.map((value) => ({ value, label: coinText(value) }));
