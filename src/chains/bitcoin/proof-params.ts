/**
 * What differs between Bitcoin-like networks and is data: the consensus rules that a header must follow, and how to find peers. One row each,
 * from the chain parameters of each client.
 */
import type { BitcoinFamily } from '#core/coin';

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

type PeerParams = {
  /** The first four bytes of every message, in hex. Some networks share them: only the chain of headers tells networks apart. */
  magic: string;
  port: number;
  /** Names that resolve to addresses of peers. */
  seeds?: readonly string[];
};

type FirstBlock = { merkleRoot: string; timeSeconds: number; nonce: number };

export type ProofParams = {
  coin: BitcoinFamily;
  /** The network, as the coin's clients name it. */
  network: 'main' | 'testnet3' | 'testnet4' | 'testnet' | 'signet' | 'regtest';
  /** Block 0, which tells the networks apart. */
  genesis: string;
  /** Regtest: what its block 0 contains, because the chain of headers begins there. Other networks begin at a checkpoint. */
  firstBlock?: FirstBlock;
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
  /** The version of the peer-to-peer protocol that Florin speaks. Peers of an older one than `least` are refused; so do the networks themselves. */
  protocol: { version: number; least: number };
  /** Missing where Florin does not read from peers. */
  peers?: PeerParams;
};

const LIMIT_REGTEST = (1n << 255n) - 1n;
const TWO_WEEKS = { kind: 'period', interval: 2016, timespanSeconds: 1_209_600, reach: 2015, shiftAbove: null, fromFirst: false } as const;
// `sendheaders` exists since 70012. 70017 would add a message that Florin does not need.
const BTC = {
  coin: 'BTC',
  powLimit: (1n << 224n) - 1n,
  spacingSeconds: 600,
  work: 'sha256d',
  id: 'sha256d',
  minimumVersion: 4,
  auxpow: null,
  protocol: { version: 70_016, least: 70_012 },
} as const;
const LTC = {
  coin: 'LTC',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 150,
  work: 'scrypt',
  id: 'sha256d',
  minimumVersion: 0x20000000,
  auxpow: null,
  protocol: { version: 70_016, least: 70_012 },
} as const;
const LTC_PERIOD = { ...TWO_WEEKS, timespanSeconds: 302_400, reach: 2016, shiftAbove: 235 } as const;
const DOGE = {
  coin: 'DOGE',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 60,
  work: 'scrypt',
  id: 'sha256d',
  minimumVersion: 4,
  protocol: { version: 70_015, least: 70_012 },
} as const;
const DASH = {
  coin: 'DASH',
  powLimit: (1n << 236n) - 1n,
  spacingSeconds: 150,
  work: 'x11',
  id: 'x11',
  minimumVersion: 4,
  auxpow: null,
  protocol: { version: 70_240, least: 70_221 },
} as const;

