/** What differs between the peer-to-peer networks and is data. */
import type { BitcoinFamily, Network } from '../../../core/coin.ts';

export type PeerNetwork = {
  family: BitcoinFamily;
  network: Network;
  /** The first four bytes of every message. Some networks share them: only the chain of headers tells networks apart. */
  magic: Buffer;
  port: number;
  /** The version of the protocol that Florin speaks. */
  version: number;
  /** Peers of an older version are refused; so do the networks themselves. */
  leastVersion: number;
  /** Services that a peer must have, beside its blocks. */
  needs: bigint;
  /** Names that resolve to addresses of peers. */
  seeds: readonly string[];
};

/** Service bits: all blocks, the last 288 blocks only, blocks with witness (without it a node does not follow today's rules). */
export const SERVICE = { network: 1n, witness: 8n, limited: 1024n } as const;
/** How many blocks a node with `SERVICE.limited` alone keeps. */
export const LIMITED_BLOCKS = 288;

const network = (
  family: BitcoinFamily,
  name: Network,
  magic: string,
  port: number,
  versions: { version: number; leastVersion: number; needs: bigint },
  seeds: readonly string[] = [],
): PeerNetwork => ({ family, network: name, magic: Buffer.from(magic, 'hex'), port, seeds, ...versions });

// `sendheaders` exists since 70012. 70017 would add a message that Florin does not need.
const BTC = { version: 70_016, leastVersion: 70_012, needs: SERVICE.witness };
const LTC = { version: 70_016, leastVersion: 70_012, needs: SERVICE.witness };
const DOGE = { version: 70_015, leastVersion: 70_012, needs: 0n };
const DASH = { version: 70_240, leastVersion: 70_221, needs: 0n };

/** From the clients' own sources: Bitcoin Core, Litecoin Core, Dogecoin Core and Dash Core. `testnet` is testnet4 on BTC. */
const NETWORKS: readonly PeerNetwork[] = [
  network('BTC', 'mainnet', 'f9beb4d9', 8333, BTC, [
    // `x9` asks for peers with all blocks and with witness.
    ...['x9.dnsseed.bluematt.me', 'x9.seed.bitcoin.jonasschnelli.ch', 'x9.seed.btc.petertodd.net', 'x9.seed.mainnet.achownodes.xyz'],
    ...['seed.bitcoin.sprovoost.nl', 'dnsseed.emzy.de', 'seed.bitcoin.wiz.biz'],
  ]),
  network('BTC', 'testnet', '1c163f28', 48_333, BTC, ['seed.testnet4.bitcoin.sprovoost.nl', 'seed.testnet4.wiz.biz']),
  network('BTC', 'regtest', 'fabfb5da', 18_444, BTC),
  network('LTC', 'mainnet', 'fbc0b6db', 9333, LTC, [
    ...['seed-a.litecoin.loshan.co.uk', 'dnsseed.thrasher.io', 'dnsseed.litecointools.com', 'dnsseed.litecoinpool.org'],
    'dnsseed.koin-project.com',
  ]),
  network('LTC', 'testnet', 'fdd2c8f1', 19_335, LTC, [
    ...['testnet-seed.litecointools.com', 'seed-b.litecoin.loshan.co.uk', 'dnsseed-testnet.thrasher.io'],
  ]),
  network('LTC', 'regtest', 'fabfb5da', 19_444, LTC),
  network('DOGE', 'mainnet', 'c0c0c0c0', 22_556, DOGE, ['seed.multidoge.org', 'seed2.multidoge.org']),
  network('DOGE', 'testnet', 'fcc1b7dc', 44_556, DOGE, ['testseed.jrn.me.uk']),
  network('DOGE', 'regtest', 'fabfb5da', 18_444, DOGE),
  network('DASH', 'mainnet', 'bf0c6bbd', 9999, DASH, ['dnsseed.dash.org']),
  network('DASH', 'testnet', 'cee2caff', 19_999, DASH, ['testnet-seed.dashdot.io']),
  network('DASH', 'regtest', 'fcc1b7dc', 19_899, DASH),
];

export const peerNetwork = (family: BitcoinFamily, name: Network): PeerNetwork =>
  NETWORKS.find((one) => one.family === family && one.network === name)!;
