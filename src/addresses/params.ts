/** What differs between Bitcoin-like chains and is data: one row for each. The other files of this folder ask the row, never the name. */
import { type BitcoinFamily, FAMILY, type Family, type Network } from '#core/coin';

/** What the key of an account can pay to, and what the keys of a multisig account can. */
export type BitcoinScript = 'p2wpkh' | 'p2tr' | 'p2sh-p2wpkh' | 'p2pkh' | 'p2wsh' | 'p2sh-p2wsh';

/** Address forms of a network: version bytes (P2SH may have a second, legacy one that is accepted only) and bech32 prefix. */
export type AddressForms = { p2pkh: number; p2sh: number; p2shLegacy?: number; hrp?: string };

/** How wallets spell an account key (SLIP-132 and kin): its version, whether it is of mainnet, and the script that it names. */
export type KeySpelling = { version: number; main: boolean; script: BitcoinScript | null };

export type Params = {
  forms: Readonly<Record<Network, AddressForms>>;
  /** Address types of a wallet whose key does not determine one, the usual one first. */
  scripts: readonly BitcoinScript[];
  /** Spellings of account keys besides `xpub` and `tpub`. */
  keys: readonly KeySpelling[];
  /** Addresses of other kinds, in lower case, that cannot be used, with the reason. */
  refused: readonly { prefix: string; reason: string }[];
  /** Transactions may carry witnesses (BIP-141), and addresses may be witness programs. */
  segwit: boolean;
  /** The last transaction of a block pays out of a MimbleWimble extension block (LIP-3), and transactions may have parts that only its nodes see. */
  mweb: boolean;
  /** Transactions of version 3 may have a type and an extra payload (DIP-2). */
  extraPayload: boolean;
  /** Blocks may be merge-mined: the proof of work of another chain then follows the header. */
  mergeMined: boolean;
  /** The largest block without witnesses, in bytes. */
  maxBlockBytes: number;
  /** Nodes are of the 0.14 generation: `getblock` takes true instead of a number, and `getrawtransaction` takes no block. */
  oldCalls: boolean;
  /** The lowest fee that is ever suggested, in base units per 1,000 virtual bytes. */
  floorPerKilobyte: bigint;
  /** Usual waiting times of the three fees, in minutes. */
  minutes: Readonly<Record<'fast' | 'normal' | 'slow', string>>;
};

const TESTNET_P2SH = 0xc4;
const SEGWIT_KEYS: readonly KeySpelling[] = [
  { version: 0x049d7cb2, main: true, script: 'p2sh-p2wpkh' }, // ypub
  { version: 0x04b24746, main: true, script: 'p2wpkh' }, // zpub
  { version: 0x044a5262, main: false, script: 'p2sh-p2wpkh' }, // upub
  { version: 0x045f1cf6, main: false, script: 'p2wpkh' }, // vpub
];
const PRIVATE_BALANCE = 'MWEB balances are private; use a transparent address';

const BITCOIN: Params = {
  forms: {
    mainnet: { p2pkh: 0x00, p2sh: 0x05, hrp: 'bc' },
    testnet: { p2pkh: 0x6f, p2sh: TESTNET_P2SH, hrp: 'tb' },
    regtest: { p2pkh: 0x6f, p2sh: TESTNET_P2SH, hrp: 'bcrt' },
  },
  scripts: ['p2wpkh', 'p2tr', 'p2sh-p2wpkh', 'p2pkh'],
  keys: SEGWIT_KEYS,
  refused: [],
  segwit: true,
  mweb: false,
  extraPayload: false,
  mergeMined: false,
  maxBlockBytes: 1_000_000,
  oldCalls: false,
  floorPerKilobyte: 1_000n,
  minutes: { fast: '10-20', normal: '30-60', slow: '120-240' },
};

export const PARAMS: Readonly<Record<BitcoinFamily, Params>> = {
  BTC: BITCOIN,
  LTC: {
    ...BITCOIN,
    forms: {
      mainnet: { p2pkh: 0x30, p2sh: 0x32, p2shLegacy: 0x05, hrp: 'ltc' },
      testnet: { p2pkh: 0x6f, p2sh: 0x3a, p2shLegacy: TESTNET_P2SH, hrp: 'tltc' },
      regtest: { p2pkh: 0x6f, p2sh: 0x3a, p2shLegacy: TESTNET_P2SH, hrp: 'rltc' },
    },
    scripts: ['p2wpkh', 'p2sh-p2wpkh', 'p2pkh'],
    keys: [
      ...SEGWIT_KEYS,
      { version: 0x019da462, main: true, script: 'p2pkh' }, // Ltub
      { version: 0x01b26ef6, main: true, script: 'p2sh-p2wpkh' }, // Mtub
      { version: 0x0436f6e1, main: false, script: null }, // ttub
    ],
    refused: ['ltcmweb1', 'tmweb1', 'rltcmweb1'].map((prefix) => ({ prefix, reason: PRIVATE_BALANCE })),
    mweb: true,
    minutes: { fast: '2-5', normal: '10-15', slow: '45-60' },
  },
  DASH: {
    ...BITCOIN,
    forms: {
      mainnet: { p2pkh: 0x4c, p2sh: 0x10 },
      testnet: { p2pkh: 0x8c, p2sh: 0x13 },
      regtest: { p2pkh: 0x8c, p2sh: 0x13 },
    },
    scripts: ['p2pkh'],
    keys: [{ version: 0x02fe52cc, main: true, script: 'p2pkh' }], // drkp
    segwit: false,
    extraPayload: true,
    maxBlockBytes: 2_000_000,
    minutes: { fast: '0-1', normal: '3-5', slow: '10-15' },
  },
  DOGE: {
    ...BITCOIN,
    forms: {
      mainnet: { p2pkh: 0x1e, p2sh: 0x16 },
      testnet: { p2pkh: 0x71, p2sh: TESTNET_P2SH },
      regtest: { p2pkh: 0x6f, p2sh: TESTNET_P2SH },
    },
    scripts: ['p2pkh'],
    keys: [{ version: 0x02facafd, main: true, script: 'p2pkh' }], // dgub
    segwit: false,
    mergeMined: true,
    oldCalls: true,
    floorPerKilobyte: 1_000_000n,
    minutes: { fast: '1-2', normal: '5-10', slow: '20-30' },
  },
};

/** Whether the chains of a family are read by this folder, so that it has a row here. */
export const isBitcoinLike = (family: Family): family is BitcoinFamily => FAMILY[family].kind === 'bitcoin';
