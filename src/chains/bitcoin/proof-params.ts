/** The consensus rules of each Bitcoin-like network that a header must follow: one row each. Sources: the chain parameters of each client. */

/** How the target of a block follows from earlier headers. */
export type Retarget =
  /** Every `interval` blocks, over `timespanSeconds`. */
  | {
      kind: 'period';
      interval: number;
      timespanSeconds: number;
      /** How far the block that starts the measured time is below the last block of the period. Core counts one less than the period has. */
      reach: number;
      /** LTC: a target with more than this many bits loses its lowest bit in the multiplication. */
      shiftAbove: number | null;
      /** Test networks: a block this long after its parent has the lowest difficulty. */
      minimumAfterSeconds: number | null;
      /** Testnet4 (BIP-94): the next target starts from the first block of a period, whose time is at most 600 s before its parent's. */
      fromFirst: boolean;
    }
  /** DOGE: DigiShield, every block; the rule before `from` is a period of 240 blocks. */
  | { kind: 'digishield'; from: number; minimumAfterSeconds: number | null }
  /** DASH: Dark Gravity Wave 3, every block. `eased`: test networks, after these seconds ten times the last target, then the limit. */
  | { kind: 'gravity'; from: number; eased: { tenfoldAfterSeconds: number; limitAfterSeconds: number } | null }
  /** Regtest: the lowest difficulty, always. */
  | { kind: 'fixed' };

export type ProofParams = {
  coin: 'BTC' | 'LTC' | 'DOGE' | 'DASH';
  /** The network, as the coin's clients name it. */
  network: 'main' | 'testnet3' | 'testnet4' | 'testnet' | 'signet' | 'regtest';
  /** Block 0, which tells the networks apart. */
  genesis: string;
  /** The highest target: the lowest difficulty. */
  powLimit: bigint;
  spacingSeconds: number;
  /** The hash that must be at most the target. */
  work: 'sha256d' | 'scrypt' | 'x11';
  /** The hash that identifies a block. */
  id: 'sha256d' | 'x11';
  retarget: Retarget;
  /** The lowest version, as a signed number. DOGE: of the low byte. */
  minimumVersion: number;
  /** DOGE: from this height, another chain's block may carry the work. `strict`: chain IDs are enforced. */
  auxpow: { chainId: number; from: number; strict: boolean } | null;
  /** The largest block without witnesses, in bytes. */
  maxBlockBytes: number;
};

const LIMIT_REGTEST = (1n << 255n) - 1n;
const TWO_WEEKS = { kind: 'period', interval: 2016, timespanSeconds: 1_209_600, reach: 2015, shiftAbove: null, fromFirst: false } as const;
const BTC = {
  coin: 'BTC',
  powLimit: (1n << 224n) - 1n,
  spacingSeconds: 600,
  work: 'sha256d',
  id: 'sha256d',
  minimumVersion: 4,
  auxpow: null,
  maxBlockBytes: 1_000_000,
} as const;
const LTC = {
  coin: 'LTC',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 150,
  work: 'scrypt',
  id: 'sha256d',
  minimumVersion: 0x20000000,
  auxpow: null,
  maxBlockBytes: 1_000_000,
} as const;
const LTC_PERIOD = { ...TWO_WEEKS, timespanSeconds: 302_400, reach: 2016, shiftAbove: 235 } as const;
const DOGE = {
  coin: 'DOGE',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 60,
  work: 'scrypt',
  id: 'sha256d',
  minimumVersion: 4,
  maxBlockBytes: 1_000_000,
} as const;
const DASH = {
  coin: 'DASH',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 150,
  work: 'x11',
  id: 'x11',
  minimumVersion: 4,
  auxpow: null,
  maxBlockBytes: 2_000_000,
} as const;

export const PROOF_PARAMS = {
  BTC: {
    main: {
      ...BTC,
      network: 'main',
      genesis: '000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f',
      retarget: { ...TWO_WEEKS, minimumAfterSeconds: null },
    },
    testnet3: {
      ...BTC,
      network: 'testnet3',
      genesis: '000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943',
      retarget: { ...TWO_WEEKS, minimumAfterSeconds: 1_200 },
    },
    testnet4: {
      ...BTC,
      network: 'testnet4',
      genesis: '00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043',
      retarget: { ...TWO_WEEKS, minimumAfterSeconds: 1_200, fromFirst: true },
    },
    signet: {
      ...BTC,
      network: 'signet',
      genesis: '00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6',
      powLimit: 0x377aen << 216n,
      retarget: { ...TWO_WEEKS, minimumAfterSeconds: null },
    },
    regtest: {
      ...BTC,
      network: 'regtest',
      genesis: '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206',
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
    },
  },
  LTC: {
    main: {
      ...LTC,
      network: 'main',
      genesis: '12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2',
      retarget: { ...LTC_PERIOD, minimumAfterSeconds: null },
    },
    testnet: {
      ...LTC,
      network: 'testnet',
      genesis: '4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0',
      retarget: { ...LTC_PERIOD, minimumAfterSeconds: 300 },
    },
    regtest: {
      ...LTC,
      network: 'regtest',
      genesis: '530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9',
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
    },
  },
  DOGE: {
    main: {
      ...DOGE,
      network: 'main',
      genesis: '1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691',
      retarget: { kind: 'digishield', from: 145_000, minimumAfterSeconds: null },
      auxpow: { chainId: 98, from: 371_337, strict: true },
    },
    testnet: {
      ...DOGE,
      network: 'testnet',
      genesis: 'bb0a78264637406b6360aad926284d544d7049f45189db5664f3c4d07350559e',
      retarget: { kind: 'digishield', from: 145_000, minimumAfterSeconds: 120 },
      auxpow: { chainId: 98, from: 158_100, strict: false },
    },
    regtest: {
      ...DOGE,
      network: 'regtest',
      genesis: '3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5',
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
      auxpow: { chainId: 98, from: 20, strict: true },
    },
  },
  DASH: {
    main: {
      ...DASH,
      network: 'main',
      genesis: '00000ffd590b1485b3caadc19b22e6379c733355108f107a430458cdf3407ab6',
      retarget: { kind: 'gravity', from: 34_140, eased: null },
    },
    testnet: {
      ...DASH,
      network: 'testnet',
      genesis: '00000bafbc94add76cb75e2ec92894837288a481e5c005f6563d91623bf8bc2c',
      retarget: { kind: 'gravity', from: 4_002, eased: { tenfoldAfterSeconds: 600, limitAfterSeconds: 7_200 } },
    },
    regtest: {
      ...DASH,
      network: 'regtest',
      genesis: '000008ca1832a4baf228eb1553c03d3a2c8e02399550dd6ea8d65cec3ef23d2e',
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
    },
  },
} as const satisfies Readonly<Record<ProofParams['coin'], Readonly<Partial<Record<ProofParams['network'], ProofParams>>>>>;
