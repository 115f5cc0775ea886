/**
 * Rows that exist in tests only: a second EVM chain, a token of six decimals on both EVM chains, and one of eighteen on the second. Import this module before all others,
 * because some modules read the tables while they load.
 */
import { type Asset, addRows, CHAIN, type ChainId, COIN, type Coin } from '../../src/core/coin.ts';

export const TOKEN = 'USDX' as Asset;
export const SECOND = 'second' as ChainId;
export const ON_SECOND = 'USDX@second' as Coin;
export const ON_ETHEREUM = 'USDX@ethereum' as Coin;
export const OTHER = 'USDY' as Asset;
export const OTHER_ON_SECOND = 'USDY@second' as Coin;

const token = { asset: TOKEN, contract: '0x5FbDB2315678afecb367f032d93F642f64180aa3', decimals: 6, dustUnits: 1n, typicalSize: 65_000 };
addRows({
  assets: [
    { asset: TOKEN, name: 'Dollar X', sampleE8: 100_000_000n, outlierPercent: 2n, markets: {} },
    { asset: OTHER, name: 'Dollar Y', sampleE8: 100_000_000n, outlierPercent: 2n, markets: {} },
  ],
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
    { ...token, coin: OTHER_ON_SECOND, chain: SECOND, asset: OTHER, contract: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512', decimals: 18 },
  ],
});
