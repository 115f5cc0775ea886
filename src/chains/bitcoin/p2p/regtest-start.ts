/** The first block of each private test network: its chain of headers begins there. */
import type { BitcoinFamily } from '../../../core/coin.ts';
import { encodeHeader } from '../header.ts';
import type { Start } from '../header-chain.ts';

const NO_PARENT = '0'.repeat(64);
const BITS = 0x207fffff;
/** From the chain parameters of each client. */
const FIRST: Readonly<Record<BitcoinFamily, { merkleRoot: string; timeSeconds: number; nonce: number }>> = {
  BTC: { merkleRoot: '4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b', timeSeconds: 1_296_688_602, nonce: 2 },
  LTC: { merkleRoot: '97ddfbbae6be97fd6cdf3e7ca13232a3afff2353e29badfab7f73011edd4ced9', timeSeconds: 1_296_688_602, nonce: 0 },
  DOGE: { merkleRoot: '5b2a3f53f605d62c53e62932dac6925e3d74afa5a4b459745c36d42d0ed26a69', timeSeconds: 1_296_688_602, nonce: 2 },
  DASH: { merkleRoot: 'e0028eb9648db56b1ac77cf090b99048a8007e2bb64b68f092c03c7f56a662c7', timeSeconds: 1_417_713_337, nonce: 1_096_447 },
};

export const regtestStart = (family: BitcoinFamily): Start => ({
  height: 0,
  headers: [encodeHeader({ version: 1, parent: NO_PARENT, bits: BITS, ...FIRST[family] })],
});
