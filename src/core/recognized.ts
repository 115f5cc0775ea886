/**
 * Coins that customers send by mistake to an address of another coin of the same family. They are recorded with their own name and worth,
 * and never offered: the native coins of networks where only tokens are accepted, and tokens that a bridge issued, which wallets often
 * show under the name of the real one. A token is its contract, so each bridged one is an asset of its own where the name is taken.
 */

/** `pricedAs`: the asset at whose price it is valued. Without one its worth is not known, and nobody can accept it. */
export const RECOGNIZED_ASSETS = [
  { asset: 'USDC.e', name: 'Bridged USDC', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDC', outlierPercent: 2n, markets: {} },
  { asset: 'USDbC', name: 'Bridged USDC of Base', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDC', outlierPercent: 2n, markets: {} },
  { asset: 'USDT.e', name: 'Bridged Tether', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDT', outlierPercent: 2n, markets: {} },
  { asset: 'USDT0', name: 'Bridged USDT0', sampleE8: 100_000_000n, par: 'USD', pricedAs: 'USDT', outlierPercent: 2n, markets: {} },
  { asset: 'POL', name: 'POL', sampleE8: 20_000_000n, outlierPercent: 3n, markets: {} },
] as const;

/** Less than a cent does not count. */
const SIX = { decimals: 6, dustUnits: 10_000n, typicalSize: 65_000 } as const;
const EIGHTEEN = { decimals: 18, dustUnits: 10n ** 16n, typicalSize: 65_000 } as const;
const ETHER = { asset: 'ETH', contract: null, decimals: 18, dustUnits: 10n ** 13n, typicalSize: 21_000 } as const;

export const RECOGNIZED_COINS = [
  { coin: 'ETH@base', chain: 'base', ...ETHER },
  { coin: 'USDbC@base', asset: 'USDbC', chain: 'base', contract: '0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA', ...SIX },
  { coin: 'USDT.e@base', asset: 'USDT.e', chain: 'base', contract: '0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2', ...SIX },
  { coin: 'USDT0@base', asset: 'USDT0', chain: 'base', contract: '0x102d758f688a4C1C5a80b116bD945d4455460282', ...SIX },
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
