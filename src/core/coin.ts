/** The coin table: everything that differs between the five coins and is not code. Add a coin here first. */

export const COINS = ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE'] as const;
export type Coin = (typeof COINS)[number];

export const NETWORKS = ['mainnet', 'testnet', 'regtest'] as const;
export type Network = (typeof NETWORKS)[number];

export const MODES = ['live', 'test'] as const;
export type Mode = (typeof MODES)[number];

/** Confirmations required below each USD bound; the last tier has no bound. `lock`, `safe` and `finalized` are chain rules. */
export type ConfirmationTier = { belowUsdCents: bigint | null; confirmations: number; rule: CompletionRule };
export const COMPLETION_RULES = ['confirmations', 'instantsend', 'instantsend_or_chainlock', 'chainlock', 'safe', 'finalized'] as const;
export type CompletionRule = (typeof COMPLETION_RULES)[number];

export type CoinSpec = {
  coin: Coin;
  name: string;
  /** Name of the network as the payer must choose it in a wallet. */
  networkName: string;
  decimals: 8 | 18;
  /** Scheme of the payment URI: BIP-321 for BTC, the same grammar for LTC, DASH, DOGE; ERC-681 for ETH. */
  scheme: string;
  blockSeconds: number;
  pollSeconds: number;
  /** How long after the deadline a first sight still counts as on time: two polls, for ETH two blocks. */
  slackSeconds: number;
  /** Deepest reorganization that Florin follows without an operator. */
  maxReorg: number;
  /** A reorganization of this many blocks or more holds completion: half of what larger payments wait for. */
  deepReorg: number;
  /** Sources may differ by this many blocks at the tip and still agree. */
  agreeWithin: number;
  /** Oldest version of the node, as it numbers itself, without known holes that move money; null: nodes number themselves differently. */
  safeVersion: number | null;
  /** Transfers below this many base units do not count. */
  dustUnits: bigint;
  /** Coinbase outputs are spendable, and count, from this many confirmations. */
  coinbaseMaturity: number;
  /** Size of a typical payment: virtual bytes, for ETH gas. */
  typicalSize: number;
  feeUnit: string;
  confirmations: readonly ConfirmationTier[];
};

const tiers = (...rows: readonly [number | CompletionRule, number?, CompletionRule?][]): readonly ConfirmationTier[] =>
  rows.map(([first, count, rule], index) => ({
    belowUsdCents: ([10_000n, 100_000n, 1_000_000n, null] as const)[index] ?? null,
    confirmations: typeof first === 'number' ? first : (count ?? 0),
    rule: typeof first === 'number' ? (rule ?? 'confirmations') : first,
  }));

export const COIN: Readonly<Record<Coin, CoinSpec>> = {
  BTC: {
    coin: 'BTC',
    name: 'Bitcoin',
    networkName: 'Bitcoin',
    decimals: 8,
    scheme: 'bitcoin',
    blockSeconds: 600,
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 144,
    deepReorg: 3,
    agreeWithin: 2,
    safeVersion: 250_000,
    dustUnits: 546n,
    coinbaseMaturity: 100,
    typicalSize: 141,
    feeUnit: 'sat/vB',
    confirmations: tiers([1], [2], [3], [6]),
  },
  ETH: {
    coin: 'ETH',
    name: 'Ethereum',
    networkName: 'Ethereum mainnet',
    decimals: 18,
    scheme: 'ethereum',
    blockSeconds: 12,
    pollSeconds: 4,
    slackSeconds: 24,
    maxReorg: 128,
    deepReorg: 6,
    agreeWithin: 10,
    safeVersion: null,
    dustUnits: 1n,
    coinbaseMaturity: 0,
    typicalSize: 21_000,
    feeUnit: 'gwei/gas',
    confirmations: tiers([12], [32], ['safe', 32], ['finalized', 0]),
  },
  LTC: {
    coin: 'LTC',
    name: 'Litecoin',
    networkName: 'Litecoin',
    decimals: 8,
    scheme: 'litecoin',
    blockSeconds: 150,
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 500,
    deepReorg: 6,
    agreeWithin: 2,
    safeVersion: 210_505,
    dustUnits: 5_460n,
    coinbaseMaturity: 100,
    typicalSize: 141,
    feeUnit: 'sat/vB',
    confirmations: tiers([6], [12], [24], [40]),
  },
  DASH: {
    coin: 'DASH',
    name: 'Dash',
    networkName: 'Dash',
    decimals: 8,
    scheme: 'dash',
    blockSeconds: 158,
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 144,
    deepReorg: 3,
    agreeWithin: 2,
    safeVersion: 220_000,
    dustUnits: 5_460n,
    coinbaseMaturity: 100,
    typicalSize: 226,
    feeUnit: 'sat/vB',
    confirmations: tiers(['instantsend'], ['instantsend'], ['instantsend_or_chainlock', 1], ['chainlock', 1]),
  },
  DOGE: {
    coin: 'DOGE',
    name: 'Dogecoin',
    networkName: 'Dogecoin',
    decimals: 8,
    scheme: 'dogecoin',
    blockSeconds: 60,
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 1440,
    deepReorg: 10,
    agreeWithin: 5,
    safeVersion: 1_140_900,
    dustUnits: 1_000_000n,
    coinbaseMaturity: 240,
    typicalSize: 226,
    feeUnit: 'sat/vB',
    confirmations: tiers([6], [20], [40], [60]),
  },
};

const CODES = new Set<string>(COINS);
/** Whether the text is exactly one of the five codes (upper case). */
export const isCoin = (text: unknown): text is Coin => typeof text === 'string' && CODES.has(text);
