/**
 * Rows that exist in tests only: a second EVM chain, and a token of six decimals on both EVM chains. Import this module before all others,
 * because some modules read the tables while they load.
 */
import { type Asset, addRows, CHAIN, type Chain, COIN, type Coin } from '../../src/core/coin.ts';

export const TOKEN = 'USDX' as Asset;
export const SECOND = 'second' as Chain;
export const ON_SECOND = 'USDX@second' as Coin;
export const ON_ETHEREUM = 'USDX@ethereum' as Coin;

const token = { asset: TOKEN, contract: '0x5FbDB2315678afecb367f032d93F642f64180aa3', decimals: 6, dustUnits: 1n, typicalSize: 65_000 };
addRows({
  assets: [{ asset: TOKEN, name: 'Dollar X', sampleE8: 100_000_000n, outlierPercent: 2n, markets: {} }],
  families: [],
  chains: [
    {
      ...CHAIN[COIN.ETH.chain],
      chain: SECOND,
      code: SECOND,
      name: 'Second',
      networkName: 'Second',
      chainIds: { mainnet: 4_242, testnet: 4_243, regtest: 31_338 },
      blockSeconds: 2,
      explorer: { mainnet: 'https://second.example/tx/' },
    },
  ],
  coins: [
    { ...token, coin: ON_SECOND, chain: SECOND },
    { ...token, coin: ON_ETHEREUM, chain: COIN.ETH.chain },
  ],
});
