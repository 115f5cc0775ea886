/** What differs between Bitcoin-like chains and is data: one row for each. The other files of this folder ask the row, never the name. */
import type { BitcoinFamily } from '../../core/coin.ts';

export type Params = {
  /** Transactions may carry witnesses (BIP-141), and addresses may be witness programs. */
  segwit: boolean;
  /** The last transaction of a block pays out of a MimbleWimble extension block (LIP-3), and transactions may have parts that only its nodes see. */
  mweb: boolean;
  /** Transactions of version 3 may have a type and an extra payload (DIP-2). */
  extraPayload: boolean;
  /** Blocks may be merge-mined: the proof of work of another chain then follows the header. */
  mergeMined: boolean;
  /** Blocks are identified by SHA-256 twice of their header. Otherwise the merkle root and the hash of the parent prove a block. */
  idIsSha256d: boolean;
  /** Masternodes lock transactions and blocks (InstantSend, ChainLocks), and nodes report it. */
  locks: boolean;
  /** Nodes are of the 0.14 generation: `getblock` takes true instead of a number, and `getrawtransaction` takes no block. */
  oldCalls: boolean;
  /** The lowest fee that is ever suggested, in base units per 1,000 virtual bytes. */
  floorPerKilobyte: bigint;
  /** Usual waiting times of the three fees, in minutes. */
  minutes: Readonly<Record<'fast' | 'normal' | 'slow', string>>;
};

const BITCOIN: Params = {
  segwit: true,
  mweb: false,
  extraPayload: false,
  mergeMined: false,
  idIsSha256d: true,
  locks: false,
  oldCalls: false,
  floorPerKilobyte: 1_000n,
  minutes: { fast: '10-20', normal: '30-60', slow: '120-240' },
};

export const PARAMS: Readonly<Record<BitcoinFamily, Params>> = {
  BTC: BITCOIN,
  LTC: { ...BITCOIN, mweb: true, minutes: { fast: '2-5', normal: '10-15', slow: '45-60' } },
  DASH: {
    ...BITCOIN,
    segwit: false,
    extraPayload: true,
    idIsSha256d: false,
    locks: true,
    minutes: { fast: '0-1', normal: '3-5', slow: '10-15' },
  },
  DOGE: {
    ...BITCOIN,
    segwit: false,
    mergeMined: true,
    oldCalls: true,
    floorPerKilobyte: 1_000_000n,
    minutes: { fast: '1-2', normal: '5-10', slow: '20-30' },
  },
};
