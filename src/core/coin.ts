/**
 * The tables of what can be paid: assets (what is priced), chains (what is followed), families (what one account key serves) and coins (an
 * asset on a chain, the unit of quotes and transfers). Everything that differs between them and is not code. Add a coin here first.
 */

// Coins that customers send by mistake to an address of another coin of the same family. They are recorded with their own name and worth,
// and never offered: the native coins of networks where only tokens are accepted, and tokens that a bridge issued, which wallets often
// show under the name of the real one. A token is its contract, so each bridged one is an asset of its own where the name is taken.

/** `pricedAs`: the asset at whose price it is valued. Without one its worth is not known, and nobody can accept it. */
const RECOGNIZED_ASSETS = [
  { asset: 'USDC.e', name: 'Bridged USDC', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDC', outlierPercent: 2n, markets: {} },
  { asset: 'USDbC', name: 'Bridged USDC of Base', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDC', outlierPercent: 2n, markets: {} },
  { asset: 'USDT.e', name: 'Bridged Tether', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDT', outlierPercent: 2n, markets: {} },
  { asset: 'USDT0', name: 'Bridged USDT0', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDT', outlierPercent: 2n, markets: {} },
  { asset: 'POL', name: 'POL', sampleE8: 20_000_000n, outlierPercent: 3n, markets: {} },
] as const;

/** Less than a cent does not count. */
const SIX = { decimals: 6, dustUnits: 10_000n, typicalSize: 65_000 } as const;
const AUTHORIZED_SIX = { ...SIX, authorizes: true } as const;
const EIGHTEEN = { decimals: 18, dustUnits: 10n ** 16n, typicalSize: 65_000 } as const;
const ETHER = { asset: 'ETH', contract: null, decimals: 18, dustUnits: 10n ** 13n, typicalSize: 21_000 } as const;

const RECOGNIZED_COINS = [
  { coin: 'ETH@base', chain: 'base', ...ETHER },
  { coin: 'USDbC@base', asset: 'USDbC', chain: 'base', contract: '0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA', ...SIX },
  { coin: 'USDT.e@base', asset: 'USDT.e', chain: 'base', contract: '0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2', ...SIX },
  { coin: 'USDT0@base', asset: 'USDT0', chain: 'base', contract: '0x102d758f688a4C1C5a80b116bD945d4455460282', ...AUTHORIZED_SIX },
  { coin: 'DAI@base', asset: 'DAI', chain: 'base', contract: '0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb', ...EIGHTEEN },
  { coin: 'ETH@arbitrum', chain: 'arbitrum', ...ETHER },
  { coin: 'USDC.e@arbitrum', asset: 'USDC.e', chain: 'arbitrum', contract: '0xFF970A61A04b1cA14834A43f5dE4533eBDDB5CC8', ...SIX },
  { coin: 'DAI@arbitrum', asset: 'DAI', chain: 'arbitrum', contract: '0xDA10009cBd5D07dd0CeCc66161FC93D7c9000da1', ...EIGHTEEN },
  { coin: 'ETH@optimism', chain: 'optimism', ...ETHER },
  { coin: 'USDC.e@optimism', asset: 'USDC.e', chain: 'optimism', contract: '0x7F5c764cBc14f9669B88837ca1490cCa17c31607', ...SIX },
  { coin: 'USDT.e@optimism', asset: 'USDT.e', chain: 'optimism', contract: '0x94b008aA00579c1307B0EF2c499aD98a8ce58e58', ...SIX },
  { coin: 'DAI@optimism', asset: 'DAI', chain: 'optimism', contract: '0xDA10009cBd5D07dd0CeCc66161FC93D7c9000da1', ...EIGHTEEN },
  { coin: 'POL@polygon', asset: 'POL', chain: 'polygon', contract: null, decimals: 18, dustUnits: 10n ** 16n, typicalSize: 21_000 },
  { coin: 'USDC.e@polygon', asset: 'USDC.e', chain: 'polygon', contract: '0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174', ...SIX },
  { coin: 'DAI@polygon', asset: 'DAI', chain: 'polygon', contract: '0x8f3Cf7ad23Cd3CaDbD9735AFf958023239c6A063', ...EIGHTEEN },
] as const;

// Bitcoin over Lightning: the payer is shown an invoice that the merchant's own node or provider made. Offered only to merchants that set it
// up, and followed by looking at each invoice: this chain has no blocks and no tip. A base unit is a millisatoshi, as invoices count.
/** No account key serves it, so that wallets, and the type of their families, do not know it. */
const LIGHTNING_FAMILY = { family: 'LIGHTNING', kind: 'lightning' } as const;
const LIGHTNING_CHAIN = {
  chain: 'lightning',
  code: 'lightning',
  name: 'Lightning',
  networkName: 'Lightning',
  family: 'LIGHTNING',
  scheme: 'lightning',
  chainIds: null,
  rpcPort: 8080,
  blockSeconds: 1,
  firstBlock: '2018-01-01',
  pollSeconds: 1,
  slackSeconds: 10,
  maxReorg: 0,
  deepReorg: 0,
  agreeWithin: 0,
  safeVersion: null,
  coinbaseMaturity: 0,
  feeUnit: 'sat',
  confirmations: [{ belowUsdCents: null, confirmations: 0, rule: 'preimage' }],
  explorer: {},
} as const;
const LIGHTNING_COIN = {
  coin: 'BTC@lightning',
  asset: 'BTC',
  chain: 'lightning',
  contract: null,
  decimals: 11,
  dustUnits: 1n,
  typicalSize: 0,
} as const;

export const NETWORKS = ['mainnet', 'testnet', 'regtest'] as const;
export type Network = (typeof NETWORKS)[number];

export const MODES = ['live', 'test'] as const;
export type Mode = (typeof MODES)[number];

/** Confirmations required below each USD bound; the last tier has no bound. `lock`, `safe` and `finalized` are chain rules; `preimage`: the invoice is settled. */
export type ConfirmationTier = { belowUsdCents: bigint | null; confirmations: number; rule: CompletionRule };
export const COMPLETION_RULES = [
  'confirmations',
  'instantsend',
  'instantsend_or_chainlock',
  'chainlock',
  'safe',
  'finalized',
  'preimage',
] as const;
export type CompletionRule = (typeof COMPLETION_RULES)[number];

/**
 * What chains have in common, and which folder of `src/chains` reads them: `bitcoin` counts outputs, `ethereum` accounts. `lightning` counts
 * invoices, which `src/lightning` asks for.
 */
export const CHAIN_KINDS = ['bitcoin', 'ethereum', 'lightning'] as const;
export type ChainKind = (typeof CHAIN_KINDS)[number];

/** Where prices come from. */
export type Market = 'coinbase' | 'kraken' | 'bitstamp' | 'bitfinex' | 'coingecko';

type AssetRow = {
  asset: string;
  name: string;
  /** About its price, for test mode without a feed; labeled as a sample wherever it is shown. */
  sampleE8: bigint;
  /** The currency that one unit is meant to be worth; absent where the price floats. */
  par?: 'USD' | 'EUR';
  /** The asset at whose price it is valued, where it has no price of its own. */
  pricedAs?: string;
  /** A source further from the median than this does not agree, in percent. */
  outlierPercent: bigint;
  /** How each source names its market in US dollars, of Kraken also in its answers. A source without one is not asked. */
  markets: Readonly<Partial<Record<Exclude<Market, 'kraken'>, string>> & { kraken?: readonly [asked: string, ...answered: string[]] }>;
  /** Whether its issuer is authorized in the European Union under MiCA (November 2026); `unknown`: on no list that was found. */
  mica?: 'authorized' | 'not_authorized' | 'unknown';
};

/** The contracts that the OP stack and Arbitrum have for this. */
export type DataFee = 'gas_price_oracle' | 'node_interface';

type FamilyRow = { family: string; kind: ChainKind };

type ChainRow = {
  /** As the API names it in `network`. */
  chain: string;
  /** What tables that are keyed by chain store, in their column `coin`: the code of the native coin, where that is a coin here. */
  code: string;
  name: string;
  /** Name of the network as the payer must choose it in a wallet. */
  networkName: string;
  family: string;
  /** Scheme of the payment URI: BIP-321 for BTC, the same grammar for LTC, DASH, DOGE; ERC-681 for EVM chains. */
  scheme: string;
  /** EIP-155 chain ID of each network; null where there is none. */
  chainIds: Readonly<Record<Network, number>> | null;
  /** Where a node on the same machine listens, unless its operator chose another port. */
  rpcPort: number;
  blockSeconds: number;
  /** The day of its first block, or the day before. No block is older. */
  firstBlock: string;
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
  /** Coinbase outputs are spendable, and count, from this many confirmations. */
  coinbaseMaturity: number;
  feeUnit: string;
  confirmations: readonly ConfirmationTier[];
  /** What a customer usually pays the network for a transfer of a token, in US cents. Shown while the fee of this moment is not known. */
  usualFeeCents?: number;
  /** The contract that tells what the network charges for the bytes of a transaction besides its gas; absent where it charges nothing. */
  dataFee?: DataFee;
  /** How long a block usually takes until its network calls it safe, and final. */
  safeSeconds?: number;
  finalSeconds?: number;
  /** Where the public block explorer shows a transaction, followed by its ID. Florin links there and never sends it requests. */
  explorer: Readonly<Partial<Record<Network, string>>>;
  /**
   * Where blocks come faster than each could be read: transfers are read from logs, many blocks at once. `most`: how many at most, until
   * the source says what it allows. `finalSeconds`: how long it usually takes until a block is final.
   */
  ranges?: Readonly<{ most: number; finalSeconds: number }>;
};

type CoinRow = {
  /** As stored: the asset's code for the native coin of a chain, else `<asset>@<chain>`. */
  coin: string;
  asset: string;
  chain: string;
  /** Address of the token contract on mainnet, and on a regtest network, which may copy it; null for the native coin. */
  contract: string | null;
  /** Of the contract on the public test network, if there is one. */
  testnetContract?: string;
  /** Whether the contract has transfers by authorization (EIP-3009). Simulated chains follow it; on others the contract itself is asked. */
  authorizes?: boolean;
  /** Of the base unit. They belong to the contract: the same asset can have others on another chain. */
  decimals: number;
  /** Transfers below this many base units do not count. */
  dustUnits: bigint;
  /** Size of a typical payment: virtual bytes, for EVM chains gas. */
  typicalSize: number;
};

const tiers = (...rows: readonly [number | CompletionRule, number?, CompletionRule?][]): readonly ConfirmationTier[] =>
  rows.map(([first, count, rule], index) => ({
    belowUsdCents: ([10_000n, 100_000n, 1_000_000n, null] as const)[index] ?? null,
    confirmations: typeof first === 'number' ? first : (count ?? 0),
    rule: typeof first === 'number' ? (rule ?? 'confirmations') : first,
  }));

const ASSET_ROWS = [
  {
    asset: 'BTC',
    name: 'Bitcoin',
    sampleE8: 9_700_000_000_000n,
    outlierPercent: 2n,
    markets: { coinbase: 'BTC-USD', kraken: ['XBTUSD', 'XXBTZUSD'], bitstamp: 'btcusd', bitfinex: 'tBTCUSD', coingecko: 'bitcoin' },
  },
  {
    asset: 'ETH',
    name: 'Ethereum',
    sampleE8: 350_000_000_000n,
    outlierPercent: 2n,
    markets: { coinbase: 'ETH-USD', kraken: ['ETHUSD', 'XETHZUSD'], bitstamp: 'ethusd', bitfinex: 'tETHUSD', coingecko: 'ethereum' },
  },
  {
    asset: 'LTC',
    name: 'Litecoin',
    sampleE8: 10_000_000_000n,
    outlierPercent: 3n,
    markets: { coinbase: 'LTC-USD', kraken: ['LTCUSD', 'XLTCZUSD'], bitstamp: 'ltcusd', bitfinex: 'tLTCUSD', coingecko: 'litecoin' },
  },
  {
    asset: 'DASH',
    name: 'Dash',
    sampleE8: 3_000_000_000n,
    outlierPercent: 3n,
    markets: { coinbase: 'DASH-USD', kraken: ['DASHUSD'], bitstamp: 'dashusd', bitfinex: 'tDSHUSD', coingecko: 'dash' },
  },
  {
    asset: 'DOGE',
    name: 'Dogecoin',
    sampleE8: 20_000_000n,
    outlierPercent: 3n,
    markets: { coinbase: 'DOGE-USD', kraken: ['XDGUSD', 'XXDGZUSD'], bitstamp: 'dogeusd', bitfinex: 'tDOGE:USD', coingecko: 'dogecoin' },
  },
  {
    asset: 'USDC',
    name: 'USD Coin',
    sampleE8: 100_000_000n,
    par: 'USD',
    mica: 'authorized',
    outlierPercent: 2n,
    // Coinbase treats one as one dollar, so it has no market.
    markets: { kraken: ['USDCUSD'], bitstamp: 'usdcusd', bitfinex: 'tUDCUSD', coingecko: 'usd-coin' },
  },
  {
    asset: 'USDT',
    name: 'Tether',
    sampleE8: 100_000_000n,
    par: 'USD',
    mica: 'not_authorized',
    outlierPercent: 2n,
    markets: { coinbase: 'USDT-USD', kraken: ['USDTUSD', 'USDTZUSD'], bitstamp: 'usdtusd', bitfinex: 'tUSTUSD', coingecko: 'tether' },
  },
  {
    asset: 'EURC',
    name: 'Euro Coin',
    sampleE8: 108_000_000n,
    par: 'EUR',
    mica: 'authorized',
    outlierPercent: 2n,
    markets: { coinbase: 'EURC-USD', kraken: ['EURCUSD'], coingecko: 'euro-coin' },
  },
  {
    asset: 'PYUSD',
    name: 'PayPal USD',
    sampleE8: 100_000_000n,
    par: 'USD',
    mica: 'unknown',
    outlierPercent: 2n,
    markets: { coinbase: 'PYUSD-USD', kraken: ['PYUSDUSD'], coingecko: 'paypal-usd' },
  },
  {
    asset: 'DAI',
    name: 'Dai',
    sampleE8: 100_000_000n,
    par: 'USD',
    mica: 'not_authorized',
    outlierPercent: 2n,
    markets: { coinbase: 'DAI-USD', kraken: ['DAIUSD'], bitstamp: 'daiusd', coingecko: 'dai' },
  },
] as const satisfies readonly AssetRow[];

const FAMILY_ROWS = [
  { family: 'BTC', kind: 'bitcoin' },
  { family: 'ETH', kind: 'ethereum' },
  { family: 'LTC', kind: 'bitcoin' },
  { family: 'DASH', kind: 'bitcoin' },
  { family: 'DOGE', kind: 'bitcoin' },
] as const satisfies readonly FamilyRow[];

const CHAIN_ROWS = [
  {
    chain: 'bitcoin',
    code: 'BTC',
    name: 'Bitcoin',
    networkName: 'Bitcoin',
    family: 'BTC',
    scheme: 'bitcoin',
    chainIds: null,
    rpcPort: 8332,
    blockSeconds: 600,
    firstBlock: '2009-01-03',
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 144,
    deepReorg: 3,
    agreeWithin: 2,
    safeVersion: 250_000,
    coinbaseMaturity: 100,
    feeUnit: 'sat/vB',
    confirmations: tiers([1], [2], [3], [6]),
    explorer: { mainnet: 'https://mempool.space/tx/', testnet: 'https://mempool.space/testnet4/tx/' },
  },
  {
    chain: 'ethereum',
    code: 'ETH',
    name: 'Ethereum',
    networkName: 'Ethereum mainnet',
    family: 'ETH',
    scheme: 'ethereum',
    chainIds: { mainnet: 1, testnet: 11_155_111, regtest: 31_337 },
    rpcPort: 8545,
    blockSeconds: 12,
    firstBlock: '2015-07-30',
    pollSeconds: 4,
    slackSeconds: 24,
    maxReorg: 128,
    deepReorg: 6,
    agreeWithin: 10,
    safeVersion: null,
    coinbaseMaturity: 0,
    feeUnit: 'gwei/gas',
    confirmations: tiers([12], [32], ['safe', 32], ['finalized', 0]),
    usualFeeCents: 30,
    safeSeconds: 600,
    finalSeconds: 960,
    explorer: { mainnet: 'https://etherscan.io/tx/', testnet: 'https://sepolia.etherscan.io/tx/' },
  },
  {
    chain: 'litecoin',
    code: 'LTC',
    name: 'Litecoin',
    networkName: 'Litecoin',
    family: 'LTC',
    scheme: 'litecoin',
    chainIds: null,
    rpcPort: 9332,
    blockSeconds: 150,
    firstBlock: '2011-10-07',
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 500,
    deepReorg: 6,
    agreeWithin: 2,
    safeVersion: 210_505,
    coinbaseMaturity: 100,
    feeUnit: 'sat/vB',
    confirmations: tiers([6], [12], [24], [40]),
    explorer: { mainnet: 'https://litecoinspace.org/tx/', testnet: 'https://litecoinspace.org/testnet/tx/' },
  },
  {
    chain: 'dash',
    code: 'DASH',
    name: 'Dash',
    networkName: 'Dash',
    family: 'DASH',
    scheme: 'dash',
    chainIds: null,
    rpcPort: 9998,
    blockSeconds: 158,
    firstBlock: '2014-01-18',
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 144,
    // ChainLocks: the network replaces one block at most.
    deepReorg: 2,
    agreeWithin: 2,
    safeVersion: 220_000,
    coinbaseMaturity: 100,
    feeUnit: 'sat/vB',
    confirmations: tiers(['instantsend'], ['instantsend'], ['instantsend_or_chainlock', 1], ['chainlock', 1]),
    explorer: { mainnet: 'https://insight.dash.org/insight/tx/' },
  },
  {
    chain: 'dogecoin',
    code: 'DOGE',
    name: 'Dogecoin',
    networkName: 'Dogecoin',
    family: 'DOGE',
    scheme: 'dogecoin',
    chainIds: null,
    rpcPort: 22555,
    blockSeconds: 60,
    firstBlock: '2013-12-06',
    pollSeconds: 3,
    slackSeconds: 10,
    maxReorg: 1440,
    deepReorg: 10,
    agreeWithin: 5,
    safeVersion: 1_140_900,
    coinbaseMaturity: 240,
    feeUnit: 'sat/vB',
    confirmations: tiers([6], [20], [40], [60]),
    explorer: { mainnet: 'https://dogechain.info/tx/' },
  },
  {
    chain: 'base',
    code: 'base',
    name: 'Base',
    networkName: 'Base',
    family: 'ETH',
    scheme: 'ethereum',
    chainIds: { mainnet: 8_453, testnet: 84_532, regtest: 8_453 },
    rpcPort: 8545,
    blockSeconds: 0.2,
    firstBlock: '2023-06-15',
    pollSeconds: 2,
    slackSeconds: 10,
    maxReorg: 216_000,
    deepReorg: 25,
    agreeWithin: 100,
    safeVersion: null,
    coinbaseMaturity: 0,
    feeUnit: 'gwei/gas',
    confirmations: tiers([50], ['safe'], ['safe'], ['finalized']),
    usualFeeCents: 1,
    dataFee: 'gas_price_oracle',
    safeSeconds: 300,
    finalSeconds: 1500,
    explorer: { mainnet: 'https://basescan.org/tx/', testnet: 'https://sepolia.basescan.org/tx/' },
    ranges: { most: 2_000, finalSeconds: 1_500 },
  },
  {
    chain: 'arbitrum',
    code: 'arbitrum',
    name: 'Arbitrum',
    networkName: 'Arbitrum One',
    family: 'ETH',
    scheme: 'ethereum',
    chainIds: { mainnet: 42_161, testnet: 421_614, regtest: 42_161 },
    rpcPort: 8547,
    blockSeconds: 0.25,
    firstBlock: '2021-05-28',
    pollSeconds: 2,
    slackSeconds: 10,
    maxReorg: 172_800,
    deepReorg: 20,
    agreeWithin: 80,
    safeVersion: null,
    coinbaseMaturity: 0,
    feeUnit: 'gwei/gas',
    confirmations: tiers([40], ['safe'], ['safe'], ['finalized']),
    usualFeeCents: 2,
    dataFee: 'node_interface',
    safeSeconds: 300,
    finalSeconds: 1080,
    explorer: { mainnet: 'https://arbiscan.io/tx/', testnet: 'https://sepolia.arbiscan.io/tx/' },
    ranges: { most: 2_000, finalSeconds: 1_080 },
  },
  {
    chain: 'optimism',
    code: 'optimism',
    name: 'Optimism',
    networkName: 'OP Mainnet',
    family: 'ETH',
    scheme: 'ethereum',
    chainIds: { mainnet: 10, testnet: 11_155_420, regtest: 10 },
    rpcPort: 8545,
    blockSeconds: 2,
    firstBlock: '2021-01-14',
    pollSeconds: 4,
    slackSeconds: 12,
    maxReorg: 21_600,
    deepReorg: 3,
    agreeWithin: 10,
    safeVersion: null,
    coinbaseMaturity: 0,
    feeUnit: 'gwei/gas',
    confirmations: tiers([5], ['safe'], ['safe'], ['finalized']),
    usualFeeCents: 1,
    dataFee: 'gas_price_oracle',
    safeSeconds: 300,
    finalSeconds: 1500,
    explorer: { mainnet: 'https://optimistic.etherscan.io/tx/', testnet: 'https://sepolia-optimism.etherscan.io/tx/' },
    ranges: { most: 2_000, finalSeconds: 1_500 },
  },
  {
    chain: 'polygon',
    code: 'polygon',
    name: 'Polygon',
    networkName: 'Polygon PoS',
    family: 'ETH',
    scheme: 'ethereum',
    chainIds: { mainnet: 137, testnet: 80_002, regtest: 137 },
    rpcPort: 8545,
    blockSeconds: 2,
    firstBlock: '2020-05-30',
    pollSeconds: 4,
    slackSeconds: 12,
    maxReorg: 21_600,
    deepReorg: 16,
    agreeWithin: 10,
    safeVersion: null,
    coinbaseMaturity: 0,
    feeUnit: 'gwei/gas',
    confirmations: tiers(['finalized'], ['finalized'], ['finalized'], ['finalized', 30]),
    usualFeeCents: 1,
    finalSeconds: 12,
    explorer: { mainnet: 'https://polygonscan.com/tx/', testnet: 'https://amoy.polygonscan.com/tx/' },
    ranges: { most: 1_000, finalSeconds: 6 },
  },
] as const satisfies readonly ChainRow[];

/** In the order in which customers are shown them. */
const COIN_ROWS = [
  { coin: 'BTC', asset: 'BTC', chain: 'bitcoin', contract: null, decimals: 8, dustUnits: 546n, typicalSize: 141 },
  { coin: 'ETH', asset: 'ETH', chain: 'ethereum', contract: null, decimals: 18, dustUnits: 1n, typicalSize: 21_000 },
  { coin: 'LTC', asset: 'LTC', chain: 'litecoin', contract: null, decimals: 8, dustUnits: 5_460n, typicalSize: 141 },
  { coin: 'DASH', asset: 'DASH', chain: 'dash', contract: null, decimals: 8, dustUnits: 5_460n, typicalSize: 226 },
  { coin: 'DOGE', asset: 'DOGE', chain: 'dogecoin', contract: null, decimals: 8, dustUnits: 1_000_000n, typicalSize: 226 },
  {
    coin: 'USDC@ethereum',
    asset: 'USDC',
    chain: 'ethereum',
    contract: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48',
    testnetContract: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
    ...AUTHORIZED_SIX,
  },
  {
    coin: 'USDC@base',
    asset: 'USDC',
    chain: 'base',
    contract: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    testnetContract: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    ...AUTHORIZED_SIX,
  },
  {
    coin: 'USDC@arbitrum',
    asset: 'USDC',
    chain: 'arbitrum',
    contract: '0xaf88d065e77c8cC2239327C5EDb3A432268e5831',
    testnetContract: '0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d',
    ...AUTHORIZED_SIX,
  },
  {
    coin: 'USDC@optimism',
    asset: 'USDC',
    chain: 'optimism',
    contract: '0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85',
    testnetContract: '0x5fd84259d66Cd46123540766Be93DFE6D43130D7',
    ...AUTHORIZED_SIX,
  },
  {
    coin: 'USDC@polygon',
    asset: 'USDC',
    chain: 'polygon',
    contract: '0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359',
    testnetContract: '0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582',
    ...AUTHORIZED_SIX,
  },
  { coin: 'USDT@ethereum', asset: 'USDT', chain: 'ethereum', contract: '0xdAC17F958D2ee523a2206206994597C13D831ec7', ...SIX },
  // USDT0. An older, bridged one is also called USDT on Optimism, and is another token.
  { coin: 'USDT@arbitrum', asset: 'USDT', chain: 'arbitrum', contract: '0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9', ...AUTHORIZED_SIX },
  { coin: 'USDT@optimism', asset: 'USDT', chain: 'optimism', contract: '0x01bFF41798a0BcF287b996046Ca68b395DbC1071', ...AUTHORIZED_SIX },
  { coin: 'USDT@polygon', asset: 'USDT', chain: 'polygon', contract: '0xc2132D05D31c914a87C6611C10748AEb04B58e8F', ...AUTHORIZED_SIX },
  {
    coin: 'EURC@ethereum',
    asset: 'EURC',
    chain: 'ethereum',
    contract: '0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c',
    testnetContract: '0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4',
    ...AUTHORIZED_SIX,
  },
  {
    coin: 'EURC@base',
    asset: 'EURC',
    chain: 'base',
    contract: '0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42',
    testnetContract: '0x808456652fdb597867f38412077A9182bf77359F',
    ...AUTHORIZED_SIX,
  },
  { coin: 'PYUSD@ethereum', asset: 'PYUSD', chain: 'ethereum', contract: '0x6c3ea9036406852006290770BEdFcAbA0e23A0e8', ...AUTHORIZED_SIX },
  { coin: 'PYUSD@arbitrum', asset: 'PYUSD', chain: 'arbitrum', contract: '0x46850aD61C2B7d64d08c9C754F45254596696984', ...AUTHORIZED_SIX },
  { coin: 'DAI@ethereum', asset: 'DAI', chain: 'ethereum', contract: '0x6B175474E89094C44Da98b954EedeAC495271d0F', ...EIGHTEEN },
] as const satisfies readonly CoinRow[];

/** Assets and coins include those that are recognized and never offered. */
export type Asset = (typeof ASSET_ROWS | typeof RECOGNIZED_ASSETS)[number]['asset'];
export type Family = (typeof FAMILY_ROWS)[number]['family'];
/** Families whose chains `src/chains/bitcoin` reads. */
export type BitcoinFamily = Extract<(typeof FAMILY_ROWS)[number], { kind: 'bitcoin' }>['family'];
export type ChainId = (typeof CHAIN_ROWS)[number]['chain'] | typeof LIGHTNING_CHAIN.chain;
export type Coin = (typeof COIN_ROWS | typeof RECOGNIZED_COINS)[number]['coin'] | typeof LIGHTNING_COIN.coin;
export type NativeCoin = Extract<(typeof COIN_ROWS)[number], { contract: null }>['coin'];

type AssetSpec = Readonly<AssetRow & { asset: Asset }>;
type FamilySpec = Readonly<FamilyRow & { family: Family }>;
type ChainSpec = Readonly<ChainRow & { chain: ChainId; family: Family; kind: ChainKind }>;
type CoinSpec = Readonly<CoinRow & { coin: Coin; asset: Asset; chain: ChainId; family: Family; name: string }>;

type Rows = { assets: readonly AssetRow[]; families: readonly FamilyRow[]; chains: readonly ChainRow[]; coins: readonly CoinRow[] };

const table = <Key extends string, Spec>(): Record<Key, Spec> => Object.create(null) as Record<Key, Spec>;
const assets: Record<Asset, AssetSpec> = table();
const families: Record<Family, FamilySpec> = table();
const chains: Record<ChainId, ChainSpec> = table();
const coins: Record<Coin, CoinSpec> = table();
const [assetCodes, familyCodes, chainCodes, coinCodes]: [Asset[], Family[], ChainId[], Coin[]] = [[], [], [], []];
const [everyAsset, everyCoin]: [Asset[], Coin[]] = [[], []];

/** Adds rows to the tables. Tests add rows of their own, before they load a module that reads the tables while it loads. */
export function addRows(rows: Rows): void {
  addKnown(rows);
  familyCodes.push(...(rows.families as readonly FamilySpec[]).map(({ family }) => family));
  assetCodes.push(...(rows.assets as readonly AssetSpec[]).map(({ asset }) => asset));
  coinCodes.push(...(rows.coins as readonly CoinSpec[]).map(({ coin }) => coin));
}
function addKnown(rows: Rows): void {
  for (const row of rows.assets as readonly AssetSpec[]) {
    assets[row.asset] = row;
    everyAsset.push(row.asset);
  }
  for (const row of rows.families as readonly FamilySpec[]) families[row.family] = row;
  for (const row of rows.chains as readonly ChainSpec[]) {
    chains[row.chain] = { ...row, kind: families[row.family].kind };
    chainCodes.push(row.chain);
  }
  for (const row of rows.coins as readonly CoinSpec[]) {
    coins[row.coin] = { ...row, family: chains[row.chain].family, name: assets[row.asset].name };
    everyCoin.push(row.coin);
  }
}
addRows({ assets: ASSET_ROWS, families: FAMILY_ROWS, chains: CHAIN_ROWS, coins: COIN_ROWS });
addKnown({ assets: RECOGNIZED_ASSETS, families: [], chains: [], coins: RECOGNIZED_COINS });
addKnown({ assets: [], families: [LIGHTNING_FAMILY], chains: [LIGHTNING_CHAIN], coins: [LIGHTNING_COIN] });

/** Bitcoin over Lightning, for merchants that set it up. */
export const LIGHTNING = LIGHTNING_COIN.coin;
/** The coin in which money of a coin moves on-chain: that of the asset for Lightning, else itself. */
export const onChainCoin = (coin: Coin): Coin => (coin === LIGHTNING ? coinsOf(COIN[LIGHTNING].asset)[0]! : coin);

/** What can be offered. */
export const ASSETS: readonly Asset[] = assetCodes;
export const FAMILIES: readonly Family[] = familyCodes;
/** The family of test wallets and of their addresses: one of its own, so that no follower watches them and no live payment gets one. */
export const testFamily = (family: Family): string => `test:${family}`;
/** The family of the wallets and addresses of a coin in a mode. */
export const familyIn = (mode: Mode, coin: Coin): string => (mode === 'test' ? testFamily(COIN[coin].family) : COIN[coin].family);
export const CHAINS: readonly ChainId[] = chainCodes;
export const COINS: readonly Coin[] = coinCodes;
/** What can arrive: besides, what is recognized and never offered, and Lightning. */
export const ALL_ASSETS: readonly Asset[] = everyAsset;
export const ALL_COINS: readonly Coin[] = everyCoin;

export const ASSET: Readonly<Record<Asset, AssetSpec>> = assets;
export const FAMILY: Readonly<Record<Family, FamilySpec>> = families;
export const CHAIN: Readonly<Record<ChainId, ChainSpec>> = chains;
export const COIN: Readonly<Record<Coin, CoinSpec>> = coins;

/** The chain that a coin lives on. */
export const chainOf = (coin: Coin): ChainSpec => CHAIN[COIN[coin].chain];
export const kindOf = (coin: Coin): ChainKind => chainOf(coin).kind;

const RESTS_ON = {
  confirmations: null,
  instantsend: 'locks',
  instantsend_or_chainlock: 'locks',
  chainlock: 'locks',
  safe: 'tags',
  finalized: 'tags',
  preimage: null,
} as const satisfies Record<CompletionRule, string | null>;
/** What finality of a coin's chain rests on besides depth: locks by masternodes, or the blocks that its nodes tag as final. */
export const finalityOf = (coin: Coin): 'locks' | 'tags' | null => {
  for (const { rule } of chainOf(coin).confirmations) if (RESTS_ON[rule]) return RESTS_ON[rule];
  return null;
};

/** The coins whose code also stands for their chain and their family: those that settings are named after. */
export const NATIVE_COINS = COINS.filter((coin) => COIN[coin].contract === null) as readonly NativeCoin[];

/** The contract of a token on a network; null where there is none, and for native coins. */
export const contractOf = (coin: Coin, network: Network): string | null =>
  network === 'testnet' ? (COIN[coin].testnetContract ?? null) : COIN[coin].contract;

export const NATIVE_ASSETS: readonly Asset[] = NATIVE_COINS.map((coin) => COIN[coin].asset);

/** Whether a coin is a token: a contract on its chain, and not what the chain itself is paid with. */
export const isToken = (coin: Coin): boolean => COIN[coin].contract !== null;

/** Assets of which every coin is a token. */
export const TOKEN_ASSETS: readonly Asset[] = ASSETS.filter((asset) => !NATIVE_ASSETS.includes(asset));

/** The coin after which settings and reports name the chain of a coin: the native one, where that is a coin here, else the first. */
export const nativeOf = (coin: Coin): Coin => coinsBeside(coin)[0]!;
/** The coin that pays for transactions of a coin: the native one of its chain, which on some networks is only recognized. */
export const feeCoinOf = (coin: Coin): Coin => strayNativeOf(coin) ?? nativeOf(coin);
/** One coin for each chain, in the order of the table. */
export const leadingCoins = (): Coin[] => COINS.filter((coin) => nativeOf(coin) === coin);

/** What tables keyed by chain store for the chain of a coin. */
export const chainCode = (coin: Coin): string => chainOf(coin).code;

/** What the settings of the chain of a coin begin with: `BTC`, `BASE`. */
export const settingOf = (coin: Coin): string => chainCode(coin).toUpperCase();

/** All coins on the chain of a coin, it included, with those that are only recognized. */
export const coinsBeside = (coin: Coin): Coin[] => ALL_COINS.filter((one) => COIN[one].chain === COIN[coin].chain);
/** The native coin of the chain of a coin if it is only recognized; null where it is offered. */
export const strayNativeOf = (coin: Coin): Coin | null =>
  RECOGNIZED_COINS.find(({ chain, contract }) => chain === COIN[coin].chain && contract === null)?.coin ?? null;
/** Whether payments can be requested in a coin; else it is only recognized when it arrives. */
export const isOfferable = (coin: Coin): boolean => coinCodes.includes(coin);
/** Whether a coin can have a price, its own or that of another asset. */
export const canBePriced = (coin: Coin): boolean => isAsset(pricedAs(coin));
/** The asset whose price values a coin. */
export const pricedAs = (coin: Coin): Asset => (ASSET[COIN[coin].asset].pricedAs as Asset | undefined) ?? COIN[coin].asset;

/** An asset on each of its chains; on one of them if `chain` is given, or nowhere. */
export const coinsOf = (asset: Asset, chain: ChainId | null = null): readonly Coin[] =>
  COINS.filter((coin) => COIN[coin].asset === asset && (chain === null || COIN[coin].chain === chain));

/** As people read a coin: "BTC", "USDC on Ethereum", "ETH on Base". */
export const coinText = (coin: Coin): string =>
  coin === COIN[coin].asset ? COIN[coin].asset : `${COIN[coin].asset} on ${chainOf(coin).name}`;

/** As the API names a coin: the code of its asset, and the ID of its chain. */
export const apiNamesOf = <T extends Coin | null>(
  coin: T,
): T extends Coin ? { currency: Asset; network: ChainId } : { currency: null; network: null } =>
  (coin === null ? { currency: null, network: null } : { currency: COIN[coin].asset, network: COIN[coin].chain }) as never;

/** Whether the text is exactly the code of a coin that can be offered; `isKnownCoin`: or of one that is recognized. */
export const isCoin = (text: unknown): text is Coin => isKnownCoin(text) && isOfferable(text);
export const isKnownCoin = (text: unknown): text is Coin => typeof text === 'string' && text in coins;
export const isChain = (text: unknown): text is ChainId => typeof text === 'string' && text in chains;
export const isAsset = (text: unknown): text is Asset => typeof text === 'string' && assetCodes.includes(text as Asset);