export const PROOF_PARAMS = {
  BTC: {
    main: {
      ...BTC,
      network: 'main',
      genesis: '000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f',
      retarget: { ...TWO_WEEKS, minimumAfterSeconds: null },
      peers: {
        magic: 'f9beb4d9',
        port: 8333,
        seeds: [
          // `x9` asks for peers with all blocks and with witness.
          ...['x9.dnsseed.bluematt.me', 'x9.seed.bitcoin.jonasschnelli.ch', 'x9.seed.btc.petertodd.net', 'x9.seed.mainnet.achownodes.xyz'],
          ...['seed.bitcoin.sprovoost.nl', 'dnsseed.emzy.de', 'seed.bitcoin.wiz.biz'],
        ],
      },
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
      peers: { magic: '1c163f28', port: 48_333, seeds: ['seed.testnet4.bitcoin.sprovoost.nl', 'seed.testnet4.wiz.biz'] },
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
      firstBlock: { merkleRoot: '4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b', timeSeconds: 1_296_688_602, nonce: 2 },
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
      peers: { magic: 'fabfb5da', port: 18_444 },
    },
  },
  LTC: {
    main: {
      ...LTC,
      network: 'main',
      genesis: '12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2',
      retarget: { ...LTC_PERIOD, minimumAfterSeconds: null },
      peers: {
        magic: 'fbc0b6db',
        port: 9333,
        seeds: [
          ...['seed-a.litecoin.loshan.co.uk', 'dnsseed.thrasher.io', 'dnsseed.litecointools.com', 'dnsseed.litecoinpool.org'],
          'dnsseed.koin-project.com',
        ],
      },
    },
    testnet: {
      ...LTC,
      network: 'testnet',
      genesis: '4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0',
      retarget: { ...LTC_PERIOD, minimumAfterSeconds: 300 },
      peers: {
        magic: 'fdd2c8f1',
        port: 19_335,
        seeds: ['testnet-seed.litecointools.com', 'seed-b.litecoin.loshan.co.uk', 'dnsseed-testnet.thrasher.io'],
      },
    },
    regtest: {
      ...LTC,
      network: 'regtest',
      genesis: '530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9',
      firstBlock: { merkleRoot: '97ddfbbae6be97fd6cdf3e7ca13232a3afff2353e29badfab7f73011edd4ced9', timeSeconds: 1_296_688_602, nonce: 0 },
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
      peers: { magic: 'fabfb5da', port: 19_444 },
    },
  },
  DOGE: {
    main: {
      ...DOGE,
      network: 'main',
      genesis: '1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691',
      retarget: { kind: 'digishield', from: 145_000, minimumAfterSeconds: null },
      auxpow: { chainId: 98, from: 371_337, strict: true },
      peers: { magic: 'c0c0c0c0', port: 22_556, seeds: ['seed.multidoge.org', 'seed2.multidoge.org'] },
    },
    testnet: {
      ...DOGE,
      network: 'testnet',
      genesis: 'bb0a78264637406b6360aad926284d544d7049f45189db5664f3c4d07350559e',
      retarget: { kind: 'digishield', from: 145_000, minimumAfterSeconds: 120 },
      auxpow: { chainId: 98, from: 158_100, strict: false },
      peers: { magic: 'fcc1b7dc', port: 44_556, seeds: ['testseed.jrn.me.uk'] },
    },
    regtest: {
      ...DOGE,
      network: 'regtest',
      genesis: '3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5',
      firstBlock: { merkleRoot: '5b2a3f53f605d62c53e62932dac6925e3d74afa5a4b459745c36d42d0ed26a69', timeSeconds: 1_296_688_602, nonce: 2 },
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
      auxpow: { chainId: 98, from: 20, strict: true },
      peers: { magic: 'fabfb5da', port: 18_444 },
    },
  },
  DASH: {
    main: {
      ...DASH,
      network: 'main',
      genesis: '00000ffd590b1485b3caadc19b22e6379c733355108f107a430458cdf3407ab6',
      retarget: { kind: 'gravity', from: 34_140, eased: null },
      peers: { magic: 'bf0c6bbd', port: 9999, seeds: ['dnsseed.dash.org'] },
    },
    testnet: {
      ...DASH,
      network: 'testnet',
      genesis: '00000bafbc94add76cb75e2ec92894837288a481e5c005f6563d91623bf8bc2c',
      retarget: { kind: 'gravity', from: 4_002, eased: { tenfoldAfterSeconds: 600, limitAfterSeconds: 7_200 } },
      peers: { magic: 'cee2caff', port: 19_999, seeds: ['testnet-seed.dashdot.io'] },
    },
    regtest: {
      ...DASH,
      network: 'regtest',
      genesis: '000008ca1832a4baf228eb1553c03d3a2c8e02399550dd6ea8d65cec3ef23d2e',
      firstBlock: {
        merkleRoot: 'e0028eb9648db56b1ac77cf090b99048a8007e2bb64b68f092c03c7f56a662c7',
        timeSeconds: 1_417_713_337,
        nonce: 1_096_447,
      },
      powLimit: LIMIT_REGTEST,
      retarget: { kind: 'fixed' },
      peers: { magic: 'fcc1b7dc', port: 19_899 },
    },
  },
} as const satisfies Readonly<Record<BitcoinFamily, Readonly<Partial<Record<ProofParams['network'], ProofParams>>>>>;
